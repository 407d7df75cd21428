"""Rows given to a function: a real SQLite database takes them, and bare Spark says which ones it must hold."""

from __future__ import annotations

import functools
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import rekindle as rk
from doubles.damage import damage_when_read
from rekindle.engine.spark.publish import each_partition
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.publish.sinks import Published, publish
from rekindle.failover.backoff import Backoff, FixedDelay, NoRestart
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import Fence
from rekindle.master.facts.stimuli import SinkDone, SinkFailed, SinkFenced
from rekindle.publish.each_partition import EachPartition, asked_of_partition, name_of
from rekindle.storage.stores import open_store

DAYS = ("2026-11-01", "2026-11-02")
PARTITIONS = 4


class Shop:
    """A database, and a pipeline that writes into it. While one of three files is there, a partition waits until it is
    noted that all others ended: with `waiting` it only waits, with `failing` it fails then, and with `losing` it writes
    its rows and loses its kept file."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.database, self.calls = str(folder / "shop.db"), str(folder / "calls.txt")
        self.failing, self.losing, self.waiting = (str(folder / name) for name in ("failing", "losing", "waiting"))
        with self.connect() as connection:
            columns = "id integer, day text, batch text, run integer, partition integer, key text"
            connection.execute(f"create table orders ({columns})")
            connection.execute("create table written (key text primary key)")

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.database, timeout=60)

    def target(self, before: Callable[..., None] | None = None, **how: Any) -> Any:
        database, calls, failing, losing = self.database, self.calls, self.failing, self.losing
        notes, for_which_it_waits = f"{self.folder}/notes", (failing, losing, self.waiting)

        def ended(place: str) -> set[str]:
            found = [json.loads(path.read_text()) for path in Path(place).glob("noted/v*/v*")]
            return {number for note in found for number in note.get("ended", {})}

        def write(rows: Iterator[Row], key: str, partition: int, batch: str, run: int) -> None:
            if partition == 2 and any(Path(one).exists() for one in for_which_it_waits):
                while len(ended(notes)) < PARTITIONS - 1:
                    time.sleep(0.05)
            found = [(row.id, row.day, batch, run, partition, key) for row in rows]
            if partition == 2 and Path(failing).exists():
                raise ValueError("the database is closed")
            with Path(calls).open("a") as log:
                log.write(f"{partition} {key}\n")
            with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
                connection.execute(
                    "delete from orders where batch = ? and partition = ? and key <> ?", (batch, partition, key)
                )
                if connection.execute("insert or ignore into written values (?)", (key,)).rowcount:
                    connection.executemany("insert into orders values (?, ?, ?, ?, ?, ?)", found)
            if partition == 2 and Path(losing).exists():
                [kept] = Path(losing).parent.glob("runs/shop/*/results/database/*/*/part-*_00002.*")
                kept.unlink()
                Path(losing).unlink()
                raise ValueError("the worker is killed after its transaction")

        def forget_earlier(batch: str, run: int) -> None:
            with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
                connection.execute("delete from orders where batch = ? and run < ?", (batch, run))

        how = {"before": before or forget_earlier, "exactly_once": True, **how}
        return rk.each_partition(write, notes, **how)

    def run(
        self, day: str, rows: int, *, new: bool = False, backoff: Backoff | None = None, **how: Any
    ) -> rk.RunSummary:
        pipeline = rk.Pipeline("shop")

        @pipeline.source
        def orders(spark: SparkSession, day: str) -> DataFrame:
            return orders_of(spark, day, rows)

        @pipeline.sink(self.target(**how), partition_by="id", partitions=PARTITIONS)
        def database(orders: DataFrame) -> DataFrame:
            return orders

        options = rk.RunOptions(new=new, config=MasterConfig(backoff=BackoffSpec.of(backoff or NoRestart())))
        return pipeline.run(self.spark, f"{self.folder}/runs", day=day, options=options)

    def holds(self, *frames: DataFrame) -> bool:
        with closing(self.connect()) as connection:
            found = connection.execute("select id, day from orders").fetchall()
        return sorted(found) == sorted(tuple(row) for frame in frames for row in frame.collect())

    def called(self) -> dict[int, int]:
        """How often for each partition; then they are forgotten."""
        return dict(sorted(Counter(partition for partition, _ in self.calls_made()).items()))

    def calls_made(self) -> list[tuple[int, str]]:
        """Partition and key of each call; then they are forgotten."""
        path = Path(self.calls)
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [(int(partition), key) for partition, key in (line.split() for line in lines)]


def orders_of(spark: SparkSession, day: str, rows: int) -> DataFrame:
    return spark.range(rows).selectExpr("id", f"'{day}' day")


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(each_partition, "NOTED_EVERY_SECONDS", 0.1)
    return Shop(spark, tmp_path)


def test_each_night_and_a_corrected_one(shop: Shop, spark: SparkSession) -> None:
    for day in DAYS:
        shop.run(day, 100)
    assert shop.holds(*(orders_of(spark, day, 100) for day in DAYS))
    assert shop.called() == dict.fromkeys(range(PARTITIONS), 2)
    assert shop.run(DAYS[0], 100).was_done and shop.called() == {}
    shop.run(DAYS[0], 60, new=True)
    assert shop.holds(orders_of(spark, DAYS[0], 60), orders_of(spark, DAYS[1], 100))


def test_only_partitions_that_did_not_end_are_called_again(shop: Shop, spark: SparkSession) -> None:
    Path(shop.failing).touch()
    with pytest.raises(rk.RunFailed, match="the database is closed"):
        shop.run(DAYS[0], 100)
    assert shop.called() == {0: 1, 1: 1, 3: 1}
    Path(shop.failing).unlink()
    shop.run(DAYS[0], 100)
    assert shop.called() == {2: 1}
    assert shop.holds(orders_of(spark, DAYS[0], 100))


def test_a_partition_that_was_lost_and_made_again_is_the_only_one_called_again(shop: Shop, spark: SparkSession) -> None:
    """It has another key then, by which its author finds the rows of the version that was lost."""
    Path(shop.losing).touch()
    summary = shop.run(DAYS[0], 100, backoff=FixedDelay(5, 0))
    assert summary.steps["database"].repeated == 1, "its file was lost while the function was called"
    calls = shop.calls_made()
    assert sorted(partition for partition, _ in calls) == [0, 1, 2, 2, 3]
    assert len(set(calls)) == len(calls), "the partition that was made again has another key"
    assert shop.holds(orders_of(spark, DAYS[0], 100))


def test_a_call_that_got_fewer_rows_than_there_are_fails(
    shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Spark cannot read on, its Python worker may see the end of the rows, and no error. Here there is one row
    less than was counted."""
    counted: list[dict[int, int]] = []
    real = each_partition._counted

    def one_more(rows: DataFrame) -> dict[int, int]:
        found = real(rows)
        counted.append(found)
        return {**found, 2: found[2] + 1} if len(counted) == 1 else found

    monkeypatch.setattr(each_partition, "_counted", one_more)
    Path(shop.waiting).touch()
    summary = shop.run(DAYS[0], 100, backoff=FixedDelay(5, 0))
    assert summary.failures == 1 and sum(counted[0].values()) == 100
    assert shop.called() == dict.fromkeys(range(PARTITIONS), 1), "it failed before its transaction"
    assert shop.holds(orders_of(spark, DAYS[0], 100))


