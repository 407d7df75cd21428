"""`rk.run` and `run.keep` on one local Spark application: what is kept, what is found again, what is made anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.engine.spark.publish import sinks
from rekindle.errors import ConfigRefused
from rekindle.failover.backoff import NoRestart
from rekindle.journal.history import read as read_journal
from rekindle.journal.keys import listed
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import PartitionsCommitted
from rekindle.onramp import ScriptRun
from rekindle.runtime.opening import codec
from rekindle.storage.stores import open_store

ONE_TRY = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(NoRestart())))
SCORE = "def score(k):\n    return k * 2\n"
ROWS = 200


def last_to_fail(poison: Path, location: str) -> str:
    """A script whose partition with k=3 fails while `poison` is there, once the three others are committed: Spark ends
    the tasks that still run when one fails."""
    return (
        "import time\nfrom pathlib import Path\n"
        "def score(k):\n"
        f"    if k == 3 and Path({str(poison)!r}).exists():\n"
        f"        for _ in range(1200):\n"
        f"            if len(list(Path({location!r}).glob('daily.scored/**/_committed/0*'))) >= 3: break\n"
        "            time.sleep(0.05)\n"
        "        raise ValueError('cannot score 3')\n"
        "    return k * 2\n"
    )


class Script:
    """A script that is started again and again: each `start` is one `with` block, with what it told and how many Spark
    jobs it started."""

    def __init__(self, spark: SparkSession, folder: Path, data: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.data = data
        self.told: list[str] = []
        self.jobs = 0
        self.run: ScriptRun

    @property
    def location(self) -> str:
        return str(self.folder / "runs")

    def start(self, act: Callable[[ScriptRun], Any], options: rk.RunOptions = ONE_TRY, **parameters: Any) -> Any:
        self.told = []
        before = self._jobs()
        try:
            with rk.run(
                "daily", self.spark, self.location, options=options, tell=self.told.append, **parameters
            ) as self.run:
                return act(self.run)
        finally:
            self.jobs = self._jobs() - before

    def counts(self) -> dict[str, tuple[int, int]]:
        """Computed and reused, of each result of the last start."""
        return {one.name: (one.computed, one.reused) for one in self.run.summary.results}

    def changes(self, name: str) -> tuple[str, ...]:
        return next(one.changes for one in self.run.summary.results if one.name == name)

    def committed(self, name: str) -> list[str]:
        """What each record of the newest run of a result made count, in order."""
        store, pipeline = open_store(self.location), f"daily.{name}"
        [*_, run] = listed(store, pipeline).values()
        events = read_journal(store, f"{pipeline}/{run}", codec()).events
        return [str(event.partitions) for event in events if isinstance(event, PartitionsCommitted)]

    def orders(self) -> DataFrame:
        return self.spark.read.schema("id long, k long").parquet(str(self.data))

    def _jobs(self) -> int:
        return int(self.spark._jsc.sc().dagScheduler().numTotalJobs())


@pytest.fixture(scope="module")
def data(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "orders"
    spark.range(ROWS).selectExpr("id", "id % 8 as k").write.parquet(str(folder))
    return folder


@pytest.fixture
def script(spark: SparkSession, tmp_path: Path, data: Path) -> Script:
    return Script(spark, tmp_path, data)


def function(text: str) -> Callable[..., Any]:
    """The function of a script's text, as if the script had been edited and started again."""
    names: dict[str, Any] = {"__name__": "script"}
    exec(compile(text, "script.py", "exec", dont_inherit=True), names)
    found: Callable[..., Any] = names["score"]
    return found


def scored(script: Script, text: str = SCORE, **options: Any) -> Callable[[ScriptRun], DataFrame]:
    """Two results, the second over the first: one by key, one with Python that works row by row."""

    def act(run: ScriptRun) -> DataFrame:
        clean = run.keep(script.orders().where("id >= 0"), "clean", partition_by="k", partitions=4)
        made = clean.withColumn("score", F.udf(function(text), "long")("k"))
        found: DataFrame = run.keep(made, "scored", **options)
        return found

    return act


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_what_is_kept_is_found_again_without_a_spark_job(script: Script) -> None:
    first = script.start(scored(script), day="monday")
    assert script.counts() == {"clean": (4, 0), "scored": (4, 0)} and script.jobs > 0
    assert rows(first) == [(id, id % 8, id % 8 * 2) for id in range(ROWS)]
    again = script.start(scored(script), day="monday")
    assert (script.counts(), script.jobs) == ({"clean": (0, 4), "scored": (0, 4)}, 0)
    assert rows(again) == rows(first)
    script.start(scored(script), day="tuesday")
    assert script.counts() == {"clean": (4, 0), "scored": (4, 0)}, "other parameters are another run"


