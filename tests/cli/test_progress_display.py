"""What a run draws: in terminals of any width, and in none."""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from textwrap import dedent

import pytest
from rich.console import Console

from master.driving import Driven
from rekindle.cli.plan import reasons, show, tell
from rekindle.cli.progress import Display
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.partitions import Partitions
from rekindle.observe.plan_ahead import play
from rekindle.observe.plan_make import PlanInputs, plan_of

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SHOP = "orders[4]@run_end =blocking=> enriched[4]@run_end"
FAILURE = Failure(
    "enriched", Partitions((3,)), Cause(FailureKind.EXCEPTION, "ValueError: [bad] row, at daily.py:7"), "s"
)


def drawn(console: Console) -> None:
    """A run that fails once and heals, watched."""
    run = Driven(SHOP)
    with Display(console) as display:
        display(tuple(run.journal), run.state)
        for act in (
            lambda: run.finish("orders"),
            lambda: run.commit("enriched", "0-2"),
            lambda: run.give(st.AttemptEnded(attempt=run.attempt("enriched"), failures=(FAILURE,))),
            lambda: run.give(st.Tick(), after_ms=10_000),
            lambda: run.finish("enriched"),
        ):
            before = len(run.journal)
            act()
            display(tuple(run.journal[before:]), run.state)


def test_a_run_goes_on_when_nobody_reads_any_more() -> None:
    script = """
    import os, sys
    from rekindle.cli.plan import console
    end, begin = os.pipe()
    os.dup2(begin, 1)
    os.close(end)
    to = console()
    to.print("x" * 100_000)
    to.print("and more")
    sys.stderr.write("went on")
    """
    done = subprocess.run([sys.executable, "-c", dedent(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "went on")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_on_a_terminal_each_step_has_a_line_and_news_stand_above(width: int) -> None:
    out = StringIO()
    drawn(Console(file=out, force_terminal=True, width=width, highlight=False))
    text = " ".join(ESCAPES.sub("", out.getvalue()).split())
    assert "enriched[3] failed: ValueError: [bad] row, at daily.py:7" in text
    assert "enriched: starts 1 partition (3: failed)" in text
    assert "4/4" in text and "1 restarted" in text


def test_without_a_terminal_there_are_plain_lines() -> None:
    out = StringIO()
    drawn(Console(file=out, width=80, highlight=False))
    lines = [line.split(" ", 1)[1] for line in out.getvalue().splitlines()]
    assert "\x1b" not in out.getvalue()
    assert "orders: 4/4 done" in lines
    assert lines[-1] == "enriched: 4/4 done (1 restarted)"


@pytest.mark.parametrize("width", [40, 120])
def test_a_plan_in_a_terminal_of_any_width_shows_everything(width: int) -> None:
    run = Driven(SHOP)
    run.finish("orders")
    first = st.TakeOver(application="new", owner="me", spec=RunSpec(graph=GraphSpec.of(run.graph)))
    plan = plan_of(
        run.state, play(run.state, first, run.now, lambda attempt: st.AttemptSealed(attempt=attempt)), PlanInputs()
    )
    out = StringIO()
    to = Console(file=out, width=width, highlight=False)
    show(plan, to)
    for line in reasons(plan, is_verbose=True):
        tell(to, line)
    words = " ".join(out.getvalue().split())
    assert "orders reuse 4/4" in words and "enriched compute 4/4" in words
    assert "not yet run" in words and "Restart set: 4 of 8 partitions" in words
    assert max(map(len, out.getvalue().splitlines()[1:3])) <= width


@pytest.mark.parametrize("width", [40, 60, 120])
def test_sentences_are_wrapped_at_spaces_on_a_terminal(width: int) -> None:
    out = StringIO()
    console = Console(file=out, force_terminal=True, width=width, highlight=False, color_system=None)
    tell(console, "  " + "a sentence that is longer than a narrow terminal [is] wide, " * 2 + "/a/path" * 20)
    drawn(console)
    lines = ESCAPES.sub("", out.getvalue()).splitlines()
    assert [line for line in lines if len(line.rstrip()) > width] == ["    " + "/a/path" * 20]
    assert "[is]" in out.getvalue()
