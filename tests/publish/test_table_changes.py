"""What happened to a table since it was read: whose it is, and whether a publication would undo it."""

from __future__ import annotations

import json

import pytest

from rekindle.master.facts.events import Fence
from rekindle.publish.table_changes import ChangedFile, read_changes, undone

OURS, PLACE = "v7-1-1-abc", "abc"
DAY = {"day": ("string", "2")}


def line(told: str = "", commit: str = "version 3, WRITE", **stats: str) -> str:
    found = {"numRecords": 1, "minValues": stats, "maxValues": stats, "nullCount": dict.fromkeys(stats, 0)}
    return "\t".join((told, commit, "part-0.parquet", "10", "{}", json.dumps(found), "", "0"))


def changed(*lines: str) -> list[ChangedFile]:
    found = read_changes(lines)
    assert found is not None
    return found


def test_a_log_that_does_not_go_back_so_far_tells_nothing() -> None:
    assert read_changes(["gone"]) is None
    assert read_changes([]) == []


@pytest.mark.parametrize(
    ("told", "run"),
    [
        pytest.param(OURS, (PLACE, Fence(7, 1, 1)), id="a snapshot of Iceberg names the publication"),
        pytest.param(
            json.dumps({"rekindle": {"publication": OURS}}), (PLACE, Fence(7, 1, 1)), id="so does a commit of Delta"
        ),
        pytest.param("", None, id="somebody else says nothing"),
        pytest.param("a note", None, id="or something"),
        pytest.param("{not json", None, id="that begins like JSON"),
        pytest.param('{"rekindle": 1}', None, id="or has our name for something else"),
        pytest.param("[]", None, id="or is another kind of JSON"),
    ],
)
def test_whose_commit_it_is(told: str, run: tuple[str, Fence] | None) -> None:
    (one,) = changed(line(told))
    assert one.run == run and one.commit == "version 3, WRITE"


def test_what_the_run_itself_published_is_not_undone() -> None:
    changes = changed(line(OURS))
    assert undone(changes, PLACE, 7, {}) is None
    assert undone(changes, PLACE, 8, {}) is changes[0], "another run"
    assert undone(changes, "def", 7, {}) is changes[0], "a run of another location"


def test_rows_with_other_values_than_those_that_are_replaced_stay() -> None:
    changes = changed(line(day="1"), line(day="3"))
    assert undone(changes, PLACE, 8, DAY) is None
    assert undone(changes, PLACE, 8, {}) is changes[0], "everything is replaced"
    assert undone(changed(line(day="2")), PLACE, 8, DAY) is not None


def test_a_file_that_says_nothing_of_its_rows_may_have_any() -> None:
    unknown = "\t".join(("", "snapshot 5, delete", "", "0", "{}", "", "", "1"))
    assert undone(changed(unknown), PLACE, 8, DAY) is not None