def test_a_result_over_a_kept_one_lies_as_that_does_and_moves_no_row(script: Script) -> None:
    found = script.start(scored(script))
    both = found.hint("merge").join(found.groupBy("k").count(), "k")
    assert "Exchange" not in both._jdf.queryExecution().executedPlan().toString()


def test_only_the_partition_that_failed_runs_again(script: Script) -> None:
    poison = script.folder / "poison"
    text = last_to_fail(poison, script.location)
    poison.touch()
    with pytest.raises(rk.RunFailed, match="cannot score 3") as caught:
        script.start(scored(script, text))
    assert "scored: 3 of 4 partitions kept" in str(caught.value) and "run the same again" in caught.value.hint
    assert script.told[-1] != "" and "stopped" in "\n".join(script.told)
    first = script.committed("scored")
    poison.unlink()
    found = script.start(scored(script, text))
    assert script.counts() == {"clean": (0, 4), "scored": (1, 3)}
    [missing] = script.committed("scored")[len(first) :]
    assert {missing} == {str(number) for number in range(4)} - {one for part in first for one in numbers(part)}
    assert rows(found) == [(id, id % 8, id % 8 * 2) for id in range(ROWS)]


def numbers(text: str) -> set[str]:
    """`0-1,3` as single numbers."""
    found: set[str] = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        found |= {str(number) for number in range(int(low), int(high or low) + 1)}
    return found


def test_a_changed_plan_is_named_and_made_anew_with_all_that_reads_it(script: Script) -> None:
    script.start(scored(script))

    def other(run: ScriptRun) -> DataFrame:
        clean = run.keep(script.orders().where("id >= 100"), "clean", partition_by="k", partitions=4)
        made = clean.withColumn("score", F.udf(function(SCORE), "long")("k"))
        found: DataFrame = run.keep(made, "scored")
        return found

    found = script.start(other)
    assert script.changes("clean") == ("the plan changed",)
    assert "clean: recomputed: the plan changed" in script.told
    [change] = script.changes("scored")
    assert change.startswith("the input changed: 3 files")
    assert script.counts() == {"clean": (4, 0), "scored": (4, 0)}
    assert rows(found) == [(id, id % 8, id % 8 * 2) for id in range(100, ROWS)]


def test_a_changed_function_is_named_and_never_reused(script: Script) -> None:
    script.start(scored(script), day="monday")
    found = script.start(scored(script, SCORE.replace("k * 2", "k * 3")), day="monday")
    assert script.counts() == {"clean": (0, 4), "scored": (4, 0)}
    at = script.told.index("daily day=monday: done")
    assert script.told[at - 1 : at + 4] == [
        "scored: computed 4/4 score, which scored uses, changed",
        "daily day=monday: done",
        "  clean   reused    4/4  unchanged",
        "  scored  computed  4/4  score, which scored uses, changed",
        "  computed 4 partitions, reused 4",
    ]
    assert script.told[-1].startswith("  kept ")
    assert {row.score for row in found.collect()} == {k * 3 for k in range(8)}
    script.start(scored(script, "# A comment above it.\n" + SCORE.replace("k * 2", "k * 3")), day="monday")
    assert (script.counts()["scored"], script.jobs) == ((0, 4), 0), "where it stands does not count"


def test_a_function_that_was_corrected_after_a_failure_is_not_mixed_with_the_old_one(script: Script) -> None:
    broken = "def score(k):\n    if k == 3: raise ValueError('cannot score 3')\n    return -1\n"
    with pytest.raises(rk.RunFailed):
        script.start(scored(script, broken))
    found = script.start(scored(script))
    assert script.changes("scored") == ("score, which scored uses, changed",)
    assert script.counts()["scored"] == (4, 0)
    assert {row.score for row in found.collect()} == {k * 2 for k in range(8)}


def test_your_word_keeps_what_changed(script: Script) -> None:
    script.start(scored(script))
    word = rk.RunOptions(accept_change=["scored"])
    found = script.start(scored(script, SCORE.replace("k * 2", "k * 3")), word)
    assert (script.counts()["scored"], script.jobs) == ((0, 4), 0)
    assert {row.score for row in found.collect()} == {k * 2 for k in range(8)}
    assert "kept, change accepted: score, which scored uses, changed" in "\n".join(script.told)
    script.start(scored(script, partitions=2, partition_by="k"), word)
    assert script.counts()["scored"] == (2, 0), "files that lie otherwise cannot be read as if they lay so"


def test_a_changed_input_is_named(script: Script, spark: SparkSession) -> None:
    def act(run: ScriptRun) -> DataFrame:
        found: DataFrame = run.keep(script.orders(), "clean", partition_by="k", partitions=2)
        return found

    script.data = Path(shutil.copytree(script.data, script.folder / "orders"))
    script.start(act)
    spark.range(ROWS, ROWS + 8).selectExpr("id", "id % 8 as k").write.mode("append").parquet(str(script.data))
    found = script.start(act)
    [change] = script.changes("clean")
    assert change.startswith("the input changed: ")
    assert len(rows(found)) == ROWS + 8


