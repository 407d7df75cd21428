"""Results of an earlier run that a new run would compute again. Bare Spark is the judge of the rows."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from cli.calling import call
from rekindle.master.facts.config import MasterConfig
from rekindle.master.rules.reuse import reusable
from rekindle.service import reuse, running

DAY_MS = 86_400_000
KEPT = MasterConfig(keep_ms=DAY_MS)
STEPS = 10
CHANGED = 7


class Loop:
    """The development loop: ten kept steps, one of which changes. Step n adds n times its factor."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.factors = dict.fromkeys(range(1, STEPS + 1), 1)
        self.write(100)

    def write(self, rows: int) -> None:
        self.spark.range(rows).write.mode("overwrite").parquet(f"file:{self.folder}/in")

    def pipeline(self, *, steps: Mapping[int, Mapping[str, Any]] | None = None) -> rk.Pipeline:
        pipeline, source = rk.Pipeline("loop"), f"file:{self.folder}/in"

        @pipeline.source
        def numbers(spark: SparkSession) -> DataFrame:
            return spark.read.parquet(source).withColumn("total", F.lit(0))

        for number in range(1, STEPS + 1):
            self._step(pipeline, number, (steps or {}).get(number, {}))
        pipeline.sink(rk.files(f"{self.folder}/out"))(published)
        return pipeline

    def _step(self, pipeline: rk.Pipeline, number: int, options: Mapping[str, Any]) -> None:
        before, factor = "numbers" if number == 1 else f"step{number - 1}", self.factors[number]
        body = f"return {before}.withColumn('total', total({before}, {number} * {factor}))"
        code = f"def step{number}({before}):\n    {body}\n"
        names: dict[str, Any] = {"total": _total}
        exec(compile(code, f"step{number}", "exec"), names)
        pipeline.step(partition_by="id", partitions=2, result="blocking", **options)(names[f"step{number}"])

    def run(self, config: MasterConfig = KEPT, **more: Any) -> rk.RunSummary:
        given = {one: more.pop(one) for one in ("steps",) if one in more}
        key = {one: more.pop(one) for one in ("day",) if one in more}
        options = rk.RunOptions(**{"new": True, "quiet": True, "config": config, **more})
        return self.pipeline(**given).run(self.spark, f"{self.folder}/runs", options=options, **key)

    def rows(self) -> list[tuple[int, int]]:
        found = rk.read_newest(self.spark, f"{self.folder}/out").orderBy("id")
        return [(row["id"], row["total"]) for row in found.collect()]

    def bare(self, rows: int = 100) -> list[tuple[int, int]]:
        total = sum(number * factor for number, factor in self.factors.items())
        return [(row["id"], total) for row in self.spark.range(rows).orderBy("id").collect()]


def published(step10: DataFrame, day: str = "") -> None: ...


def _total(frame: DataFrame, more: int) -> Any:
    return frame["total"] + more


def computed(summary: rk.RunSummary) -> list[int]:
    """The numbers of the steps of which something was computed."""
    kept = {name: step for name, step in summary.steps.items() if name.startswith("step")}
    assert len(kept) == STEPS, "every step is kept"
    return sorted(int(name.removeprefix("step")) for name, step in kept.items() if step.computed)


@pytest.fixture
def loop(spark: SparkSession, tmp_path: Path) -> Loop:
    return Loop(spark, tmp_path)


def test_only_what_follows_the_change_is_computed(loop: Loop, capsys: pytest.CaptureFixture[str]) -> None:
    assert computed(loop.run()) == list(range(1, STEPS + 1))
    loop.factors[CHANGED] = 5
    plan = loop.pipeline().plan(loop.spark, f"{loop.folder}/runs", options=rk.RunOptions(new=True, config=KEPT))
    assert computed(loop.run()) == list(range(CHANGED, STEPS + 1))
    assert loop.rows() == loop.bare()
    assert "step6" in str(plan) and "reused from run 1" in str(plan)
    said = call(capsys, "explain", "step3[0]", "--location", f"{loop.folder}/runs")
    assert "taken from run 1, which kept the same result" in said.out
    assert computed(loop.run()) == [], "nothing changed: it is only published again"
    assert loop.rows() == loop.bare()


def test_off_means_off(loop: Loop) -> None:
    everything = list(range(1, STEPS + 1))
    off = MasterConfig()
    assert computed(loop.run(off)) == everything
    assert not list((loop.folder / "runs").rglob("*.parquet")), "nothing is kept"
    assert computed(loop.run()) == everything
    assert computed(loop.run(reuse=False)) == everything
    assert computed(loop.run()) == []


def test_changed_input_is_read(loop: Loop) -> None:
    loop.run()
    loop.write(50)
    assert computed(loop.run()) == list(range(1, STEPS + 1))
    assert loop.rows() == loop.bare(50)


