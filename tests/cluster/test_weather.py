"""A slice of `make weather` for every change: executors come and go, tasks run twice, and the shuffle is another's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from build_jar import TEST_JAR
from cluster_test.__main__ import make_input
from cluster_test.play import SHOP, Stage
from rekindle.local_cluster.cluster import LocalCluster
from stage import disk
from weather.faults import executor_alone
from weather.seen import seen_in
from weather.weathers import MIXED

pytestmark = pytest.mark.cluster


@pytest.mark.timeout(1800)
def test_a_killed_executor_in_mixed_weather(cluster: LocalCluster, tmp_path: Path) -> None:
    place = replace(disk(tmp_path), settings=dict(MIXED.settings))
    (tmp_path / "stage").mkdir()
    stage = Stage(SHOP, cluster, place, tmp_path / "stage", make_input(tmp_path / "input"), str(TEST_JAR))
    try:
        executor_alone(stage, MIXED)
        seen = seen_in(one.events for one in stage.drivers)
    finally:
        stage.end()
    assert MIXED.is_seen(seen), seen
