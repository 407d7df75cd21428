"""Publishing into Delta tables on real Spark: old or new, never both, never twice, and no row written again.
Where rows are: test_delta_rows.py."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import table_calls
from rekindle.engine.spark.publish import delta, delta_files
from rekindle.engine.spark.publish.publication import TargetOwner
from rekindle.engine.spark.publish.sinks import check, publish
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.master.facts.stimuli import SinkDone, SinkFailed, SinkFenced
from rekindle.publish import targets
from rekindle.storage.stores import open_store
from tables.conftest import Results, between

Rows = Callable[[Path], dict[int, int]]
YESTERDAY, TODAY = Fence(7, 1, 1), Fence(8, 1, 1)


def numbers(count: int, day: int) -> str:
    return f"select id, {day} day, concat('name-', id) name from range({count})"


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return tmp_path / "gold"


def history(spark: SparkSession, table: Path) -> list[str]:
    found = spark.sql(f"DESCRIBE HISTORY delta.`{table}`").collect()
    return [row["operation"] for row in found]


def test_a_publication_is_one_commit_and_no_row_is_written_again(
    tables: SparkSession, results: Results, gold: Path, rows: Rows
) -> None:
    first = results.of(targets.delta(str(gold)), YESTERDAY, numbers(50, 7))
    assert publish(tables, first, open_store) == SinkDone("out", YESTERDAY)
    second = results.of(targets.delta(str(gold)), TODAY, numbers(60, 8))
    assert publish(tables, second, open_store) == SinkDone("out", TODAY)
    assert rows(gold) == {8: 60}
    assert history(tables, gold) == ["WRITE", "WRITE", "CREATE TABLE"]
    old = tables.read.format("delta").option("versionAsOf", 1).load(str(gold))
    assert old.count() == 50, "the old version is there for those who ask for it"
    linked = [path for path in gold.glob("*.parquet") if path.stat().st_nlink == 2]
    assert len(linked) == 6, "each file is a second name of a kept one"


def test_the_same_publication_again_changes_nothing(
    tables: SparkSession, results: Results, gold: Path, rows: Rows
) -> None:
    what = results.of(targets.delta(str(gold)), TODAY, numbers(60, 8))
    assert publish(tables, what, open_store) == SinkDone("out", TODAY)
    assert publish(tables, what, open_store) == SinkDone("out", TODAY)
    assert rows(gold) == {8: 60}
    assert history(tables, gold) == ["WRITE", "CREATE TABLE"]


def test_a_later_run_is_not_replaced_by_an_earlier_one(
    tables: SparkSession, results: Results, gold: Path, rows: Rows
) -> None:
    today = results.of(targets.delta(str(gold)), TODAY, numbers(60, 8))
    late = results.of(targets.delta(str(gold)), YESTERDAY, numbers(50, 7))
    assert publish(tables, today, open_store) == SinkDone("out", TODAY)
    assert publish(tables, late, open_store) == SinkFenced("out", YESTERDAY, TODAY)
    assert rows(gold) == {8: 60}
    with pytest.raises(Refused, match=r"a later run published \(run 8; this is run 7\)"):
        check(tables, owner(), targets.delta(str(gold)), 7, open_store, schema=late.schema)


def owner(place: str = "abc", name: str = "daily", key: str = "", takes: str | None = None) -> TargetOwner:
    return TargetOwner(owner=name, place=place, sink="out", key=key, takes=takes)


def test_a_publisher_that_slept_through_todays_run_is_fenced(
    tables: SparkSession, results: Results, gold: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = results.of(targets.delta(str(gold)), TODAY, numbers(60, 8))
    late = results.of(targets.delta(str(gold)), YESTERDAY, numbers(50, 7))
    between(monkeypatch, table_calls, "delta_commit", lambda: publish(tables, today, open_store))
    assert publish(tables, late, open_store) == SinkFenced("out", YESTERDAY, TODAY)
    assert rows(gold) == {8: 60}


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_control_without_the_fence_yesterday_comes_back(
    tables: SparkSession, results: Results, gold: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The same night with a publisher that looks whether it is late, and then commits whatever came meanwhile."""
    today = results.of(targets.delta(str(gold), mode), TODAY, numbers(60, 8))
    late = results.of(targets.delta(str(gold), mode), YESTERDAY, numbers(50, 7))
    publish(tables, results.of(targets.delta(str(gold), mode), Fence(6, 1, 1), numbers(1, 6)), open_store)
    commit, waiting = table_calls.delta_commit, [lambda: publish(tables, today, open_store)]

    def compare_then_act(spark: SparkSession, path: str, version: int, **named: object) -> bool:
        while waiting:
            waiting.pop()()
        lines = table_calls.delta_state(spark, path, "rekindle/")
        if named["removed"] != ("*",):
            named["removed"] = ()
        return commit(spark, path, int(lines[0]), **named | {"watched": []})  # type: ignore[arg-type]

    monkeypatch.setattr(table_calls, "delta_commit", compare_then_act)
    publish(tables, late, open_store)
    assert rows(gold).get(7) == 50, "the late one is there, over or beside the later one"


