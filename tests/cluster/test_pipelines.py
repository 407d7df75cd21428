"""A slice of `make cluster-test` for every change: whole pipelines on a real cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from build_jar import TEST_JAR
from cluster_test.__main__ import make_input
from cluster_test.cases import changed_code, drivers
from cluster_test.play import SHOP, Figures, Stage
from rekindle.local_cluster.cluster import LocalCluster
from stage import Place, cloud, disk
from support.s3 import S3Server

pytestmark = pytest.mark.cluster


def played(case: Callable[[Stage], Figures], cluster: LocalCluster, place: Place, folder: Path) -> Figures:
    (folder / "stage").mkdir()
    stage = Stage(SHOP, cluster, place, folder / "stage", make_input(folder / "input"), str(TEST_JAR))
    try:
        return case(stage)
    finally:
        stage.end()


@pytest.mark.timeout(1800)
def test_poison_damage_and_changes_on_disk(cluster: LocalCluster, tmp_path: Path) -> None:
    names = ("accepted", "damaged")
    figures = played(lambda stage: changed_code(stage, names), cluster, disk(tmp_path), tmp_path)
    assert figures["runs"] == len(names)


@pytest.mark.timeout(1800)
def test_drivers_that_die_on_s3(cluster: LocalCluster, s3: S3Server, tmp_path: Path) -> None:
    assert played(lambda stage: drivers(stage, 2), cluster, cloud(s3), tmp_path)["again"] == 0