def test_rows_that_spark_cannot_read_are_not_the_end_of_a_partition(
    shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is damaged behind its first rows, and has no sums but those of its pages."""
    damage_when_read(monkeypatch, 2)
    summary = shop.run(DAYS[0], 100, backoff=FixedDelay(5, 0))
    assert summary.steps["database"].repeated == 1, "the damaged partition was made again"
    assert shop.called()[2] == 1, "no call got a part of its rows; others may be called again, with the same keys"
    assert shop.holds(orders_of(spark, DAYS[0], 100))


def test_before_is_called_once_for_a_run_so_that_it_may_delete_the_batch(shop: Shop, spark: SparkSession) -> None:
    database, told = shop.database, []

    def forget_batch(batch: str, run: int) -> None:
        told.append(run)
        with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
            connection.execute("delete from orders where batch = ?", (batch,))

    Path(shop.failing).touch()
    with pytest.raises(rk.RunFailed, match="the database is closed"):
        shop.run(DAYS[0], 100, before=forget_batch)
    Path(shop.failing).unlink()
    shop.run(DAYS[0], 100, before=forget_batch)
    assert told == [1] and shop.holds(orders_of(spark, DAYS[0], 100))
    shop.run(DAYS[0], 60, before=forget_batch, new=True)
    assert told == [1, 2] and shop.holds(orders_of(spark, DAYS[0], 60))


class Masters:
    """Committed files, and masters of one run that publish them. Rows are noted with the key that they came with."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.said: list[str] = []
        self.meanwhile: list[Callable[[], object]] = []
        (folder / "written").mkdir()

    def target(self, **how: Any) -> EachPartition:
        written, failing = str(self.folder / "written"), str(self.folder / "failing")

        def write(rows: Iterator[Row], key: str, partition: int) -> None:
            found = [row.id for row in rows]
            place = Path(written) / str(partition)
            place.write_text(f"{key} {sum(found)}\n{place.read_text() if place.exists() else ''}")
            if partition == 3 and Path(failing).exists():
                raise ValueError("the worker is killed")

        def before(batch: str, run: int) -> None:
            self.said.append(f"before {run}")
            while self.meanwhile:
                self.meanwhile.pop()()

        def after() -> None:
            self.said.append("after")

        return rk.each_partition(write, f"{self.folder}/notes", **{"before": before, "after": after, **how})

    def publish(self, fence: Fence, files: dict[str, list[int]], target: EachPartition | None = None) -> Published:
        """Each file by its attempt and partition, as "a1_2", with its ids."""
        what = Publication(
            sink="database",
            owner="shop",
            target=target or self.target(),
            fence=fence,
            files=tuple(self._committed(*name.split("_"), ids=ids) for name, ids in files.items()),
            schema=self.spark.range(1).schema.json(),
        )
        return publish(self.spark, what, open_store)

    def _committed(self, attempt: str, partition: str, *, ids: list[int]) -> tuple[str, int]:
        path = self.folder / f"results/database/g0/e1-{attempt}/part-0_{int(partition):05d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)
        return f"file:{path}", path.stat().st_size

    def written(self) -> dict[int, list[tuple[str, int]]]:
        """Key and sum of each call of each partition, the last one first."""
        found = {int(path.name): path.read_text().splitlines() for path in (self.folder / "written").iterdir()}
        return {
            partition: [(key, int(total)) for key, total in (line.split() for line in lines)]
            for partition, lines in sorted(found.items())
        }


@pytest.fixture
def masters(spark: SparkSession, tmp_path: Path) -> Masters:
    return Masters(spark, tmp_path)


ROWS = {"a1_0": [1, 2], "a1_3": [30]}
FIRST, SECOND, THIRD = Fence(7, 1, 1), Fence(7, 2, 1), Fence(7, 3, 1)


def test_a_call_is_for_a_partition_with_rows_and_has_its_number(masters: Masters) -> None:
    assert masters.publish(FIRST, ROWS) == SinkDone("database", FIRST)
    assert {partition: [total for _, total in calls] for partition, calls in masters.written().items()} == {
        0: [3],
        3: [30],
    }
    assert [calls[0][0].rpartition("-")[0] for calls in masters.written().values()] == [
        "shop/database/7/00000",
        "shop/database/7/00003",
    ]
    assert masters.publish(SECOND, ROWS) == SinkDone("database", SECOND)
    assert masters.said == ["before 7", "after"], "a later master calls nothing"


def test_a_partition_that_has_no_rows_any_more_is_called_without_rows(masters: Masters) -> None:
    """Whoever wrote its rows, although that was not noted, can delete them."""
    failing, rest = masters.folder / "failing", {"a1_0": [1, 2]}
    failing.touch()
    assert isinstance(masters.publish(FIRST, ROWS), SinkFailed)
    failing.unlink()
    assert masters.publish(SECOND, rest) == SinkDone("database", SECOND)
    assert [total for _, total in masters.written()[3]] == [0, 30]
    called = masters.written()
    assert masters.publish(THIRD, rest) == SinkDone("database", THIRD) and masters.written() == called


def test_the_last_call_of_a_partition_counts_also_if_its_end_was_not_noted(masters: Masters) -> None:
    failing, rest = masters.folder / "failing", {"a1_0": [1, 2]}
    masters.publish(FIRST, ROWS)
    masters.publish(SECOND, rest)
    masters.publish(Fence(7, 10, 1), {**rest, "a2_3": [40]})
    masters.publish(Fence(7, 11, 1), rest)
    assert [total for _, total in masters.written()[3]] == [0, 40, 0, 30]
    failing.touch()
    assert isinstance(masters.publish(Fence(7, 12, 1), {**rest, "a3_3": [50]}), SinkFailed)
    failing.unlink()
    assert isinstance(masters.publish(Fence(7, 13, 1), rest), SinkDone)
    assert [total for _, total in masters.written()[3]] == [0, 50, 0, 40, 0, 30]
    assert len(masters.written()[0]) == 1, "another partition is not called again"


def test_the_key_is_the_same_however_the_location_is_spelled(masters: Masters, tmp_path: Path) -> None:
    (masters.folder / "failing").touch()
    assert isinstance(masters.publish(FIRST, {"a1_3": [1]}), SinkFailed)
    (masters.folder / "failing").unlink()
    here, masters.folder = masters.folder, tmp_path / "mounted"
    masters.folder.symlink_to(here)
    assert masters.publish(SECOND, {"a1_3": [1]}) == SinkDone("database", SECOND)
    masters.folder = here
    [calls] = masters.written().values()
    assert len(calls) == 2 and len(set(calls)) == 1


def test_a_master_that_slept_through_a_later_one_of_its_run_calls_nothing(masters: Masters) -> None:
    assert masters.publish(SECOND, ROWS) == SinkDone("database", SECOND)
    called = masters.written()
    masters.said.clear()
    assert masters.publish(FIRST, ROWS) == SinkFenced("database", FIRST, SECOND)
    assert masters.said == [] and masters.written() == called


def test_a_master_that_sleeps_in_before_calls_nothing_afterwards(masters: Masters) -> None:
    def later() -> None:
        assert masters.publish(SECOND, ROWS) == SinkDone("database", SECOND)
        masters.said.append("awake")

    masters.meanwhile.append(later)
    assert masters.publish(FIRST, ROWS) == SinkFenced("database", FIRST, SECOND)
    assert masters.said == ["before 7", "before 7", "after", "awake"]
    assert [len(calls) for calls in masters.written().values()] == [1, 1]


@pytest.mark.parametrize("role", ["before", "after"])
def test_what_fails_around_the_partitions_is_told_by_name_and_line(masters: Masters, role: str) -> None:
    def lock_batch(batch: str) -> None:
        raise sqlite3.OperationalError("the database is locked")

    line = lock_batch.__code__.co_firstlineno + 1
    answer = masters.publish(FIRST, ROWS, masters.target(**{role: lock_batch}))
    assert isinstance(answer, SinkFailed)
    said = f"{role}() of database failed: lock_batch, test_each_partition.py:{line}: OperationalError: the database is"
    assert said in answer.failure.cause.text
    assert masters.publish(SECOND, ROWS) == SinkDone("database", SECOND)
    assert [len(calls) for calls in masters.written().values()] == [1, 1]


def test_a_function_that_cannot_be_sent_is_refused_before_anything_runs(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = rk.Pipeline("shop")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.range(3)

    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:

        def write(rows: Iterator[Row]) -> None:
            connection.executemany("insert into orders values (?)", rows)

        @pipeline.sink(rk.each_partition(write, f"{tmp_path}/notes"), partitions=2)
        def database(orders: DataFrame) -> DataFrame:
            return orders

        words = r"test_each_partition.py:\d+: write\(\) of database cannot be sent to the executors: .*Connection"
        with pytest.raises(rk.Refused, match=words) as caught:
            pipeline.run(spark, f"{tmp_path}/runs")
    assert "inside the function" in caught.value.hint
    assert not list(tmp_path.glob("runs/shop/*/results"))


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda: None, "takes no rows"),
        (lambda rows, kye: None, r"asks for kye, and may ask for batch, run, partition, key"),
        (lambda *, rows: None, "takes no rows"),
        (functools.partial(lambda rows, kye, key: None, key="mine"), "asks for kye"),
        ("insert into orders", "has no parameters that can be read"),
    ],
)
def test_what_it_cannot_be_given_is_refused_at_its_line(write: Callable[..., None], words: str) -> None:
    with pytest.raises(rk.Refused, match=words):
        rk.each_partition(write, "/notes")