def test_a_changed_setting_is_named(script: Script, spark: SparkSession) -> None:
    def act(run: ScriptRun) -> None:
        run.keep(script.orders(), "clean", partition_by="k", partitions=2)

    script.start(act)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        script.start(act)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    [change] = script.changes("clean")
    assert change.startswith("spark.sql.session.timeZone: ") and change.endswith(" -> Asia/Tokyo")


def test_lost_files_are_noticed_before_anybody_reads_them(script: Script) -> None:
    def act(run: ScriptRun) -> DataFrame:
        found: DataFrame = run.keep(script.orders(), "clean", partition_by="k", partitions=2)
        return found

    script.start(act)
    [run] = (script.folder / "runs" / "daily.clean").glob("2*")
    next((run / "results").rglob("*.parquet")).unlink()
    found = script.start(act)
    assert script.changes("clean") == ("1 file of it is missing",)
    assert script.counts() == {"clean": (2, 0)} and len(rows(found)) == ROWS


def test_rows_from_a_place_that_cannot_be_pinned_need_your_word(script: Script, spark: SparkSession) -> None:
    def act(word: bool | None) -> Callable[[ScriptRun], DataFrame]:
        given = spark.sparkContext.parallelize([(1, "a"), (2, "b")]).toDF("id long, name string")
        return lambda run: run.keep(given, "names", partition_by="id", partitions=2, deterministic=word)

    script.start(act(None))
    script.start(act(None))
    [change] = script.changes("names")
    assert "its input may have changed (an RDD" in change and "deterministic=True" in change
    assert script.counts() == {"names": (2, 0)}
    script.start(act(True))
    assert script.counts() == {"names": (0, 2)}


def test_a_frame_without_keys_is_kept_by_its_splits(script: Script) -> None:
    def act(run: ScriptRun) -> DataFrame:
        found: DataFrame = run.keep(script.orders().selectExpr("id", "id * 2 as twice"), "twice")
        return found

    first = script.start(act)
    total = sum(script.counts()["twice"])
    assert script.counts()["twice"] == (total, 0)
    again = script.start(act)
    assert (script.counts()["twice"], script.jobs) == ((0, total), 0)
    assert rows(first) == rows(again) == [(id, id * 2) for id in range(ROWS)]


def test_an_empty_result_is_a_result(script: Script) -> None:
    def act(run: ScriptRun) -> DataFrame:
        found: DataFrame = run.keep(script.orders().where("id < 0"), "none", partition_by="k", partitions=2)
        return found

    assert rows(script.start(act)) == []
    found = script.start(act)
    assert (script.counts()["none"], script.jobs) == ((0, 2), 0)
    assert (rows(found), found.columns) == ([], ["id", "k"])


def publishing(script: Script, least: int, folder: str = "gold") -> Callable[[ScriptRun], None]:
    target = rk.files(str(script.folder / folder))
    return lambda run: run.publish(
        script.orders().where(F.col("id") >= least).groupBy("k").count(), target, name="totals"
    )


def test_what_is_published_is_published_once_and_again_when_it_changed(script: Script, spark: SparkSession) -> None:
    def versions(name: str = "gold") -> int:
        return len(list((script.folder / name / "pointers").iterdir()))

    script.start(publishing(script, 0))
    assert f"  totals is in files {script.folder / 'gold'}" in script.told
    script.start(publishing(script, 0))
    assert (versions(), script.jobs) == (1, 0)
    script.start(publishing(script, 100))
    assert versions() == 2 and "totals: recomputed: the plan changed" in script.told
    assert sum(row["count"] for row in rk.read_newest(spark, str(script.folder / "gold")).collect()) == 100
    script.start(publishing(script, 100, "other"))
    assert versions("other") == 1, "another target has not seen it yet"


def test_what_may_be_published_and_changed_is_published_anew(script: Script, spark: SparkSession) -> None:
    def unheard(*_: Any) -> Any:
        raise OSError("the answer is lost")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(rk.RekindleError):
        patch.setattr(sinks, "publish", unheard)
        script.start(publishing(script, 0))
    script.start(publishing(script, 100))
    assert "totals: recomputed: the plan changed" in script.told
    assert sum(row["count"] for row in rk.read_newest(spark, str(script.folder / "gold")).collect()) == 100


