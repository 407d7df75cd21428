"""Delta tables that get rows written again: what they must make or check, and files that have rows of others, too."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from rekindle.engine.spark.jvm import table_calls
from rekindle.engine.spark.publish import delta, delta_files
from rekindle.engine.spark.publish.publication import TargetOwner
from rekindle.engine.spark.publish.sinks import check, how, publish
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.master.facts.stimuli import SinkDone, SinkFailed, SinkFenced
from rekindle.publish import targets
from rekindle.storage.stores import open_store
from tables.conftest import Results, between

Rows = Callable[[Path], dict[int, int]]
YESTERDAY, TODAY, TOMORROW = Fence(7, 1, 1), Fence(8, 1, 1), Fence(9, 1, 1)
OWNER = TargetOwner(owner="daily", place="abc", sink="out")


def numbers(count: int, day: int) -> str:
    return f"select id, {day} day, concat('name-', id) name from range({count})"


@dataclass
class Lake:
    """A table of Delta at a path, looked at and changed by Spark and Delta alone."""

    spark: SparkSession
    path: Path

    def sql(self, text: str) -> list[Row]:
        found: list[Row] = self.spark.sql(text.replace("{}", f"delta.`{self.path}`")).collect()
        return found

    def make(self, columns: str, more: str = "") -> None:
        self.sql(f"CREATE TABLE {{}} ({columns}) USING delta {more}")

    def rows(self, *columns: str, where: str = "true") -> list[tuple[Any, ...]]:
        found = self.spark.read.format("delta").load(str(self.path)).where(where)
        return sorted((tuple(row) for row in found.select(*(columns or found.columns)).collect()), key=repr)

    def files(self) -> set[str]:
        return {Path(one).name for one in self.spark.read.format("delta").load(str(self.path)).inputFiles()}

    def files_with(self, where: str) -> list[str]:
        found = self.spark.read.format("delta").load(str(self.path)).where(where)
        return [row[0] for row in found.select(F.input_file_name()).distinct().collect()]

    def versions(self) -> int:
        return len(self.sql("DESCRIBE HISTORY {}"))


@pytest.fixture
def lake(tables: SparkSession, tmp_path: Path) -> Lake:
    return Lake(tables, tmp_path / "gold")


def rows_of(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.sql(query).collect()), key=repr)


def said(answer: object) -> str:
    assert isinstance(answer, SinkFailed), answer
    return answer.failure.cause.text


def way(lake: Lake, target: targets.Delta) -> str:
    return how(lake.spark, target, delta.DeltaPublisher(target).base(lake.spark))


PLAIN = "id BIGINT, day INT, name STRING"
CURED = {
    "column mapping": (PLAIN, "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"),
    "limits the length of the column name": ("id BIGINT, day INT, name VARCHAR(9)", ""),
    "its column id is NOT NULL": ("id BIGINT NOT NULL, day INT, name STRING", ""),
    "is partitioned by day": (PLAIN, "PARTITIONED BY (day)"),
    "meet the condition few": (PLAIN, ""),
}


@pytest.mark.parametrize("why", list(CURED))
def test_rows_are_written_again_where_the_table_must_look_at_each(results: Results, lake: Lake, why: str) -> None:
    columns, more = CURED[why]
    lake.make(columns, more)
    if "condition" in why:
        lake.sql("ALTER TABLE {} ADD CONSTRAINT few CHECK (id < 100)")
    target = targets.delta(str(lake.path))
    assert why in way(lake, target) and "its rows are written again by Spark, because it" in way(lake, target)
    first = results.of(target, YESTERDAY, numbers(50, 7))
    check(lake.spark, OWNER, target, 7, open_store, schema=first.schema)
    before = lake.versions()
    assert publish(lake.spark, first, open_store) == SinkDone("out", YESTERDAY)
    assert publish(lake.spark, first, open_store) == SinkDone("out", YESTERDAY), "it is there"
    second = results.of(target, TODAY, f"{numbers(30, 8)} union all {numbers(30, 9)}")
    assert publish(lake.spark, second, open_store) == SinkDone("out", TODAY)
    assert lake.rows() == rows_of(lake.spark, f"{numbers(30, 8)} union all {numbers(30, 9)}")
    assert lake.versions() == before + 2, "one commit for each"
    assert publish(lake.spark, first, open_store) == SinkFenced("out", YESTERDAY, TODAY)


def test_a_row_that_the_table_refuses_is_told_in_deltas_words_and_nothing_is_committed(
    results: Results, lake: Lake
) -> None:
    lake.make("id BIGINT NOT NULL, day INT, name VARCHAR(9)")
    lake.sql("ALTER TABLE {} ADD CONSTRAINT few CHECK (day < 9)")
    before = lake.versions()
    for query, words in {
        numbers(5, 9): "CHECK constraint few",
        "select if(id = 3, null, id) id, 7 day, 'x' name from range(9)": "NOT NULL constraint violated for column: id",
        "select id, 7 day, 'much too long' name from range(9)": "(?i)exceeds? .*length",
    }.items():
        text = said(publish(lake.spark, results.of(targets.delta(str(lake.path)), TODAY, query), open_store))
        assert "refuses a row" in text and re.search(words, text)
    assert lake.versions() == before and lake.rows() == []


def test_generated_columns_are_made_by_delta(results: Results, lake: Lake) -> None:
    """One is a partition, too. A result that brings values of its own must bring the right ones."""
    lake.make(f"{PLAIN}, next BIGINT GENERATED ALWAYS AS (id + 1), half INT GENERATED ALWAYS AS (CAST(id % 2 AS INT))")
    target = targets.delta(str(lake.path), partition={"day": "7"})
    what = results.of(target, TODAY, numbers(10, 7))
    check(lake.spark, OWNER, target, 8, open_store, schema=what.schema)
    assert "it generates the column next" in way(lake, target)
    assert publish(lake.spark, what, open_store) == SinkDone("out", TODAY)
    made = f"select *, id + 1 next, cast(id % 2 as int) half from ({numbers(10, 7)})"
    assert lake.rows() == rows_of(lake.spark, made)
    wrong = results.of(target, TOMORROW, made.replace("id + 1", "id + 2"))
    assert "refuses a row" in said(publish(lake.spark, wrong, open_store))
    other = results.of(target, TOMORROW, numbers(10, 8))
    assert "has rows without day=7" in said(publish(lake.spark, other, open_store))
    lacking = targets.delta(str(lake.path), partition={"half": "1"})
    with pytest.raises(Refused, match="the result lacks half"):
        check(lake.spark, OWNER, lacking, 9, open_store, schema=what.schema)


def test_append_knows_its_files_by_their_tags(results: Results, lake: Lake) -> None:
    lake.make(PLAIN, "PARTITIONED BY (day)")
    target = targets.delta(str(lake.path), "append")
    for day in (1, 2):
        what = results.of(target, Fence(day, 1, 1), numbers(10, day), key=f"day-{day}")
        assert publish(lake.spark, what, open_store) == SinkDone("out", Fence(day, 1, 1))
    lake.sql("INSERT INTO {} VALUES (1, 2, 'of others')")
    again = results.of(target, Fence(3, 1, 1), numbers(5, 2), key="day-2")
    assert publish(lake.spark, again, open_store) == SinkDone("out", Fence(3, 1, 1))
    mine = f"{numbers(10, 1)} union all {numbers(5, 2)}"
    assert lake.rows() == rows_of(lake.spark, f"{mine} union all select 1L, 2, 'of others'")
    held = delta.DeltaPublisher(target).contents(lake.spark, open_store)
    assert held.pointer is not None and {part.fence.order for part in held.pointer.parts} == {1, 3}
    assert all((lake.path / name).exists() for part in held.pointer.parts for name, _ in part.files())
    lake.sql("OPTIMIZE {}")
    late = results.of(target, Fence(4, 1, 1), numbers(6, 2), key="day-2")
    assert "others changed or compacted them" in said(publish(lake.spark, late, open_store))


CHANGED = "others deleted or changed rows of 1 files"


@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_row_that_others_changed_is_not_there_twice(
    is_guarded: bool, results: Results, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With deletion vectors a file keeps its name, and the changed row is in a file of somebody else."""
    lake.make(PLAIN, "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    target = targets.delta(str(lake.path), "append")
    publish(lake.spark, results.of(target, Fence(1, 1, 1), numbers(50, 2), key="day-2"), open_store)
    lake.sql("UPDATE {} SET name = 'changed' WHERE id = 3")
    before = lake.rows()
    if not is_guarded:
        seen = delta_files.files_of
        monkeypatch.setattr(delta_files, "files_of", lambda *asked: [replace(file, deletes=0) for file in seen(*asked)])
    answer = publish(lake.spark, results.of(target, Fence(2, 1, 1), numbers(50, 2), key="day-2"), open_store)
    if is_guarded:
        assert CHANGED in said(answer) and lake.rows() == before
    else:
        assert len(lake.rows(where="id = 3")) == 2, "the control sees it twice"


MIXED = "SELECT /*+ COALESCE(1) */ id, CAST(7 + id % 2 AS INT) day, 'old' name FROM range(40)"


def test_rows_of_other_days_in_a_file_stay(results: Results, lake: Lake) -> None:
    """Also where a deletion vector has deleted some, and a row has no day. The new files are added as they are."""
    lake.make(PLAIN, "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    lake.sql(f"INSERT INTO {{}} {MIXED} UNION ALL SELECT 100, NULL, 'old'")
    lake.sql("INSERT INTO {} SELECT id, 9, 'old' FROM range(3)")
    lake.sql("DELETE FROM {} WHERE id IN (4, 5)")
    untouched = lake.rows(where="day = 9")
    target = targets.delta(str(lake.path), partition={"day": "7"})
    assert "as they are; in 1 files of the table, rows with other values are written again" in way(lake, target)
    stay = lake.rows(where="day <> 7 OR day IS NULL")
    what = results.of(target, TODAY, numbers(5, 7))
    check(lake.spark, OWNER, target, 8, open_store, schema=what.schema)
    assert publish(lake.spark, what, open_store) == SinkDone("out", TODAY)
    assert lake.rows(where="day <> 7 OR day IS NULL") == stay and len(stay) == 19 + 1 + 3
    assert lake.rows(where="day = 7") == rows_of(lake.spark, numbers(5, 7))
    assert lake.rows(where="day = 9") == untouched
    assert len([path for path in lake.path.glob("*.parquet") if path.stat().st_nlink == 2]) == 3


def test_a_column_is_known_by_its_name_of_now(results: Results, lake: Lake) -> None:
    """The log has the statistics of a renamed column under the name that another column has now."""
    lake.make(PLAIN)
    lake.sql("INSERT INTO {} SELECT id, 7, 'old' FROM range(9)")
    for change in (
        "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', "
        "'delta.minWriterVersion' = '5')",
        "RENAME COLUMN day TO was",
        "ADD COLUMN day INT",
        "DROP COLUMN was",
    ):
        lake.sql(f"ALTER TABLE {{}} {change}")
    target = targets.delta(str(lake.path), partition={"day": "7"})
    what = results.of(target, TODAY, "select id, name, day from (" + numbers(5, 7) + ")")
    assert publish(lake.spark, what, open_store) == SinkDone("out", TODAY)
    assert len(lake.rows(where="day IS NULL")) == 9 and len(lake.rows(where="day = 7")) == 5


KEYED = "select id * 3 id, 8 day, concat('new-', id) name from range(20)"


def merged(lake: Lake, more: str = "") -> list[tuple[Any, ...]]:
    """What Delta's own MERGE makes of a copy."""
    copy = Lake(lake.spark, lake.path.with_name("copy"))
    lake.spark.read.format("delta").load(str(lake.path)).write.format("delta").mode("overwrite").save(str(copy.path))
    copy.sql(more) if more else None
    copy.sql(
        f"MERGE INTO {{}} t USING ({KEYED}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN "
        "INSERT *"
    )
    return copy.rows()


def old_rows(lake: Lake) -> None:
    """Two files with keys of the result, of which one has lost rows, one without, and rows without a key."""
    lake.make(PLAIN, "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    for first in (0, 20):
        lake.sql(f"INSERT INTO {{}} SELECT /*+ COALESCE(1) */ id + {first}, 7, 'old' FROM range(20)")
    lake.sql("INSERT INTO {} SELECT /*+ COALESCE(1) */ id * 3 + 1001, 7, 'far' FROM range(20)")
    lake.sql("INSERT INTO {} VALUES (NULL, 1, 'none')")
    lake.sql("DELETE FROM {} WHERE id IN (3, 4)")


def test_a_merge_is_what_deltas_own_would_be(results: Results, lake: Lake) -> None:
    old_rows(lake)
    target = targets.delta(str(lake.path), keys=["id"])
    expected, before = merged(lake), lake.files()
    untouched = {Path(one).name for one in lake.files_with("id > 1000 OR id IS NULL")}
    what = results.of(target, TODAY, KEYED)
    check(lake.spark, OWNER, target, 8, open_store, schema=what.schema)
    assert "as they are; in files that have a key of the result, rows with other keys are written again" in way(
        lake, target
    )
    versions = lake.versions()
    assert publish(lake.spark, what, open_store) == SinkDone("out", TODAY)
    assert lake.rows() == expected
    assert untouched and lake.files() & before == untouched, "files without a key of the result stay as they are"
    assert publish(lake.spark, what, open_store) == SinkDone("out", TODAY)
    assert lake.versions() == versions + 1 and lake.rows() == expected
    again = results.of(target, TOMORROW, KEYED)
    assert publish(lake.spark, again, open_store) == SinkDone("out", TOMORROW)
    assert lake.rows() == expected
    assert publish(lake.spark, what, open_store) == SinkFenced("out", TODAY, TOMORROW), "a zombie of the older run"
    nothing = results.of(target, Fence(10, 1, 1), f"select * from ({KEYED}) where id < 0")
    assert publish(lake.spark, nothing, open_store) == SinkDone("out", Fence(10, 1, 1))
    assert lake.rows() == expected


@pytest.mark.parametrize("more", ["TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", "PARTITIONED BY (name)"])
def test_a_merge_into_a_table_that_needs_rows_written_again(results: Results, lake: Lake, more: str) -> None:
    lake.make("id BIGINT NOT NULL, day INT, name STRING", more)
    lake.sql("INSERT INTO {} SELECT id, 7, concat('50% of ', id % 3) FROM range(30)")
    expected = merged(lake)
    assert publish(lake.spark, results.of(targets.delta(str(lake.path), keys="id"), TODAY, KEYED), open_store) == (
        SinkDone("out", TODAY)
    )
    assert lake.rows() == expected


def test_a_commit_between_the_look_and_the_merge_is_looked_at(
    results: Results, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody inserts a key that the result has, too."""
    old_rows(lake)
    expected = merged(lake, "INSERT INTO {} VALUES (57, 7, 'between')")
    between(monkeypatch, table_calls, "delta_commit", lambda: lake.sql("INSERT INTO {} VALUES (57, 7, 'between')"))
    what = results.of(targets.delta(str(lake.path), keys="id"), TODAY, KEYED)
    assert publish(lake.spark, what, open_store) == SinkDone("out", TODAY)
    assert lake.rows() == expected and len(lake.rows(where="id = 57")) == 1


def test_control_without_the_version_pin_a_key_is_there_twice(
    results: Results, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_rows(lake)
    commit, waiting = table_calls.delta_commit, ["INSERT INTO {} VALUES (57, 7, 'between')"]

    def unpinned(spark: SparkSession, path: str, version: int, **named: object) -> bool:
        while waiting:
            lake.sql(waiting.pop())
        return commit(spark, path, lake.versions() - 1, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(table_calls, "delta_commit", unpinned)
    what = results.of(targets.delta(str(lake.path), keys="id"), TODAY, KEYED)
    assert publish(lake.spark, what, open_store) == SinkDone("out", TODAY)
    assert len(lake.rows(where="id = 57")) == 2


WRONG_KEYS = {
    "select 3L id, 8 day, 'x' name from range(2)": "2 rows with the key id=3",
    "select if(id = 1, null, id) id, 8 day, 'x' name from range(3)": "a row with the key id=None",
}


@pytest.mark.parametrize("query", list(WRONG_KEYS))
def test_keys_that_do_not_tell_rows_are_refused(results: Results, lake: Lake, query: str) -> None:
    old_rows(lake)
    before = lake.rows()
    what = results.of(targets.delta(str(lake.path), keys="id"), TODAY, query)
    assert WRONG_KEYS[query] in said(publish(lake.spark, what, open_store))
    assert lake.rows() == before


def test_a_merge_by_what_is_not_compared_exactly_is_refused(results: Results, lake: Lake) -> None:
    lake.make("id DOUBLE, day INT, name STRING")
    schema = results.of(targets.delta(str(lake.path)), TODAY, "select 1d id, 7 day, 'x' name").schema
    for key, words in {"id": "id is double", "more": "more is no column of the result"}.items():
        with pytest.raises(Refused, match=words):
            check(lake.spark, OWNER, targets.delta(str(lake.path), keys=key), 8, open_store, schema=schema)
