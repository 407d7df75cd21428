"""Publishing into Iceberg tables on real Spark: old or new, never both, never twice, and no row written again."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import iceberg_calls, table_calls
from rekindle.engine.spark.publish import iceberg, log_files
from rekindle.engine.spark.publish.publication import TargetOwner
from rekindle.engine.spark.publish.sinks import check, publish
from rekindle.engine.spark.publish.table_log import TableCommit
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.master.facts.stimuli import SinkDone, SinkFailed, SinkFenced
from rekindle.publish import targets
from rekindle.storage.stores import open_store
from support.iceberg import in_session_catalog
from tables.conftest import Results, between

Rows = Callable[[], dict[int, int]]
YESTERDAY, TODAY = Fence(7, 1, 1), Fence(8, 1, 1)
GOLD = "lake.db.gold"
COLUMNS_OF_RESULT = "(id BIGINT, day INT, name STRING)"


def numbers(count: int, day: int) -> str:
    return f"select id, {day} day, concat('name-', id) name from range({count})"


@pytest.fixture
def lake(tables: SparkSession) -> Iterator[SparkSession]:
    """A session whose catalog `lake` has a database and no table."""
    tables.sql("CREATE DATABASE IF NOT EXISTS lake.db")
    yield tables
    found = iceberg_calls.find(tables, GOLD)
    tables.sql(f"DROP TABLE IF EXISTS {GOLD} PURGE")
    if found.kind == "table":  # Catalogs leave files that no snapshot has.
        shutil.rmtree(found.told.removeprefix("file:"), ignore_errors=True)


@pytest.fixture
def days(lake: SparkSession) -> Rows:
    """How many rows the table has of each day."""

    def read() -> dict[int, int]:
        found = lake.table(GOLD).groupBy("day").count().collect()
        return {row["day"]: row["count"] for row in found}

    return read


def data(spark: SparkSession) -> Path:
    return Path(iceberg_calls.find(spark, GOLD).told.removeprefix("file:"), "data")


def history(spark: SparkSession) -> list[str]:
    return [row["operation"] for row in spark.sql(f"SELECT * FROM {GOLD}.snapshots ORDER BY committed_at").collect()]


def test_a_publication_is_one_commit_and_no_row_is_written_again(
    lake: SparkSession, results: Results, days: Rows
) -> None:
    first = results.of(targets.iceberg(GOLD), YESTERDAY, numbers(50, 7))
    assert publish(lake, first, open_store) == SinkDone("out", YESTERDAY)
    second = results.of(targets.iceberg(GOLD), TODAY, numbers(60, 8))
    assert publish(lake, second, open_store) == SinkDone("out", TODAY)
    assert days() == {8: 60}
    assert history(lake) == ["overwrite", "overwrite"]
    old = lake.sql(f"SELECT snapshot_id FROM {GOLD}.snapshots ORDER BY committed_at").first()
    assert old is not None
    assert lake.sql(f"SELECT * FROM {GOLD} VERSION AS OF {old['snapshot_id']}").count() == 50, "time travel"
    linked = [path for path in data(lake).glob("*.parquet") if path.stat().st_nlink == 2]
    assert len(linked) == 6, "each file is a second name of a kept one"
    assert lake.sql(f"SELECT * FROM {GOLD}.files").count() == 3


def test_the_same_publication_again_changes_nothing(lake: SparkSession, results: Results, days: Rows) -> None:
    what = results.of(targets.iceberg(GOLD), TODAY, numbers(60, 8))
    assert publish(lake, what, open_store) == SinkDone("out", TODAY)
    assert publish(lake, what, open_store) == SinkDone("out", TODAY)
    assert days() == {8: 60}
    assert history(lake) == ["overwrite"]


def test_a_later_run_is_not_replaced_by_an_earlier_one(lake: SparkSession, results: Results, days: Rows) -> None:
    today = results.of(targets.iceberg(GOLD), TODAY, numbers(60, 8))
    late = results.of(targets.iceberg(GOLD), YESTERDAY, numbers(50, 7))
    assert publish(lake, today, open_store) == SinkDone("out", TODAY)
    assert publish(lake, late, open_store) == SinkFenced("out", YESTERDAY, TODAY)
    assert days() == {8: 60}
    with pytest.raises(Refused, match=r"a later run published \(run 8; this is run 7\)"):
        check(lake, owner(), targets.iceberg(GOLD), 7, open_store, schema=late.schema)


def owner(place: str = "abc", name: str = "daily", key: str = "", takes: str | None = None) -> TargetOwner:
    return TargetOwner(owner=name, place=place, sink="out", key=key, takes=takes)


def test_a_publisher_that_slept_through_todays_run_is_fenced(
    lake: SparkSession, results: Results, days: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = results.of(targets.iceberg(GOLD), TODAY, numbers(60, 8))
    late = results.of(targets.iceberg(GOLD), YESTERDAY, numbers(50, 7))
    between(monkeypatch, iceberg_calls, "commit", lambda: publish(lake, today, open_store))
    assert publish(lake, late, open_store) == SinkFenced("out", YESTERDAY, TODAY)
    assert days() == {8: 60}


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_control_without_the_pin_yesterday_comes_back(
    lake: SparkSession, results: Results, days: Rows, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The same night with a publisher that looks whether it is late, and then commits on top of whatever came."""
    today = results.of(targets.iceberg(GOLD, mode), TODAY, numbers(60, 8))
    late = results.of(targets.iceberg(GOLD, mode), YESTERDAY, numbers(50, 7))
    publish(lake, results.of(targets.iceberg(GOLD, mode), Fence(6, 1, 1), numbers(1, 6)), open_store)
    commit, waiting = iceberg_calls.commit, [lambda: publish(lake, today, open_store)]

    def compare_then_act(spark: SparkSession, name: str, version: str, **named: Any) -> bool:
        while waiting:
            waiting.pop()()
        if named["removed"] != ("*",):
            named["removed"] = ()
        return commit(spark, name, json.loads(iceberg_calls.state(spark, name))["version"], **named)

    monkeypatch.setattr(iceberg_calls, "commit", compare_then_act)
    publish(lake, late, open_store)
    assert days().get(7) == 50, "the late one is there, over or beside the later one"