def write_into(table: str, rows: Iterator[Row], key: str, size: int = 100, run: int = 0) -> None: ...


@pytest.mark.parametrize(
    ("write", "asked"),
    [
        (lambda rows, key, size=100: None, ("key",)),
        (lambda rows, run=0: None, ("run",)),
        (lambda rows, *more, key, **others: None, ("key",)),
        (functools.partial(write_into, "orders"), ("key", "run")),
        (functools.partial(write_into, "orders", run=3), ("key",)),
    ],
)
def test_what_has_a_default_or_is_bound_is_its_own(write: Callable[..., None], asked: tuple[str, ...]) -> None:
    target = rk.each_partition(write, "/notes")
    assert asked_of_partition(target.write) == asked
    assert name_of(write) in ("<lambda>", "write_into") and name_of(write) in target.shown


def test_a_bound_function_is_called_with_what_it_asks_for(masters: Masters) -> None:
    def note(folder: str, rows: Iterator[Row], partition: int, key: str = "none", ending: str = "txt") -> None:
        (Path(folder) / f"{partition}").write_text(f"{key}.{ending} {len(list(rows))}\n")

    bound = functools.partial(note, str(masters.folder / "written"))
    target = rk.each_partition(bound, f"{masters.folder}/notes")
    assert masters.publish(FIRST, ROWS, target) == SinkDone("database", FIRST)
    calls = masters.written()
    assert {partition: some[0][1] for partition, some in calls.items()} == {0: 2, 3: 1}
    assert all(some[0][0].startswith("shop/database/7/") and some[0][0].endswith(".txt") for some in calls.values())


def test_the_plan_says_how_often(shop: Shop) -> None:
    once, at_least = shop.target(), rk.each_partition(lambda rows: None, "/notes")
    assert "exactly once" in once.seen and "at least once" in at_least.seen
