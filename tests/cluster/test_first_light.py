"""A slice of first light for every change: the cases of `make first-light`, but for the driver kills, of which
`test_pipelines.py` has a slice on S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_jar import TEST_JAR
from first_light.__main__ import make_input
from first_light.cases import aborts_and_changes, delayed_commit, exchange_recomputed, zombie_driver
from first_light.play import LIGHT, Stage
from rekindle.local_cluster.cluster import LocalCluster
from stage import Place, cloud, disk
from support.s3 import S3Server

pytestmark = pytest.mark.cluster


def stage(cluster: LocalCluster, place: Place, folder: Path) -> Stage:
    (folder / "stage").mkdir()
    return Stage(LIGHT, cluster, place, folder / "stage", make_input(folder / "input"), str(TEST_JAR))


@pytest.mark.timeout(1800)
def test_aborts_and_changes_on_disk(cluster: LocalCluster, tmp_path: Path) -> None:
    on = stage(cluster, disk(tmp_path), tmp_path)
    try:
        figures = aborts_and_changes(on)
    finally:
        on.end()
    assert figures == {
        "retry_maps": 0,
        "retry_finals": 1,
        "bare_partitions_kept": 0,
        "accepted_maps": 8,
        "accepted_finals": 1,
        "started_over_finals": 16,
        "join_finals": 1,
    }


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", ["exchange", "commit", "zombie"])
def test_processes_that_die_on_s3(cluster: LocalCluster, s3: S3Server, tmp_path: Path, case: str) -> None:
    on = stage(cluster, cloud(s3), tmp_path)
    try:
        match case:
            case "exchange":
                figures = exchange_recomputed(on, 1, 1)
                assert (figures["lost"], figures["doubled"]) == (0, 0)
                assert figures["control_wrong"] > 0
            case "commit":
                assert delayed_commit(on)["late_commits"] == 1
            case _:
                zombie_driver(on)
    finally:
        on.end()
