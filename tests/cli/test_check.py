"""`rekindle check`: what is said of each step, and the exit code."""

from __future__ import annotations

import click
import pytest

from rekindle.cli.boundary import ExitCode
from rekindle.cli.check import said_of, tell
from rekindle.cli.main import group
from rekindle.cli.text import MARK
from rekindle.cli.typed import begin
from rekindle.model.kinds import Determinism
from rekindle.pipeline.step_trial import Trial

SAME = Trial(step="clean", place="daily.py:3", level=Determinism.DETERMINATE, rows=1200)
OTHER = Trial(
    step="first",
    place="daily.py:8",
    level=Determinism.UNKNOWN,
    doubts=("First at daily.py:9",),
    rows=7,
    different=2,
    example="[1, 2]",
)
BROKEN = Trial(step="drawn", place="daily.py:12", level=Determinism.DECLARED, rows=7, different=7, example="[1, 9]")
EMPTY = Trial(step="joined", place="daily.py:16", level=Determinism.DETERMINATE)
FAILED = Trial(step="reader", place="daily.py:20", level=Determinism.UNKNOWN, failure="it reads broken, which failed")


@pytest.mark.parametrize(
    ("trial", "said"),
    [
        (SAME, "equal: 1,200 rows, determinate"),
        (OTHER, "2 of 7 rows differ the second time, unknown (First at daily.py:9), such as [1, 2]"),
        (BROKEN, "7 of 7 rows differ the second time, declared, such as [1, 9]"),
        (EMPTY, "nothing to compare: the sample gives no rows, determinate"),
        (FAILED, "could not be tried: it reads broken, which failed"),
    ],
)
def test_one_line_for_each_step(trial: Trial, said: str) -> None:
    assert click.unstyle(said_of(trial).replace(MARK, "\x1b")) == said


def test_what_follows_from_it(capsys: pytest.CaptureFixture[str]) -> None:
    begin(group, ["check", "--rows", "50", "--master", "local[2]", "daily.py"])
    assert tell([SAME]) == ExitCode.DONE
    assert capsys.readouterr().out == ""
    assert tell([SAME, OTHER, BROKEN]) == ExitCode.WORK
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "daily.py:12: drawn is declared deterministic but is not: remove deterministic=True"
    assert said[1].startswith("not determinate: first, drawn.")
    assert tell([OTHER, FAILED]) == ExitCode.FAILED
    capsys.readouterr()
    assert tell([SAME, EMPTY], 50) == ExitCode.DONE and not EMPTY.is_same
    again = "rekindle check --rows 500 --master 'local[2]' daily.py"
    assert capsys.readouterr().out == f"not tried: joined. A larger sample may help: {again}\n"