def test_what_is_lost_is_computed_and_all_that_was_made_from_it(loop: Loop) -> None:
    """The results of step 4 go behind the journal's back; the run that would have used them computes 4 to 10."""
    loop.run()
    gone = next(path for path in (loop.folder / "runs/loop").glob("*/results/step4"))
    shutil.rmtree(gone)
    assert computed(loop.run()) == list(range(4, STEPS + 1))
    assert loop.rows() == loop.bare()


def test_each_run_has_files_of_its_own(loop: Loop, capsys: pytest.CaptureFixture[str]) -> None:
    """gc removes the results of the first run when their time is over; the second one is not touched."""
    loop.run(replace_keep(1))
    assert computed(loop.run()) == []
    soon = ("--location", f"{loop.folder}/runs", "--set", "gc.grace_hours=0")
    said = call(capsys, "gc", *soon)
    assert said.code == 0 and "its results were kept for as long as it was told to" in said.out
    left = {path.relative_to(loop.folder / "runs/loop").parts[0] for path in (loop.folder / "runs").rglob("*.parquet")}
    assert len(left) == 1
    assert "nothing to delete" in call(capsys, "gc", *soon).out
    loop.factors[STEPS] = 3
    assert computed(loop.run()) == [STEPS]
    assert loop.rows() == loop.bare()
    assert computed(loop.run(new=False)) == [], "the key of a run whose results went is done"


def replace_keep(milliseconds: int) -> MasterConfig:
    return MasterConfig(keep_ms=milliseconds)


def test_of_other_parameters_only_what_is_determinate_or_said_to_be_reused(loop: Loop) -> None:
    """Runs of the same parameters take everything, as if they were resumed."""
    unsure, said = {5: {"deterministic": False}}, {5: {"deterministic": False, "reuse": True}}
    loop.run(day="1", steps=unsure)
    assert computed(loop.run(day="1", steps=unsure)) == []
    options = rk.RunOptions(new=True, config=KEPT)
    plan = loop.pipeline(steps=unsure).plan(loop.spark, f"{loop.folder}/runs", options=options, day="2")
    assert "not taken from run 2: it is not determinate" in str(plan)
    assert "not taken from run 2: step5 is not reused" in str(plan)
    assert computed(loop.run(day="2", steps=unsure)) == list(range(5, STEPS + 1))
    assert computed(loop.run(day="3", steps=said)) == []
    assert loop.rows() == loop.bare()


@pytest.mark.parametrize("word", [{}, {"reuse": True}, {"deterministic": True}])
def test_what_depends_on_the_time_is_computed(spark: SparkSession, tmp_path: Path, word: dict[str, Any]) -> None:
    """Whatever the user says."""

    def run() -> rk.RunSummary:
        pipeline = rk.Pipeline("clock")

        @pipeline.source
        def numbers(spark: SparkSession) -> DataFrame:
            return spark.range(10)

        @pipeline.step(partition_by="id", partitions=2, **word)
        def before(numbers: DataFrame) -> DataFrame:
            return numbers.withColumn("other", F.col("id") + 1)

        @pipeline.step(partition_by="id", partitions=2, **word)
        def stamped(before: DataFrame) -> DataFrame:
            return before.withColumn("at", F.current_timestamp())

        @pipeline.sink(rk.files(f"{tmp_path}/out"))
        def out(stamped: DataFrame) -> None: ...

        options = rk.RunOptions(new=True, quiet=True, config=KEPT)
        return pipeline.run(spark, f"{tmp_path}/runs", options=options)

    run()
    first = {row["at"] for row in rk.read_newest(spark, f"{tmp_path}/out").collect()}
    summary = run()
    assert {name: step.computed for name, step in summary.steps.items()} == {"before": 0, "stamped": 2}
    assert first.isdisjoint(row["at"] for row in rk.read_newest(spark, f"{tmp_path}/out").collect())


def test_without_the_look_at_what_was_read_a_run_mixes_two_versions(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the rule: results that were made from others than those that are reused."""
    loop.run()
    loop.factors[CHANGED] = 5

    def careless(spec: Any, earlier: Any, *, has_same_key: bool) -> dict[str, str]:
        found = reusable(spec, earlier, has_same_key=has_same_key)
        return {name: "" if why.endswith("is not reused") else why for name, why in found.items()}

    monkeypatch.setattr(reuse, "reusable", careless)
    monkeypatch.setattr(reuse, "GraphIndex", lambda spec: _Blind(spec))
    loop.run()
    assert loop.rows() != loop.bare()


class _Blind:
    """A graph in which nothing is made from anything."""

    def __init__(self, spec: Any) -> None:
        self.upstream = {step.name: frozenset({step.name}) for step in spec.steps}


def test_a_run_killed_before_its_first_record_begins_again(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    loop.run()
    with monkeypatch.context() as patched:
        patched.setattr(running, "execute", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            loop.run(run="second")
    summary = loop.run(run="second")
    assert (summary.run, computed(summary)) == ("second", [])
    assert loop.rows() == loop.bare()