def test_a_commit_of_somebody_else_is_not_lost(
    lake: SparkSession, results: Results, days: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It appended rows between the look and the commit."""
    target = targets.iceberg(GOLD, "append")
    publish(lake, results.of(target, YESTERDAY, numbers(50, 7), key="d7"), open_store)
    mine = results.of(target, TODAY, numbers(60, 8), key="d8")
    between(monkeypatch, iceberg_calls, "commit", lambda: lake.sql(f"INSERT INTO {GOLD} VALUES (1, 99, 'x')"))
    assert publish(lake, mine, open_store) == SinkDone("out", TODAY)
    assert days() == {7: 50, 8: 60, 99: 1}
    assert history(lake) == ["append", "append", "append"]


def test_a_version_that_is_not_the_newest_any_more_takes_no_commit(
    lake: SparkSession, results: Results, days: Rows
) -> None:
    publish(lake, results.of(targets.iceberg(GOLD), YESTERDAY, numbers(50, 7)), open_store)
    what = results.of(targets.iceberg(GOLD), TODAY, numbers(60, 8))
    publisher = iceberg.IcebergPublisher(targets.iceberg(GOLD))
    base = publisher.base(lake)
    state = publisher.look(lake, base)
    assert state is not None
    lake.sql(f"INSERT INTO {GOLD} VALUES (1, 99, 'x')")
    commit = TableCommit(removed=("*",), added=publisher.added(lake, base, state, what), after={"rekindle/door": 9})
    assert not publisher.is_committed(lake, base, state, what, commit)
    assert days() == {7: 50, 99: 1}


def late_commit(lake: SparkSession, *, is_pinned: bool) -> Any:
    """A commit that was begun before somebody else's, and ends after it, as in one call of ours into the JVM."""
    jvm: Any = lake._jvm
    operations = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(lake._jsparkSession, GOLD).operations()
    if is_pinned:
        [made] = jvm.java.lang.Class.forName("rekindle.iceberg.PinnedOperations").getDeclaredConstructors()
        made.setAccessible(True)
        given = lake.sparkContext._gateway.new_array(jvm.java.lang.Object, 2)
        given[0], given[1] = operations, operations.refresh()
        operations = made.newInstance(given)
    late = jvm.org.apache.iceberg.Transactions.newTransaction(GOLD, operations)
    late.newFastAppend().commit()
    lake.sql(f"INSERT INTO {GOLD} VALUES (1, 99, 'x')")
    return late


def test_a_commit_on_top_of_what_was_looked_at_fails_where_others_came_first(lake: SparkSession, days: Rows) -> None:
    lake.sql(f"CREATE TABLE {GOLD} {COLUMNS_OF_RESULT} USING iceberg")
    with pytest.raises(Exception, match="PinnedOperations"):
        late_commit(lake, is_pinned=True).commitTransaction()
    assert days() == {99: 1} and history(lake) == ["append"]


def test_control_operations_of_icebergs_own_commit_on_top_of_whatever_is_there(lake: SparkSession) -> None:
    lake.sql(f"CREATE TABLE {GOLD} {COLUMNS_OF_RESULT} USING iceberg")
    late_commit(lake, is_pinned=False).commitTransaction()
    assert history(lake) == ["append", "append"], "a fence in it would have been compared with nothing"


def test_a_later_master_of_the_run_takes_the_fence_and_undoes_nothing(
    lake: SparkSession, results: Results, days: Rows
) -> None:
    """The driver died after the commit and before it was journaled; meanwhile somebody deleted a row."""
    what = results.of(targets.iceberg(GOLD), TODAY, numbers(60, 8))
    assert publish(lake, what, open_store) == SinkDone("out", TODAY)
    lake.sql(f"DELETE FROM {GOLD} WHERE id = 5")
    again = replace(what, fence=Fence(8, 2, 1))
    assert publish(lake, again, open_store) == SinkDone("out", Fence(8, 2, 1))
    assert days() == {8: 59}
    assert publish(lake, what, open_store) == SinkFenced("out", TODAY, Fence(8, 2, 1)), "the dead master woke up"
    assert days() == {8: 59}


def test_append_replaces_the_rows_of_its_key_and_nothing_else(lake: SparkSession, results: Results, days: Rows) -> None:
    target = targets.iceberg(GOLD, "append")
    for order, count, day in [(1, 10, 1), (2, 20, 2), (3, 30, 3)]:
        what = results.of(target, Fence(order, 1, 1), numbers(count, day), key=f"day-{day}")
        assert publish(lake, what, open_store) == SinkDone("out", Fence(order, 1, 1))
    lake.sql(f"INSERT INTO {GOLD} VALUES (1, 99, 'x')")
    assert days() == {1: 10, 2: 20, 3: 30, 99: 1}
    corrected = results.of(target, Fence(4, 1, 1), numbers(25, 2), key="day-2")
    assert publish(lake, corrected, open_store) == SinkDone("out", Fence(4, 1, 1))
    assert days() == {1: 10, 2: 25, 3: 30, 99: 1}
    assert lake.sql(f"SELECT * FROM {GOLD}.files").count() == 10, "three files for each key, and the one of others"
    late = results.of(target, Fence(2, 9, 9), numbers(7, 2), key="day-2")
    assert publish(lake, late, open_store) == SinkFenced("out", Fence(2, 9, 9), Fence(4, 1, 1))
    nothing = results.of(target, Fence(5, 1, 1), f"{numbers(1, 2)} where id > 1", key="day-2")
    assert publish(lake, nothing, open_store) == SinkDone("out", Fence(5, 1, 1))
    assert days() == {1: 10, 3: 30, 99: 1}
    filled = results.of(target, Fence(6, 1, 1), numbers(8, 2), key="day-2")
    assert publish(lake, filled, open_store) == SinkDone("out", Fence(6, 1, 1))
    assert days() == {1: 10, 2: 8, 3: 30, 99: 1}


COMPACTION = "CALL lake.system.rewrite_data_files(table => 'db.gold', options => map('rewrite-all', 'true'))"
CHANGES = {
    "compaction": ([COMPACTION], "others changed or compacted them"),
    "a copy of the file": ([f"DELETE FROM {GOLD} WHERE id = 3"], "others changed or compacted them"),
    "a file of deletions": (
        [
            f"ALTER TABLE {GOLD} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')",
            f"DELETE FROM {GOLD} WHERE id = 3",
        ],
        "others deleted or changed rows of",
    ),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_append_is_refused_where_others_put_rows_into_other_files(
    lake: SparkSession, results: Results, days: Rows, change: str
) -> None:
    """Before anything runs, and by the publication."""
    target, (statements, why) = targets.iceberg(GOLD, "append"), CHANGES[change]
    for day in (1, 2):
        publish(lake, results.of(target, Fence(day, 1, 1), numbers(10, day), key=f"day-{day}"), open_store)
    for statement in statements:
        lake.sql(statement)
    before = days()
    corrected = results.of(target, Fence(4, 1, 1), numbers(25, 2), key="day-2")
    with pytest.raises(Refused, match=why):
        check(lake, owner(key="day-2"), target, 4, open_store, schema=corrected.schema)
    answer = publish(lake, corrected, open_store)
    assert isinstance(answer, SinkFailed) and why in answer.failure.cause.text
    assert days() == before
    check(lake, owner(key="day-3"), target, 5, open_store, schema=corrected.schema)


def test_control_without_the_count_of_files_rows_are_doubled(
    lake: SparkSession, results: Results, days: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = targets.iceberg(GOLD, "append")
    publish(lake, results.of(target, Fence(1, 1, 1), numbers(10, 2), key="day-2"), open_store)
    lake.sql(COMPACTION)
    monkeypatch.setattr(log_files, "of_key", lambda target, there, earlier: [])
    publish(lake, results.of(target, Fence(4, 1, 1), numbers(10, 2), key="day-2"), open_store)
    assert days() == {2: 20}


def test_publishers_at_once_lose_nothing(lake: SparkSession, results: Results, days: Rows) -> None:
    """Each of four keys is published by its own thread: who comes second looks again."""
    target = targets.iceberg(GOLD, "append")
    publish(lake, results.of(target, Fence(1, 1, 1), numbers(1, 1), key="d1"), open_store)
    waiting = [results.of(target, Fence(day, 1, 1), numbers(day, day), key=f"d{day}") for day in (2, 3, 4, 5)]
    with ThreadPoolExecutor(len(waiting)) as threads:
        answers = list(threads.map(lambda what: publish(lake, what, open_store), waiting))
    assert answers == [SinkDone("out", what.fence) for what in waiting]
    assert days() == {1: 1, 2: 2, 3: 3, 4: 4, 5: 5}
    assert history(lake) == ["append"] * 5


@pytest.mark.parametrize(
    ("version", "by"),
    [("2", ""), ("2", "PARTITIONED BY (day)"), ("3", ""), ("1", "PARTITIONED BY (bucket(4, day), truncate(day, 1))")],
)
def test_the_day_is_replaced_and_nothing_else(
    lake: SparkSession, results: Results, days: Rows, version: str, by: str
) -> None:
    lake.sql(
        f"CREATE TABLE {GOLD} {COLUMNS_OF_RESULT} USING iceberg {by} TBLPROPERTIES ('format-version' = '{version}')"
    )
    lake.sql(f"INSERT INTO {GOLD} SELECT id, 7, 'old' FROM range(40)")
    lake.sql(f"INSERT INTO {GOLD} SELECT id, 8, 'old' FROM range(30)")
    target = targets.iceberg(GOLD, partition={"day": "7"})
    assert publish(lake, results.of(target, TODAY, numbers(50, 7)), open_store) == SinkDone("out", TODAY)
    assert days() == {7: 50, 8: 30}
    other = targets.iceberg(GOLD, partition={"day": "8"})
    assert publish(lake, results.of(other, YESTERDAY, numbers(5, 8)), open_store) == SinkDone("out", YESTERDAY)
    assert days() == {7: 50, 8: 5}
    late = results.of(targets.iceberg(GOLD, partition={"day": "07"}), YESTERDAY, numbers(9, 7))
    assert publish(lake, late, open_store) == SinkFenced("out", YESTERDAY, TODAY)
    wrong = publish(lake, results.of(target, Fence(9, 1, 1), numbers(5, 8)), open_store)
    assert isinstance(wrong, SinkFailed) and "has rows without day=7" in wrong.failure.cause.text
    assert days() == {7: 50, 8: 5}


@pytest.mark.parametrize("version", ["2", "3"])
def test_files_with_deleted_rows_are_replaced_whole(
    lake: SparkSession, results: Results, days: Rows, version: str
) -> None:
    """Deletions beside the files, and as vectors (version 3): none of them meets a row that comes afterwards."""
    made = f"'format-version' = '{version}', 'write.delete.mode' = 'merge-on-read'"
    lake.sql(f"CREATE TABLE {GOLD} {COLUMNS_OF_RESULT} USING iceberg TBLPROPERTIES ({made})")
    for day in (7, 8):
        lake.sql(f"INSERT INTO {GOLD} SELECT /*+ COALESCE(1) */ id, {day}, 'old' FROM range(40)")
        lake.sql(f"DELETE FROM {GOLD} WHERE day = {day} AND id < 10")
    assert days() == {7: 30, 8: 30} and lake.sql(f"SELECT * FROM {GOLD}.delete_files").count() == 2
    target = targets.iceberg(GOLD, partition={"day": "7"})
    assert publish(lake, results.of(target, TODAY, numbers(50, 7)), open_store) == SinkDone("out", TODAY)
    assert days() == {7: 50, 8: 30}
    everything = targets.iceberg(GOLD)
    assert publish(lake, results.of(everything, Fence(9, 1, 1), numbers(60, 9)), open_store) == SinkDone(
        "out", Fence(9, 1, 1)
    )
    assert days() == {9: 60} and lake.sql(f"SELECT * FROM {GOLD}.delete_files").count() == 0


def test_a_file_with_rows_of_two_days_is_not_taken_away(lake: SparkSession, results: Results, days: Rows) -> None:
    lake.sql(f"CREATE TABLE {GOLD} {COLUMNS_OF_RESULT} USING iceberg")
    lake.sql(f"INSERT INTO {GOLD} SELECT /*+ COALESCE(1) */ id, 7 + id % 2, 'old' FROM range(40)")
    target = targets.iceberg(GOLD, partition={"day": "7"})
    what = results.of(target, TODAY, numbers(50, 7))
    with pytest.raises(Refused, match="may have these rows and others"):
        check(lake, owner(), target, 8, open_store, schema=what.schema)
    assert isinstance(publish(lake, what, open_store), SinkFailed)
    assert days() == {7: 20, 8: 20}


def test_a_partition_is_proved_by_the_footer_or_refused(lake: SparkSession, results: Results, days: Rows) -> None:
    """Whoever publishes does not name the column: the rows of each file have one value, or they have not."""
    lake.sql(f"CREATE TABLE {GOLD} {COLUMNS_OF_RESULT} USING iceberg PARTITIONED BY (day)")
    target = targets.iceberg(GOLD)
    assert publish(lake, results.of(target, YESTERDAY, numbers(50, 7)), open_store) == SinkDone("out", YESTERDAY)
    assert [row["partition"]["day"] for row in lake.sql(f"SELECT partition FROM {GOLD}.files").collect()] == [7, 7, 7]
    nulls = results.of(target, TODAY, "select id, cast(null as int) day, 'x' name from range(5)", files=1)
    assert publish(lake, nulls, open_store) == SinkDone("out", TODAY)
    assert lake.sql(f"SELECT * FROM {GOLD} WHERE day IS NULL").count() == 5
    mixed = results.of(target, Fence(9, 1, 1), "select id, cast(id % 2 as int) day, 'x' name from range(50)")
    answer = publish(lake, mixed, open_store)
    assert isinstance(answer, SinkFailed) and "is partitioned by day, and the footer" in answer.failure.cause.text
    assert lake.table(GOLD).count() == 5


OBSTACLES = {
    "TBLPROPERTIES ('write.wap.enabled' = 'true')": "wait for an audit",
    "TBLPROPERTIES ('schema.name-mapping.default' = '[]')": "does not lead to the column id",
}


@pytest.mark.parametrize("made", list(OBSTACLES))
def test_a_table_that_cannot_take_files_is_refused_before_anything_runs(
    lake: SparkSession, results: Results, made: str
) -> None:
    lake.sql(f"CREATE TABLE {GOLD} {COLUMNS_OF_RESULT} USING iceberg {made}")
    schema = results.of(targets.iceberg(GOLD), TODAY, numbers(5, 8)).schema
    with pytest.raises(Refused, match=f"cannot take kept files as they are: .*{OBSTACLES[made]}"):
        check(lake, owner(), targets.iceberg(GOLD), 8, open_store, schema=schema)


COLUMNS = {
    "id BIGINT NOT NULL, day INT, name STRING": "id is NOT NULL",
    "id BIGINT, day INT": "name is not in the table",
    "id BIGINT, day BIGINT, name STRING": "day is long in the table and integer in the result",
    "id BIGINT, day INT, name STRING, more INT": "more is missing in the result",
}


@pytest.mark.parametrize("columns", list(COLUMNS))
def test_other_columns_are_refused_before_anything_runs(lake: SparkSession, results: Results, columns: str) -> None:
    lake.sql(f"CREATE TABLE {GOLD} ({columns}) USING iceberg")
    schema = results.of(targets.iceberg(GOLD), TODAY, numbers(5, 8)).schema
    with pytest.raises(Refused, match=COLUMNS[columns]):
        check(lake, owner(), targets.iceberg(GOLD), 8, open_store, schema=schema)


NAMES = {
    "spark_catalog.default.gold": "spark_catalog is no Iceberg catalog of this session",
    "lake.nowhere.gold": "there is no database nowhere in lake",
    f"{GOLD}.at_timestamp_32503680000000": "another view of one",
    f"{GOLD}.files": "another view of one",
}


@pytest.mark.parametrize("name", list(NAMES))
def test_a_name_that_is_no_table_is_refused_before_anything_runs(lake: SparkSession, name: str) -> None:
    lake.sql(f"CREATE TABLE {GOLD} {COLUMNS_OF_RESULT} USING iceberg")
    lake.sql(f"INSERT INTO {GOLD} VALUES (1, 7, 'x')")
    with pytest.raises(Refused, match=NAMES[name]):
        check(lake, owner(), targets.iceberg(name), 8, open_store)


def test_a_table_of_others_is_not_taken(lake: SparkSession, results: Results, days: Rows) -> None:
    target = targets.iceberg(GOLD)
    assert isinstance(publish(lake, results.of(target, TODAY, numbers(60, 8)), open_store), SinkDone)
    other = publish(lake, results.of(target, Fence(9, 1, 1), numbers(1, 9), owner="weekly"), open_store)
    assert isinstance(other, SinkFailed) and "is a target of daily, and weekly may not" in other.failure.cause.text
    moved = results.of(target, Fence(1, 1, 1), numbers(3, 1), place="def")
    refused = publish(lake, moved, open_store)
    assert isinstance(refused, SinkFailed) and "in another location (its newest is run 8)" in refused.failure.cause.text
    assert iceberg.IcebergPublisher(target).place(lake, "", open_store) == "abc"
    taking = results.of(target, Fence(1, 1, 1), numbers(3, 1), place="def", takes="abc")
    assert publish(lake, taking, open_store) == SinkDone("out", Fence(1, 1, 1))
    back = publish(lake, results.of(target, Fence(99, 1, 1), numbers(1, 9)), open_store)
    assert isinstance(back, SinkFailed) and days() == {1: 3}, "the old location is refused from then on"


@pytest.mark.parametrize("written", ["INT96", "TIMESTAMP_MICROS"])
def test_metrics_say_what_the_files_hold(lake: SparkSession, results: Results, written: str) -> None:
    """Every kind of value: a reader that skips files by them finds what one that reads all finds."""
    query = """
        select id, cast(id as int) i, cast(id as smallint) s, cast(id as tinyint) b, id % 2 = 0 flag,
          cast(id as double) / 3 d, cast(id as float) / 3 f, cast(id as decimal(9, 2)) small,
          cast(id + 12345678901234567890.1234 as decimal(30, 4)) big, date_add(date'2026-11-01', cast(id as int)) day,
          timestamp'2026-11-01 00:00:00.000001' + make_interval(0, 0, 0, cast(id as int)) at,
          timestamp_ntz'2026-11-01 00:00:00' ntz, cast(concat('b', id) as binary) raw,
          concat(repeat('ä', 40), id) long, concat('x', id) text, if(id % 3 = 0, null, id) gap,
          named_struct('a', id) deep, array(id) many, map('k', id) pairs
        from range(30)"""
    target = targets.iceberg(GOLD)
    lake.conf.set("spark.sql.parquet.outputTimestampType", written)
    what = results.of(target, TODAY, query)
    lake.conf.unset("spark.sql.parquet.outputTimestampType")
    assert publish(lake, what, open_store) == SinkDone("out", TODAY)
    shown, bare = lake.table(GOLD), lake.sql(query)
    assert sorted(map(str, shown.collect())) == sorted(map(str, bare.collect()))
    conditions = [
        f"{name} = (select {name} from truth where id = 17)" for name in bare.columns if name not in ("many", "pairs")
    ]
    conditions += ["gap is null", "gap > 20", "at > timestamp'2026-11-20'", "big > 12345678901234567918.9"]
    conditions += ["d > 9.5", "text = 'x7'", "deep.a = 7", *(f"id = {number}" for number in range(0, 30, 7))]
    bare.createOrReplaceTempView("truth")
    for condition in conditions:
        assert shown.where(condition).count() == bare.where(condition).count(), condition
    files = lake.sql(f"SELECT readable_metrics m, record_count FROM {GOLD}.files").collect()
    assert sum(one["record_count"] for one in files) == 30
    bounds = [(one["m"]["id"]["lower_bound"], one["m"]["id"]["upper_bound"]) for one in files]
    assert min(least for least, _ in bounds) == 0 and max(most for _, most in bounds) == 29


def test_files_with_ids_of_their_own_are_refused(lake: SparkSession, results: Results) -> None:
    """A column that another table calls 2 would be read as the second one of this table."""
    what = results.of(targets.iceberg(GOLD), TODAY, numbers(5, 8))
    named = lake.read.parquet(str(results.made[-1])).withMetadata("id", {"parquet.field.id": 2})
    folder = results.folder / "named"
    named.coalesce(1).write.parquet(str(folder))
    [path] = folder.glob("part-*")
    answer = publish(lake, replace(what, files=((f"file:{path}", path.stat().st_size),)), open_store)
    assert isinstance(answer, SinkFailed) and "has ids of columns" in answer.failure.cause.text


def test_what_is_there_is_told_to_verify(lake: SparkSession, results: Results) -> None:
    what = results.of(targets.iceberg(GOLD), TODAY, numbers(60, 8))
    publish(lake, what, open_store)
    held = iceberg.IcebergPublisher(targets.iceberg(GOLD)).contents(lake, open_store)
    assert held.pointer is not None and held.pointer.fence == TODAY
    (part,) = held.pointer.parts
    assert [length for _, length in part.files()] == [length for _, length in what.files]
    assert all(Path(held.folder.removeprefix("file:"), name).exists() for name, _ in part.files())


def test_removing_orphans_takes_no_file_of_a_run_that_stopped_for_long(
    lake: SparkSession, results: Results, days: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kept files are 30 days old, and the orphans are removed between the links and the commit."""
    assert cleaned(lake, results, days, monkeypatch) == {8: 60}


def test_control_without_the_age_of_now_the_orphans_are_ours(
    lake: SparkSession, results: Results, days: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_calls, "touch", lambda *arguments: None)
    with pytest.raises(Exception, match=r"(?i)not exist|NotFound"):
        cleaned(lake, results, days, monkeypatch)


def cleaned(lake: SparkSession, results: Results, days: Rows, monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    target = targets.iceberg(GOLD)
    publish(lake, results.of(target, YESTERDAY, numbers(50, 7)), open_store)
    what = results.of(target, TODAY, numbers(60, 8))
    for path, _ in what.files:
        os.utime(path.removeprefix("file:"), (time.time() - 30 * 86400,) * 2)
    between(
        monkeypatch,
        iceberg_calls,
        "commit",
        lambda: lake.sql("CALL lake.system.remove_orphan_files(table => 'db.gold')").collect(),
    )
    assert publish(lake, what, open_store) == SinkDone("out", TODAY)
    return days()


def test_a_table_of_the_sessions_own_catalog(lake: SparkSession, results: Results, tmp_path: Path) -> None:
    """With tables of Spark beside those of Iceberg in it, which are refused."""
    session = lake.newSession()
    for name, value in in_session_catalog(tmp_path / "warehouse").items():
        session.conf.set(name, value)
    session.sql("SHOW DATABASES")  # Spark takes the settings of a catalog from the session that is active.
    target = targets.iceberg("daily_ice")
    assert publish(session, results.of(target, YESTERDAY, numbers(50, 7)), open_store) == SinkDone("out", YESTERDAY)
    assert publish(session, results.of(target, TODAY, numbers(60, 8)), open_store) == SinkDone("out", TODAY)
    assert session.table("default.daily_ice").count() == 60
    session.sql(f"CREATE TABLE plain_parquet USING parquet LOCATION '{tmp_path / 'plain'}' AS SELECT 1 id")
    with pytest.raises(Refused, match="is a table of parquet"):
        check(session, owner(), targets.iceberg("default.plain_parquet"), 8, open_store)
    session.sql("DROP TABLE plain_parquet")
