"""The files of exchanges go when they are let go, not when a garbage collector runs; and folders say whose they are."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.test_attempts import attempt, engine
from rekindle.engine.spark.run import engine as spark_engine
from rekindle.engine.spark.run.engine import SparkEngine
from rekindle.gc.local_folders import FolderOwner, find
from rekindle.master.facts.stimuli import AttemptEnded, CommitsSeen, DeletionFailed
from rekindle.master.state.commands import DeleteAttempt, ReleaseExchanges, StartAttempt
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.partitions import Partitions
from support.reports import until
from support.spark_line import needs

AGAIN = AttemptId("totals", Generation(0), Epoch(1), 2)


def local_folder(spark: SparkSession) -> Path:
    """As the application was started; a session that was asked for later may name another one."""
    return Path(str(spark.sparkContext.getConf().get("spark.local.dir")))


def shuffle_files(spark: SparkSession) -> set[str]:
    return {path.name for path in local_folder(spark).glob("blockmgr-*/*/shuffle_*")}


def becomes(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)
    return true()


@needs("checksums of map outputs")
def test_the_files_of_a_finished_group_go_by_name_and_a_retry_makes_them_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = shuffle_files(spark)
    made = engine(spark, tmp_path)
    seen = [one for one in attempt(made) if isinstance(one, CommitsSeen)]
    held = shuffle_files(spark) - before
    assert held, "without a word from the master they stay"
    made.send(ReleaseExchanges("totals", 0, 1))
    assert becomes(lambda: not held & shuffle_files(spark))
    made.send(
        StartAttempt(
            attempt=AGAIN,
            partitions=Partitions((1, 2)),
            inputs=(),
            is_repeatable=True,
            is_first=False,
            exchange_version=0,
            exchange_checksum=seen[-1].exchange_checksum,
        )
    )
    told = until(made, AttemptEnded)
    again = [one for one in told if isinstance(one, CommitsSeen)]
    assert sum(len(one.partitions) for one in again) == 2 and all(one.exchange_version == 0 for one in again)
    assert all(one.exchange_checksum == seen[-1].exchange_checksum for one in again), (
        "the same rows, over new exchanges"
    )
    assert not [one for one in told if isinstance(one, AttemptEnded) and one.failures]
    made.close()
    assert becomes(lambda: shuffle_files(spark) <= before), "what a run that is over held goes too"
    assert made.exchanges("totals") == 1, "and its shape can still be asked for"


def test_what_older_generations_held_goes_with_it(spark: SparkSession, tmp_path: Path) -> None:
    before = shuffle_files(spark)
    made = engine(spark, tmp_path)
    attempt(made)
    held = shuffle_files(spark) - before
    later = AttemptId("totals", Generation(1), Epoch(1), 2)
    made.send(
        StartAttempt(
            attempt=later,
            partitions=Partitions.first(4),
            inputs=(),
            is_repeatable=True,
            is_first=True,
            exchange_version=0,
            exchange_checksum=None,
        )
    )
    until(made, AttemptEnded)
    assert shuffle_files(spark) - before > held, "each has its own"
    made.send(ReleaseExchanges("totals", 1, 2))
    assert becomes(lambda: shuffle_files(spark) <= before)
    made.close()


def test_what_cannot_be_deleted_is_tried_again_and_does_not_end_the_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def delete(self: SparkEngine, attempt: AttemptId) -> None:
        tries.append(attempt)
        raise OSError("503 Slow Down")

    monkeypatch.setattr(SparkEngine, "_delete", delete)
    monkeypatch.setattr(spark_engine, "CLEANING_PAUSES_SECONDS", (0.0, 0.0))
    made = engine(spark, tmp_path)
    made.send(DeleteAttempt(AGAIN))
    (failed,) = until(made, DeletionFailed)
    assert failed == DeletionFailed(AGAIN, "OSError: 503 Slow Down") and tries == [AGAIN, AGAIN]
    made.close()


def test_an_engine_that_starts_nothing_leaves_no_listener(spark: SparkSession, tmp_path: Path) -> None:
    def listeners() -> int:
        return int(spark.sparkContext._jsc.sc().listenerBus().listeners().size())

    before = listeners()
    engine(spark, tmp_path)
    assert listeners() == before


def test_letting_go_twice_or_what_never_was_is_harmless(spark: SparkSession, tmp_path: Path) -> None:
    made = engine(spark, tmp_path)
    made.send(ReleaseExchanges("totals", 0, 1))
    attempt(made)
    for _ in range(2):
        made.send(ReleaseExchanges("totals", 0, 1))
    assert made.poll(200) == []
    made.close()


def test_the_folders_of_an_application_are_marked_and_living(spark: SparkSession) -> None:
    """A JVM that ran an application before this one keeps its temporary files where that one had them."""
    conf = spark.sparkContext._jsc.sc().conf()
    utils = getattr(spark.sparkContext._jvm, "org.apache.spark.util.Utils$").__getattr__("MODULE$")
    temporary = {Path(root) for root in utils.getOrCreateLocalRootDirs(conf)}
    found = [one for root in {local_folder(spark)} | {path.parent for path in temporary} for one in find(root)]
    ours = [one for one in found if one.application == spark.sparkContext.applicationId]
    assert {one.path for one in ours} == {*temporary, *local_folder(spark).glob("blockmgr-*")}
    assert {one.path.name.split("-")[0] for one in ours} == {"blockmgr", "spark"}
    assert {one.whose for one in ours} == {FolderOwner.LIVING}