def test_a_commit_of_somebody_else_is_not_lost(
    tables: SparkSession, results: Results, gold: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It appended rows between the look and the commit."""
    target = targets.delta(str(gold), "append")
    publish(tables, results.of(target, YESTERDAY, numbers(50, 7), key="d7"), open_store)
    mine = results.of(target, TODAY, numbers(60, 8), key="d8")
    between(
        monkeypatch, table_calls, "delta_commit", lambda: tables.sql(f"INSERT INTO delta.`{gold}` VALUES (1, 99, 'x')")
    )
    assert publish(tables, mine, open_store) == SinkDone("out", TODAY)
    assert rows(gold) == {7: 50, 8: 60, 99: 1}


def test_a_later_master_of_the_run_takes_the_fence_and_undoes_nothing(
    tables: SparkSession, results: Results, gold: Path, rows: Rows
) -> None:
    """The driver died after the commit and before it was journaled; meanwhile somebody deleted a row."""
    target = targets.delta(str(gold))
    what = results.of(target, TODAY, numbers(60, 8))
    assert publish(tables, what, open_store) == SinkDone("out", TODAY)
    tables.sql(f"DELETE FROM delta.`{gold}` WHERE id = 5")
    again = replace(what, fence=Fence(8, 2, 1))
    assert publish(tables, again, open_store) == SinkDone("out", Fence(8, 2, 1))
    assert rows(gold) == {8: 59}
    assert publish(tables, what, open_store) == SinkFenced("out", TODAY, Fence(8, 2, 1)), "the dead master woke up"
    assert rows(gold) == {8: 59}


def test_append_replaces_the_rows_of_its_key_and_nothing_else(
    tables: SparkSession, results: Results, gold: Path, rows: Rows
) -> None:
    target = targets.delta(str(gold), "append")
    for order, count, day in [(1, 10, 1), (2, 20, 2), (3, 30, 3)]:
        what = results.of(target, Fence(order, 1, 1), numbers(count, day), key=f"day-{day}")
        assert publish(tables, what, open_store) == SinkDone("out", Fence(order, 1, 1))
    tables.sql(f"INSERT INTO delta.`{gold}` VALUES (1, 99, 'x')")
    assert rows(gold) == {1: 10, 2: 20, 3: 30, 99: 1}
    corrected = results.of(target, Fence(4, 1, 1), numbers(25, 2), key="day-2")
    assert publish(tables, corrected, open_store) == SinkDone("out", Fence(4, 1, 1))
    assert rows(gold) == {1: 10, 2: 25, 3: 30, 99: 1}
    late = results.of(target, Fence(2, 9, 9), numbers(7, 2), key="day-2")
    assert publish(tables, late, open_store) == SinkFenced("out", Fence(2, 9, 9), Fence(4, 1, 1))
    nothing = results.of(target, Fence(5, 1, 1), f"{numbers(1, 2)} where id > 1", key="day-2")
    assert publish(tables, nothing, open_store) == SinkDone("out", Fence(5, 1, 1))
    assert rows(gold) == {1: 10, 3: 30, 99: 1}
    filled = results.of(target, Fence(6, 1, 1), numbers(8, 2), key="day-2")
    assert publish(tables, filled, open_store) == SinkDone("out", Fence(6, 1, 1))
    assert rows(gold) == {1: 10, 2: 8, 3: 30, 99: 1}


@pytest.mark.parametrize("change", ["OPTIMIZE delta.`{}`", "DELETE FROM delta.`{}` WHERE id = 3"])
def test_append_is_refused_where_others_put_rows_into_other_files(
    tables: SparkSession, results: Results, gold: Path, rows: Rows, change: str
) -> None:
    """Before anything runs, and by the publication."""
    target = targets.delta(str(gold), "append")
    for day in (1, 2):
        publish(tables, results.of(target, Fence(day, 1, 1), numbers(10, day), key=f"day-{day}"), open_store)
    tables.sql(change.format(gold))
    before = rows(gold)
    corrected = results.of(target, Fence(4, 1, 1), numbers(25, 2), key="day-2")
    with pytest.raises(Refused, match="others changed or compacted them"):
        check(tables, owner(key="day-2"), target, 4, open_store, schema=corrected.schema)
    answer = publish(tables, corrected, open_store)
    assert isinstance(answer, SinkFailed) and "others changed or compacted them" in answer.failure.cause.text
    assert rows(gold) == before
    check(tables, owner(key="day-3"), target, 5, open_store, schema=corrected.schema)


def test_control_without_the_count_of_files_rows_are_doubled(
    tables: SparkSession, results: Results, gold: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = targets.delta(str(gold), "append")
    publish(tables, results.of(target, Fence(1, 1, 1), numbers(10, 2), key="day-2"), open_store)
    tables.sql(f"OPTIMIZE delta.`{gold}`")
    monkeypatch.setattr(delta_files, "_of_key", lambda target, there, earlier: [])
    publish(tables, results.of(target, Fence(4, 1, 1), numbers(10, 2), key="day-2"), open_store)
    assert rows(gold) == {2: 20}


@pytest.mark.parametrize("by", ["", "PARTITIONED BY (day)"])
def test_the_day_is_replaced_and_nothing_else(
    tables: SparkSession, results: Results, gold: Path, rows: Rows, by: str
) -> None:
    tables.sql(f"CREATE TABLE delta.`{gold}` (id BIGINT, day INT, name STRING) USING delta {by}")
    tables.sql(f"INSERT INTO delta.`{gold}` SELECT id, 7, 'old' FROM range(40)")
    tables.sql(f"INSERT INTO delta.`{gold}` SELECT id, 8, 'old' FROM range(30)")
    target = targets.delta(str(gold), partition={"day": "7"})
    assert publish(tables, results.of(target, TODAY, numbers(50, 7)), open_store) == SinkDone("out", TODAY)
    assert rows(gold) == {7: 50, 8: 30}
    other = targets.delta(str(gold), partition={"day": "8"})
    assert publish(tables, results.of(other, YESTERDAY, numbers(5, 8)), open_store) == SinkDone("out", YESTERDAY)
    assert rows(gold) == {7: 50, 8: 5}
    late = results.of(targets.delta(str(gold), partition={"day": "07"}), YESTERDAY, numbers(9, 7))
    assert publish(tables, late, open_store) == SinkFenced("out", YESTERDAY, TODAY)
    wrong = publish(tables, results.of(target, Fence(9, 1, 1), numbers(5, 8)), open_store)
    assert isinstance(wrong, SinkFailed) and "has rows without day=7" in wrong.failure.cause.text
    assert rows(gold) == {7: 50, 8: 5}


OBSTACLES = {
    "TBLPROPERTIES ('delta.enableRowTracking' = 'true')": "row tracking",
    "TBLPROPERTIES ('delta.appendOnly' = 'true')": "nothing may be removed",
    "TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 day')": "forgets transactions",
}


@pytest.mark.parametrize("made", list(OBSTACLES))
def test_a_table_that_a_publication_could_break_is_refused_before_anything_runs(
    tables: SparkSession, results: Results, gold: Path, made: str
) -> None:
    tables.sql(f"CREATE TABLE delta.`{gold}` (id BIGINT, day INT, name STRING) USING delta {made}")
    schema = results.of(targets.delta(str(gold)), TODAY, numbers(5, 8)).schema
    with pytest.raises(Refused, match=f"cannot take a publication: .*{OBSTACLES[made]}"):
        check(tables, owner(), targets.delta(str(gold)), 8, open_store, schema=schema)


COLUMNS = {
    "id BIGINT, day INT, name STRING, n BIGINT GENERATED ALWAYS AS IDENTITY": "numbers the column n",
    "id BIGINT, day INT": "name is not in the table",
    "id BIGINT, day BIGINT, name STRING": "day is long in the table and integer in the result",
    "id BIGINT, day INT, name STRING, more INT": "more is missing in the result",
}


@pytest.mark.parametrize("columns", list(COLUMNS))
def test_other_columns_are_refused_before_anything_runs(
    tables: SparkSession, results: Results, gold: Path, columns: str
) -> None:
    builder = f"CREATE TABLE delta.`{gold}` ({columns}) USING delta"
    tables.sql(builder)
    schema = results.of(targets.delta(str(gold)), TODAY, numbers(5, 8)).schema
    with pytest.raises(Refused, match=COLUMNS[columns]):
        check(tables, owner(), targets.delta(str(gold)), 8, open_store, schema=schema)


def test_a_table_by_name_is_made_and_found_again(tables: SparkSession, results: Results) -> None:
    target = targets.delta("default.daily_gold")
    try:
        assert publish(tables, results.of(target, YESTERDAY, numbers(50, 7)), open_store) == SinkDone("out", YESTERDAY)
        assert publish(tables, results.of(target, TODAY, numbers(60, 8)), open_store) == SinkDone("out", TODAY)
        assert tables.table("daily_gold").count() == 60
    finally:
        tables.sql("DROP TABLE IF EXISTS daily_gold")


def test_a_table_of_others_is_not_taken(tables: SparkSession, results: Results, gold: Path, rows: Rows) -> None:
    target = targets.delta(str(gold))
    assert isinstance(publish(tables, results.of(target, TODAY, numbers(60, 8)), open_store), SinkDone)
    other = publish(tables, results.of(target, Fence(9, 1, 1), numbers(1, 9), owner="weekly"), open_store)
    assert isinstance(other, SinkFailed) and "is a target of daily, and weekly may not" in other.failure.cause.text
    moved = results.of(target, Fence(1, 1, 1), numbers(3, 1), place="def")
    refused = publish(tables, moved, open_store)
    assert isinstance(refused, SinkFailed) and "in another location (its newest is run 8)" in refused.failure.cause.text
    assert delta.DeltaPublisher(target).place(tables, str(gold), open_store) == "abc"
    taking = results.of(target, Fence(1, 1, 1), numbers(3, 1), place="def", takes="abc")
    assert publish(tables, taking, open_store) == SinkDone("out", Fence(1, 1, 1))
    back = publish(tables, results.of(target, Fence(99, 1, 1), numbers(1, 9)), open_store)
    assert isinstance(back, SinkFailed) and rows(gold) == {1: 3}, "the old location is refused from then on"


def test_statistics_say_what_the_files_hold(tables: SparkSession, results: Results, gold: Path) -> None:
    """Every kind of value: a reader that skips files by them finds what one that reads all finds."""
    query = """
        select id, cast(id as int) i, cast(id as smallint) s, cast(id as tinyint) b, id % 2 = 0 flag,
          cast(id as double) / 3 d, cast(id as float) / 3 f, cast(id as decimal(9, 2)) small,
          cast(id + 12345678901234567890.1234 as decimal(30, 4)) big, date_add(date'2026-11-01', cast(id as int)) day,
          timestamp'2026-11-01 00:00:00.000001' + make_interval(0, 0, 0, cast(id as int)) at,
          timestamp_ntz'2026-11-01 00:00:00' ntz,
          concat(repeat('ä', 40), id) long, concat('x', id) text, if(id % 3 = 0, null, id) gap,
          named_struct('a', id) deep, array(id) many
        from range(30)"""
    target = targets.delta(str(gold))
    tables.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    what = results.of(target, TODAY, query)
    tables.conf.unset("spark.sql.parquet.outputTimestampType")
    assert publish(tables, what, open_store) == SinkDone("out", TODAY)
    shown = tables.read.format("delta").load(str(gold))
    bare = tables.sql(query)
    conditions = [
        f"{name} = (select {name} from truth where id = 17)" for name in bare.columns if name not in ("many",)
    ]
    conditions += [
        "gap is null",
        "gap > 20",
        "at > timestamp'2026-11-20'",
        "big > 12345678901234567918.9",
        "d > 9.5",
        "text = 'x7'",
    ]
    conditions += [f"big = {12345678901234567890 + number}.1234" for number in range(30)]
    bare.createOrReplaceTempView("truth")
    for condition in conditions:
        assert shown.where(condition).count() == bare.where(condition).count(), condition
    log = (gold / "_delta_log" / "00000000000000000001.json").read_text().splitlines()
    adds = [json.loads(line)["add"] for line in log if '"add"' in line]
    stats = [json.loads(one["stats"]) for one in adds]
    assert sum(one["numRecords"] for one in stats) == 30
    assert all(set(one["minValues"]) >= {"id", "i", "d", "small", "big", "day", "at", "long", "text"} for one in stats)


def test_vacuum_takes_no_file_of_a_run_that_stopped_for_long(
    tables: SparkSession, results: Results, gold: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kept files are 30 days old, and VACUUM comes between the links and the commit."""
    assert vacuumed(tables, results, gold, rows, monkeypatch) == {8: 60}


def test_control_without_the_age_of_now_vacuum_takes_them(
    tables: SparkSession, results: Results, gold: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_calls, "touch", lambda *arguments: None)
    with pytest.raises(Exception, match=r"(?i)not exist|FileNotFound|FAILED_READ_FILE"):
        vacuumed(tables, results, gold, rows, monkeypatch)


def vacuumed(
    tables: SparkSession, results: Results, gold: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> dict[int, int]:
    target = targets.delta(str(gold))
    publish(tables, results.of(target, YESTERDAY, numbers(50, 7)), open_store)
    what = results.of(target, TODAY, numbers(60, 8))
    for path, _ in what.files:
        os.utime(path.removeprefix("file:"), (time.time() - 30 * 86400,) * 2)
    between(monkeypatch, table_calls, "delta_commit", lambda: tables.sql(f"VACUUM delta.`{gold}`"))
    assert publish(tables, what, open_store) == SinkDone("out", TODAY)
    return rows(gold)


def test_what_is_there_is_told_to_verify(tables: SparkSession, results: Results, gold: Path) -> None:
    what = results.of(targets.delta(str(gold)), TODAY, numbers(60, 8))
    publish(tables, what, open_store)
    held = delta.DeltaPublisher(targets.delta(str(gold))).contents(tables, open_store)
    assert held.pointer is not None and held.pointer.fence == TODAY
    (part,) = held.pointer.parts
    assert [length for _, length in part.files()] == [length for _, length in what.files]
    assert all((gold / name).exists() for name, _ in part.files())
