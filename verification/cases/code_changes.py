"""Code that changes between a failed run and its resume: every row of the result must be made by the new code.

The first run keeps some partitions made by the old code and fails on one row. For the three kinds that were found wrong
the resume is run and its rows are counted. For the others `plan` is asked what the resume would reuse: nothing of the
old code, and everything if the code is the same as before.
"""

from __future__ import annotations

import contextlib
import importlib
import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle as rk
from cases.case import EQUAL_OR_REFUSED, Finding, Outcome, add, case
from cases.code_kinds import HEAD, HELPED, KINDS, MORE_KINDS
from cases.context import Context, by_k, rows, same

ROWS_PRICED = 199
# The kinds that CI plays; a whole campaign plays all.
QUICK = set(
    "callable-object class-attribute function-attribute lru-cache metaclass partial plain singledispatch".split()
)
HELPER = "case_helpers"
CHANGED = "changed"


def load(context: Context, text: str, rate: int, helper: str = "") -> dict[str, Any]:
    """Run a module's text as a script would be run, with the rate put in. `helper` is the text of a module that it
    imports, under a name of its own in each case: Python workers remember what they imported."""
    name = f"helper_{context.folder.name.replace('-', '_').replace(':', '_')}"
    if helper:
        (context.modules / f"{name}.py").write_text(helper.replace("RATE", str(rate)))
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
    names = f"FLAG = {context.path('fixed')!r}\nSOURCE = {context.tables.small!r}\n"
    text = names + HEAD + text.replace("RATE", str(rate)).replace(HELPER, name)
    path = context.path("priced.py")
    Path(path).write_text(text)
    linecache.clearcache()
    space: dict[str, Any] = {"__name__": "__main__", "__file__": path}
    exec(compile(text, path, "exec"), space)
    return space


def resumed(text: str) -> Callable[[Context], Finding]:
    """The case that runs the resume and counts the rows of both versions."""

    def play(context: Context) -> Finding:
        def pipeline(rate: int) -> Any:
            return context.pipeline([by_k(load(context, text, rate)["priced"])], context.tables.small)

        context.fail_late(pipeline(1))
        Path(context.path("fixed")).touch()
        summary = context.run(pipeline(2))
        found = context.published()
        old = found.where("y = x and x > 0").count()
        new = found.where("y = x * 2 and x > 0").count()
        reused = sum(step.reused for step in summary.steps.values())
        note = f"(rows by the old code, by the new); {reused} partitions reused"
        return same((0, ROWS_PRICED), (old, new), note)

    return play


def planned(text: str, helper: str = "") -> Callable[[Context], Finding]:
    """The case that asks `plan` what a resume by the same code and by new code would reuse."""

    def play(context: Context) -> Finding:
        def pipeline(rate: int) -> Any:
            return context.pipeline([by_k(load(context, text, rate, helper)["priced"])], context.tables.small)

        with _importing(context.modules):
            context.fail_late(pipeline(1))
            unchanged, why_unchanged = _kept(context, pipeline(1))
            changed, why_changed = _kept(context, pipeline(2))
        if changed:
            return Finding(Outcome.DIFFERENT, f"{changed} partitions of the old code would count after the change")
        if CHANGED not in why_changed:
            return Finding(Outcome.DIFFERENT, f"the change is not named: {why_changed}")
        if CHANGED in why_unchanged:
            return Finding(Outcome.LOST_WORK, f"the same code counts as changed: {why_unchanged}")
        return Finding(Outcome.EQUAL, f"{unchanged} partitions reused by the same code, 0 by the new")

    return play