def test_what_is_there_is_told_before_anything_is_asked(script: Script) -> None:
    def plan(run: ScriptRun) -> list[str]:
        return list(run.plan().lines())

    assert script.start(plan, day="monday") == ["daily day=monday: nothing is kept yet"]
    (script.folder / "poison").touch()
    with pytest.raises(rk.RunFailed):
        script.start(scored(script, last_to_fail(script.folder / "poison", script.location)), day="monday")
    said = script.start(plan, day="monday")
    assert said == [
        "daily day=monday: from earlier starts",
        "  clean   reuse    4/4  unless it changed",
        "  scored  compute  1/4  3 kept, unless it changed",
    ]
    assert script.told[: len(said)] == said and script.jobs == 0
    assert script.start(plan, day="tuesday") == ["daily day=tuesday: nothing is kept yet"]


def test_a_name_that_is_none_is_refused(script: Script) -> None:
    names: list[Any] = ["", "two words", "1st", "a-b", "../up", 7]
    for name in names:
        with pytest.raises(rk.GraphRefused, match="is not a valid result name") as caught:
            script.start(lambda run, name=name: run.keep(script.orders(), name))  # type: ignore[misc]
        assert caught.value.message.startswith("test_onramp.py:") and 'run.keep(df, "enriched")' in caught.value.hint
    assert not list(script.folder.glob("runs/daily*"))


def test_a_name_is_taken_once(script: Script) -> None:
    def act(run: ScriptRun) -> None:
        run.keep(script.orders(), "clean", partition_by="k", partitions=2)
        run.keep(script.orders().where("id > 3"), "clean", partition_by="k", partitions=2)

    with pytest.raises(
        rk.GraphRefused, match=r"clean is kept twice in this run, first at test_onramp.py:\d+"
    ) as caught:
        script.start(act)
    assert caught.value.hint == 'run.keep(df, "clean_2"), or remove one of them'
    assert script.counts() == {"clean": (2, 0)}


def test_what_cannot_be_kept_is_refused(script: Script, spark: SparkSession) -> None:
    for given, text in (
        ([1, 2], "clean is a list, and only a DataFrame"),
        (spark.readStream.format("rate").load(), "clean is a stream"),
    ):
        with pytest.raises(rk.GraphRefused, match=text):
            script.start(lambda run, given=given: run.keep(given, "clean"))  # type: ignore[misc]
    with pytest.raises(rk.GraphRefused, match="partitioned by customer, but has no such column"):
        script.start(lambda run: run.keep(script.orders(), "clean", partition_by="customer"))
    with pytest.raises(rk.GraphRefused, match="partitions=0 of clean"):
        script.start(lambda run: run.keep(script.orders(), "clean", partitions=0))
    with pytest.raises(rk.GraphRefused, match="clean is kept outside of the `with` block of the run"):
        script.run.keep(script.orders(), "clean")
    nowhere: Any = "gold"
    with pytest.raises(rk.GraphRefused, match="a sink needs a target"):
        script.start(lambda run: run.publish(script.orders(), nowhere, name="clean"))


def test_the_name_of_a_run_is_a_name(spark: SparkSession) -> None:
    for name in ("", "two words", "_own", "1st", "daily.clean"):
        with pytest.raises(rk.GraphRefused, match=r"test_onramp.py:\d+: .* is not a valid name of a run"):
            rk.run(name, spark, "/nowhere")


def test_what_only_a_pipeline_can_do_is_refused(spark: SparkSession) -> None:
    for options in (rk.RunOptions(run="20261113T000000Z-0a1b2c3d"), rk.RunOptions(without=["clean[3]"])):
        with pytest.raises(rk.Refused, match="run= and without= work only for pipelines"):
            rk.run("daily", spark, "/nowhere", options=options)


def test_the_location_comes_from_where_the_command_line_finds_it(
    script: Script, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(script.folder)
    with pytest.raises(ConfigRefused, match="no location is set") as caught:
        rk.run("daily", spark)
    assert 'rk.run("daily", spark, "s3a://bucket/rekindle")' in caught.value.hint
    (script.folder / "rekindle.toml").write_text('location = "from_file"\n')
    with rk.run("daily", spark, tell=script.told.append) as run:
        run.keep(script.orders(), "clean", partition_by="k", partitions=2)
    assert (script.folder / "from_file" / "daily.clean").is_dir()
    monkeypatch.setenv("REKINDLE_LOCATION", str(script.folder / "from_environment"))
    with rk.run("daily", spark, tell=script.told.append) as run:
        run.keep(script.orders(), "clean", partition_by="k", partitions=2)
    assert (script.folder / "from_environment" / "daily.clean").is_dir()


def test_a_new_run_is_asked_for_as_everywhere_and_what_was_removed_is_made_again(script: Script) -> None:
    def act(run: ScriptRun) -> None:
        run.keep(script.orders(), "clean", partition_by="k", partitions=2)

    script.start(act)
    script.start(act, rk.RunOptions(new=True))
    assert script.counts() == {"clean": (2, 0)}
    shutil.rmtree(script.folder / "runs" / "daily.clean")
    script.start(act)
    assert script.counts() == {"clean": (2, 0)}
