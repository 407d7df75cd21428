"""Which names in an attempt's directory belong to what counts. No Spark."""

from __future__ import annotations

import pytest

from rekindle.master.facts.digests import Digests
from rekindle.master.state.run_state import Segment
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.partitions import Partitions
from rekindle.results.leftovers import counted_tasks, is_counted
from rekindle.results.manifest import Commit, pack
from rekindle.results.result_paths import attempt_of, directory_of

ATTEMPT = AttemptId("orders", Generation(2), Epoch(3), 14)
ENDING = ".c000.snappy.parquet"


def segment(partitions: str, manifest: bytes) -> Segment:
    at = Partitions.parse(partitions)
    return Segment(ATTEMPT, at, manifest, Digests(at, None))


COMMITS = [
    Commit(partition=0, task=40, name=f"part-40_00000{ENDING}", bytes=9),
    Commit(partition=1, task=41, name=f"part-41_00001{ENDING}", bytes=9),
    Commit(partition=2, task=42, name="", bytes=-1),
]


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        ("_attempt", True),
        ("._attempt.crc", True),
        (f"part-40_00000{ENDING}", True),
        (f".part-40_00000{ENDING}.crc", True),
        ("_committed/00000-40-1-9", True),
        ("_committed/.00000-40-1-9.crc", True),
        ("_committed/00002-42-0-0", True),
        (f"part-50_00000{ENDING}", False),
        (f".part-50_00000{ENDING}.crc", False),
        ("_committed/00000-50-1-9", False),
        (f"part-41_00001{ENDING}", False),
        ("_committed/00001-41-1-9", False),
        (f"part-43_00003{ENDING}", False),
        ("_temporary/0/x", False),
        (".put-1234", False),
        ("notes.txt", False),
    ],
)
def test_a_name_is_kept_if_its_task_counts(name: str, is_kept: bool) -> None:
    tasks = counted_tasks([segment("0,2", pack(COMMITS, "{}"))])
    assert tasks == {0: 40, 2: 42}, "partition 1 was released"
    assert is_counted(name, tasks) is is_kept


def test_what_is_no_manifest_of_ours_makes_everything_needed() -> None:
    assert counted_tasks([segment("0", b"files")]) is None


@pytest.mark.parametrize(
    "path", ["results/orders/g2/e3-a14", "results/orders/g02/e3-a14/x", "results/orders/g2/x", "results/x", "x/y"]
)
def test_only_the_directory_of_an_attempt_has_one(path: str) -> None:
    assert attempt_of(f"{directory_of(ATTEMPT)}/deep/er") == ATTEMPT
    assert attempt_of(path) is None