@contextlib.contextmanager
def _importing(folder: Path) -> Iterator[None]:
    """Modules of that folder can be imported inside; no compiled file outlives its text."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = before


def _kept(context: Context, pipeline: Any) -> tuple[int, str]:
    """How many partitions of `priced` a resume would reuse, and what `plan` says of it."""
    plan = pipeline.plan(context.spark, context.location, options=context.options())
    stage = next(stage for stage in plan.stages if stage.step == "priced")
    return len(stage.kept), stage.reason


for _number, _kind in {"8a": "bound-method", "8b": "registered", "8c": "column"}.items():
    add(_number, f"{KINDS[_kind][0]} changes between a failure and its resume.", resumed(KINDS[_kind][1]))
for _kind, (_sentence, _text) in KINDS.items():
    if _kind != "temp-view":  # Its failure is below the exchange, so that nothing is kept: case 36 has it.
        add(
            f"8:{_kind}",
            f"{_sentence} changes between a failure and its plan.",
            planned(_text),
            is_quick=_kind in QUICK,
        )
for _kind, (_sentence, _text) in MORE_KINDS.items():
    add(f"89:{_kind}", f"{_sentence} changes between a failure and its plan.", planned(_text), is_quick=False)
for _kind, (_sentence, _helper, _text) in HELPED.items():
    add(
        f"8:{_kind}",
        f"{_sentence} changes between a failure and its plan.",
        planned(_text, _helper),
        is_quick=_kind in QUICK,
    )


def on_ramp(text: str) -> Callable[[Context], Finding]:
    """The case that keeps a frame by old code, by the same code again, and by new code."""

    def play(context: Context) -> Finding:
        Path(context.path("fixed")).touch()
        _, first = _script(context, text, 1)
        assert first == 0, "nothing can be reused at first"
        _, again = _script(context, text, 1)
        found, _ = _script(context, text, 2)
        if found != ROWS_PRICED:
            return Finding(Outcome.DIFFERENT, f"{found} of {ROWS_PRICED} rows by the new code")
        if not again:
            return Finding(Outcome.LOST_WORK, "the same code counts as changed: nothing was reused")
        return Finding(Outcome.EQUAL, f"{again} partitions reused by the same code, 0 by the new")

    return play


def _script(context: Context, text: str, rate: int) -> tuple[int, int]:
    """The rows that are made by the new code, and the partitions that were reused."""
    priced = load(context, text, rate)["priced"]
    with context.script("priced") as run:
        kept = run.keep(priced(context.spark.read.parquet(context.tables.small)), "priced")
        return kept.where("y = x * 2 and x > 0").count(), run.summary.reused


for _kind in "bound-method callable-object partial class-attribute function-attribute metaclass".split():
    _number = "32f" if _kind == "function-attribute" else f"32:{_kind}"
    add(
        _number,
        f"{KINDS[_kind][0]} changes between two starts of a script.",
        on_ramp(KINDS[_kind][1]),
        is_quick=_number == "32f",
    )


@case("23a")
def seed_of_a_sample(context: Context) -> Finding:
    """A script keeps a sample with a seed, and is started again with another seed."""
    return _seeded(context, lambda frame, seed: frame.sample(fraction=0.3, seed=seed), 42, 43)


@case("23b")
def seed_of_rand(context: Context) -> Finding:
    """A script keeps random numbers with a seed, and is started again with another seed."""
    return _seeded(context, lambda frame, seed: frame.select("id", F.rand(seed).alias("r")), 7, 8)


def _seeded(context: Context, made: Callable[[DataFrame, int], DataFrame], old: int, new: int) -> Finding:
    base = context.spark.read.parquet(context.tables.small)
    expected = {seed: rows(made(base, seed)) for seed in (old, new)}
    for seed in (old, new):
        with context.script("seeded") as run:
            finding = same(expected[seed], rows(run.keep(made(base, seed), "drawn")), f"for seed {seed}")
        if finding.outcome is not Outcome.EQUAL:
            return finding
    return finding


@case("36", EQUAL_OR_REFUSED, is_quick=False)
def source_is_a_view_with_a_function(context: Context) -> Finding:
    """A source is a temporary view that holds a Python function, which changes after a failure."""

    def pipeline(rate: int) -> rk.Pipeline:
        load(context, KINDS["temp-view"][1], rate)
        made = rk.Pipeline("viewed")

        def priced(spark: Any) -> DataFrame:
            found: DataFrame = spark.table("case_priced")
            return found

        def rows_of(priced: DataFrame) -> DataFrame:
            return priced.where("x >= 0")

        made.add_source(priced, partition_by="k", partitions=4)
        made.add_sink(rows_of, rk.files(context.path("out")))
        return made

    context.fail(pipeline(1))
    Path(context.path("fixed")).touch()
    context.run(pipeline(2))
    found = context.published()
    counts = found.where("y = x and x > 0").count(), found.where("y = x * 2 and x > 0").count()
    return same((0, ROWS_PRICED), counts, "(rows by the old code, by the new)")
