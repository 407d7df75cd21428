"""A slice of `make graph-truth`: what is drawn is what Spark reads. The judge must see, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graph_truth.judge import Seen, judge
from graph_truth.programs import BASES, PROGRAMS, digit
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.testing.drawing import draw
from support.eventlog import EventLog, Kind, SparkJob, SparkStage, SparkTask, Status

ROOT = Path(__file__).parent.parent.parent
SLICE = ("union", "coalesce_of_union", "broadcast_join", "subquery_of_itself", "fused_from_two", "sort")


@pytest.mark.slow
def test_a_slice_of_the_programs() -> None:
    command = [sys.executable, "-m", "verification", "graph_truth", "--only", ",".join(SLICE)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert f"programs={len(SLICE)} " in done.stdout and "wrong=0 wider=0" in done.stdout


def test_there_are_programs_enough() -> None:
    assert len(PROGRAMS) >= 40


def seen(drawing: str, origins: dict[int, frozenset[str]] | None = None) -> Seen:
    members = {"x": ("x",), **{base: (base,) for base in BASES}}
    return Seen("p", "r", GraphSpec.of(draw(drawing)), members, {"x": origins or {}}, {})


def log(*records: int, below: int = 0) -> EventLog:
    """Tasks that wrote, with the records that each read; and one that did not, before them."""
    tasks = [
        SparkTask(at, 1, 0, at, at, 0, "1", "h", 0, 1, Status.SUCCESS, "", Kind.RESULT, 0, 9, count)
        for at, count in enumerate(records)
    ]
    reading = SparkTask(99, 0, 0, 0, 0, 0, "1", "h", 0, 1, Status.SUCCESS, "", Kind.MAP, 0, 0, below)
    stages = tuple(SparkStage(number, 0, "", 1, (), ()) for number in (0, 1))
    return EventLog(
        "a", 0, (SparkJob(0, (0, 1), 0, "", frozenset({"rekindle-x-g0-e1-a1-r"})),), stages, (reading, *tasks)
    )


def rows(*parts: tuple[str, int]) -> int:
    return sum(4 ** digit(base, at) for base, at in parts)


EACH = [rows(("a", at)) for at in range(3)]
ALL_OF_A = sum(EACH)


@pytest.mark.parametrize(
    ("drawing", "read", "expected"),
    [
        pytest.param("a[3] =blocking=> x[3]", log(*EACH), "", id="each its own"),
        pytest.param("a[3] =blocking=> x[3]", log(EACH[0], EACH[1], EACH[1]), "wrong", id="one reads another"),
        pytest.param("a[3] =blocking interval=> x[2]", log(EACH[0], EACH[1] + EACH[2]), "", id="coalesced"),
        pytest.param("a[3] =blocking interval=> x[2]", log(EACH[0] + EACH[1], EACH[2]), "wrong", id="otherwise"),
        pytest.param("a[3] =blocking all=> x[2]", log(0, 0, below=ALL_OF_A), "", id="an exchange"),
        pytest.param("a[3] =blocking all=> x[2]", log(0, 0, below=EACH[0]), "wrong", id="an exchange of less"),
        pytest.param("a[3] =blocking all=> x[3]", log(*EACH), "wider", id="more is drawn"),
        pytest.param("a[3] =blocking all=> x[3]", log(*EACH, below=ALL_OF_A), "", id="read both ways"),
        pytest.param("a[3] =blocking=> x[3]", log(*EACH, below=rows(("b", 0))), "wrong", id="an edge is missing"),
    ],
)
def test_the_event_log_decides(drawing: str, read: EventLog, expected: str) -> None:
    found = judge(seen(drawing), read)
    assert [word for word in ("wrong", "wider") if getattr(found, word)] == ([expected] if expected else [])


def test_rows_that_come_from_elsewhere_are_wrong() -> None:
    told = seen("a[3] =blocking=> x[3]", {0: frozenset({"a0"}), 1: frozenset({"a1", "a2"})})
    (line,) = judge(told, log(*EACH)).wrong
    assert "rows of x[1] come from ['a2']" in line
