"""Publishing on real Spark: what readers see, and that no sleeper, crash or second try changes it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.jvm import driver_calls
from rekindle.engine.spark.publish import replaced, sinks, tables, versions
from rekindle.engine.spark.publish.files import read_newest
from rekindle.engine.spark.publish.publication import Publication, TargetOwner
from rekindle.engine.spark.publish.sinks import FilesLost, publish
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.master.facts.stimuli import SinkDone, SinkFailed, SinkFenced
from rekindle.model.failures import FailureKind
from rekindle.publish import pointers
from rekindle.publish.pointers import POINTERS, NewestPointer, Pointer, newest
from rekindle.publish.target import PointerStore
from rekindle.publish.targets import Table, Target, directory, files, replace, table
from rekindle.storage.stores import open_store
from support.drivers import start_driver
from support.s3 import S3Server

YESTERDAY, TODAY = Fence(7, 1, 1), Fence(8, 1, 1)


class Results:
    """Committed results, written by Spark; one file per partition, over several directories like attempts."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._count = 0

    def of(self, target: Target, fence: Fence, query: str, owner: str = "daily/out") -> Publication:
        frame = self._spark.sql(query)
        self._count += 1
        place = self._folder / f"result{self._count}"
        frame.repartition(3).write.parquet(str(place))
        found = tuple((f"file:{path}", path.stat().st_size) for path in sorted(place.glob("part-*")))
        return Publication(sink="out", owner=owner, target=target, fence=fence, files=found, schema=frame.schema.json())


@pytest.fixture
def results(spark: SparkSession, tmp_path: Path) -> Results:
    return Results(spark, tmp_path / "results")


@pytest.fixture
def gold(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Table]:
    """A table that does not exist yet."""
    name = f"t{abs(hash(request.node.name))}"
    yield table(name)
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def rows(frame: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row) for row in frame.collect())


def numbers(count: int, day: int) -> str:
    return f"select id, {day} day from range({count})"


def day(spark: SparkSession, target: Table) -> set[int]:
    """Which days the table shows, to a reader that has read it before."""
    return {int(row["day"]) for row in spark.table(target.name).select("day").distinct().collect()}


class Sleeper:
    """A store whose first put-if-absent is preceded by something that others do."""

    def __init__(self, store: PointerStore, meanwhile: Callable[[], object]) -> None:
        self._store, self._meanwhile = store, [meanwhile]

    def put_if_absent(self, key: str, body: bytes) -> object:
        while self._meanwhile:
            self._meanwhile.pop()()
        return self._store.put_if_absent(key, body)

    def get(self, key: str) -> bytes | None:
        return self._store.get(key)

    def list_after(self, folder: str, after: str = "") -> list[str]:
        return self._store.list_after(folder, after)


def asleep(meanwhile: Callable[[], object]) -> Stores:
    return lambda place: Sleeper(open_store(place), meanwhile)  # type: ignore[return-value]


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_table_shows_one_version_and_says_which(spark: SparkSession, results: Results, gold: Table) -> None:
    assert publish(spark, results.of(gold, YESTERDAY, numbers(50, 7)), open_store) == SinkDone("out", YESTERDAY)
    old = spark.table(gold.name)
    assert publish(spark, results.of(gold, TODAY, numbers(60, 8)), open_store) == SinkDone("out", TODAY)
    assert rows(spark.table(gold.name)) == rows(spark.sql(numbers(60, 8)))
    assert rows(spark.newSession().table(gold.name)) == rows(spark.sql(numbers(60, 8)))
    assert rows(old) == rows(spark.sql(numbers(50, 7))), "a reader that began before reads on in its version"
    said = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {gold.name}").collect()}
    assert (said["rekindle.version"], said["rekindle.fence"]) == ("v8-1-1", "v8-1-1")
    base = tables.base_of(spark, gold)
    assert rows(spark.read.parquet(f"{base}/versions/v8-1-1")) == rows(spark.sql(numbers(60, 8)))
    assert not (Path(base.removeprefix("file:")) / "scratch" / "v8-1-1").exists()


def test_a_publisher_that_slept_through_todays_run_is_fenced(
    spark: SparkSession, results: Results, gold: Table
) -> None:
    """It had copied everything and compared; then the next day's run published."""
    todays = results.of(gold, TODAY, numbers(60, 8))
    yesterdays = results.of(gold, YESTERDAY, numbers(50, 7))
    answer = publish(spark, yesterdays, asleep(lambda: publish(spark, todays, open_store)))
    assert answer == SinkFenced("out", YESTERDAY, TODAY)
    assert day(spark, gold) == {8}
    assert publish(spark, yesterdays, open_store) == SinkFenced("out", YESTERDAY, TODAY), "also when it tries again"


def test_control_without_the_fence_yesterday_is_put_back(
    spark: SparkSession, results: Results, gold: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same night with a publisher that compares first and then writes the next number that is free."""

    def compare_then_act(
        store: PointerStore, fence: Fence, prepare: Callable[[NewestPointer], Pointer], *, adds: bool
    ) -> Pointer:
        pointer = prepare(newest(store))
        store.put_if_absent("asleep", b"")
        store.put_if_absent(f"{POINTERS}{newest(store).number + 1:020d}", pointers.encode(pointer))
        return pointer

    todays = results.of(gold, TODAY, numbers(60, 8))
    monkeypatch.setattr(versions, "advance", compare_then_act)
    publish(spark, results.of(gold, YESTERDAY, numbers(50, 7)), asleep(lambda: publish(spark, todays, open_store)))
    assert day(spark, gold) == {7}


def test_a_publisher_frozen_in_the_catalog_call_puts_it_right(
    spark: SparkSession, results: Results, gold: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process published between the last look and the change; its own change was overtaken by ours."""
    base, change = tables.base_of(spark, gold), tables.change
    todays = results.of(gold, TODAY, numbers(60, 8))
    seen: list[set[int]] = []

    def overtaken(session: SparkSession, target: Table, where: str, pointer: Pointer) -> None:
        if not seen:
            monkeypatch.setattr(tables, "change", change)
            other = versions.put_version(
                session, todays, base, open_store(base), adds=False, stays=False, check_columns=lambda top: None
            )
            change(session, target, where, other)
        change(session, target, where, pointer)
        seen.append(day(session, target))
        monkeypatch.setattr(tables, "change", overtaken)

    monkeypatch.setattr(tables, "change", overtaken)
    publish(spark, results.of(gold, YESTERDAY, numbers(50, 7)), open_store)
    assert seen == [{7}, {8}], "the control: for a moment yesterday was back"
    assert day(spark, gold) == {8}


def test_a_table_left_behind_follows_the_next_publisher(spark: SparkSession, results: Results, gold: Table) -> None:
    """The publisher died between the pointer and the table: the old version is shown, whole, until the run goes on."""
    publish(spark, results.of(gold, YESTERDAY, numbers(50, 7)), open_store)
    base = tables.base_of(spark, gold)
    todays = results.of(gold, TODAY, numbers(60, 8))
    versions.put_version(spark, todays, base, open_store(base), adds=False, stays=False, check_columns=lambda top: None)
    assert rows(spark.table(gold.name)) == rows(spark.sql(numbers(50, 7)))
    assert publish(spark, todays, open_store) == SinkDone("out", TODAY)
    assert rows(spark.table(gold.name)) == rows(spark.sql(numbers(60, 8)))


def test_publishing_twice_is_publishing_once(spark: SparkSession, results: Results, tmp_path: Path) -> None:
    what = results.of(files(f"{tmp_path}/out"), YESTERDAY, numbers(50, 7))
    assert publish(spark, what, open_store) == SinkDone("out", YESTERDAY)
    before = everything(tmp_path / "out")
    assert publish(spark, what, open_store) == SinkDone("out", YESTERDAY)
    assert everything(tmp_path / "out") == before
    next_master = Publication(
        sink=what.sink, owner=what.owner, target=what.target, fence=Fence(7, 2, 1), files=what.files, schema=what.schema
    )
    assert publish(spark, next_master, open_store) == SinkDone("out", Fence(7, 2, 1))
    assert everything(tmp_path / "out") - before == {f"pointers/{2:020d}"}, "the same files: nothing is copied again"


def test_a_crash_between_copy_and_pointer_leaves_the_old_version(
    spark: SparkSession, results: Results, tmp_path: Path
) -> None:
    class Crash(BaseException):
        pass

    def crash() -> None:
        raise Crash

    target = files(f"{tmp_path}/out")
    publish(spark, results.of(target, YESTERDAY, numbers(50, 7)), open_store)
    todays = results.of(target, TODAY, numbers(60, 8))
    with pytest.raises(Crash):
        publish(spark, todays, asleep(crash))
    assert len(list((tmp_path / "out" / "versions" / "v8-1-1").glob("part-*"))) == 3, "everything was copied"
    assert rows(read_newest(spark, target.path, open_store)) == rows(spark.sql(numbers(50, 7)))
    assert publish(spark, todays, open_store) == SinkDone("out", TODAY)
    assert rows(read_newest(spark, target.path, open_store)) == rows(spark.sql(numbers(60, 8)))


def test_a_polling_reader_sees_whole_versions_in_order(spark: SparkSession, results: Results, gold: Table) -> None:
    """It asks the catalog for the location and reads what is there, without Spark, as another tool would."""
    publications = [results.of(gold, Fence(order, 1, 1), numbers(order * 10, order)) for order in range(1, 7)]
    publish(spark, publications[0], open_store)
    seen: list[tuple[int, int]] = []
    is_over = threading.Event()

    loader = driver_calls.class_loader(spark)

    def poll() -> None:
        driver_calls.enter_thread(spark, loader)
        while not is_over.is_set():
            found = tables._find(spark, gold)
            assert found is not None
            days = pq.read_table(found.facts.location.removeprefix("file:")).column("day").to_pylist()
            seen.extend(Counter(days).items())

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(poll)
        for what in publications[1:]:
            assert publish(spark, what, open_store) == SinkDone("out", what.fence)
        is_over.set()
        reader.result()
    assert len(seen) > 20 and len(set(seen)) > 2
    assert all(count == order * 10 for order, count in seen)
    assert seen == sorted(seen)


def test_a_result_without_rows_has_its_schema(spark: SparkSession, results: Results, gold: Table) -> None:
    made = results.of(gold, YESTERDAY, "select id, 7 day, array(named_struct('a', 1)) n from range(1)")
    nothing = Publication(sink="out", owner=made.owner, target=gold, fence=YESTERDAY, files=(), schema=made.schema)
    assert publish(spark, nothing, open_store) == SinkDone("out", YESTERDAY)
    assert spark.table(gold.name).count() == 0
    version = f"{tables.base_of(spark, gold)}/versions/v7-1-1"
    assert versions.columns(spark.read.parquet(version).schema.json()) == versions.columns(made.schema)
    assert publish(
        spark, results.of(gold, TODAY, "select id, 8 day, array(named_struct('a', 1)) n from range(5)"), open_store
    )
    assert spark.table(gold.name).count() == 5


def test_appending_twice_adds_once(spark: SparkSession, results: Results, gold: Table) -> None:
    target = table(gold.name, mode="append")
    first = results.of(target, YESTERDAY, numbers(50, 7))
    second = results.of(target, TODAY, numbers(60, 8))
    both = rows(spark.sql(numbers(50, 7))) + rows(spark.sql(numbers(60, 8)))
    for what in (first, first, second, second):
        assert publish(spark, what, open_store) == SinkDone("out", what.fence)
    assert rows(spark.table(gold.name)) == both
    later = Publication(
        sink="out", owner=second.owner, target=target, fence=Fence(8, 2, 1), files=second.files, schema=second.schema
    )
    assert publish(spark, later, open_store) == SinkDone("out", Fence(8, 2, 1)), "its driver died before it knew"
    assert rows(spark.table(gold.name)) == both
    assert publish(spark, first, open_store) == SinkDone("out", YESTERDAY), "it is in what today's run built upon"
    assert rows(spark.table(gold.name)) == both


def test_two_appends_that_race_are_both_in(spark: SparkSession, results: Results, tmp_path: Path) -> None:
    """The lower fence comes first while the higher one sleeps: it builds upon it, in a directory of its own."""
    target = files(f"{tmp_path}/out", mode="append")
    lower, higher = results.of(target, YESTERDAY, numbers(50, 7)), results.of(target, TODAY, numbers(60, 8))
    assert publish(spark, higher, asleep(lambda: publish(spark, lower, open_store))) == SinkDone("out", TODAY)
    both = rows(spark.sql(numbers(50, 7))) + rows(spark.sql(numbers(60, 8)))
    assert rows(read_newest(spark, target.path, open_store)) == both


def test_columns_may_be_added_and_nothing_else(spark: SparkSession, results: Results, gold: Table) -> None:
    publish(spark, results.of(gold, YESTERDAY, numbers(50, 7)), open_store)
    publish(spark, results.of(gold, TODAY, "select id, 8 day, 'x' extra from range(5)"), open_store)
    assert rows(spark.table(gold.name)) == rows(spark.sql("select id, 8 day, 'x' extra from range(5)"))
    sleeper = results.of(gold, Fence(7, 2, 1), numbers(50, 7))
    assert publish(spark, sleeper, open_store) == SinkFenced("out", Fence(7, 2, 1), TODAY)
    changed = results.of(gold, Fence(9, 1, 1), "select cast(id as string) id, 9 day from range(5)")
    answer = publish(spark, changed, open_store)
    assert isinstance(answer, SinkFailed) and answer.failure.cause.kind is FailureKind.USER_ERROR
    assert "id was bigint, is string, extra was string, is gone" in answer.failure.cause.text
    assert day(spark, gold) == {8}
    with pytest.raises(Refused, match="id was bigint"):
        sinks.check(
            spark, TargetOwner(owner="daily/out", place="", sink="out"), gold, 9, open_store, schema=changed.schema
        )


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        pytest.param(lambda path: path.unlink(), "is missing", id="gone"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-7]), "bytes", id="short"),
        pytest.param(lambda path: flip(path), "is damaged", id="one bit flipped"),
    ],
)
def test_damaged_results_are_named_and_not_published(
    spark: SparkSession, results: Results, tmp_path: Path, damage: Callable[[Path], None], why: str
) -> None:
    target = files(f"{tmp_path}/out")
    what = results.of(target, YESTERDAY, numbers(50, 7))
    victim = what.files[1][0]
    damage(Path(victim.removeprefix("file:")))
    answer = publish(spark, what, open_store)
    assert isinstance(answer, FilesLost) and list(answer.found) == [victim] and why in answer.found[victim]
    with pytest.raises(Refused, match="nothing is published"):
        read_newest(spark, target.path, open_store)


def flip(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)


def test_a_new_directory_appears_whole_and_once(spark: SparkSession, results: Results, tmp_path: Path) -> None:
    target = directory(f"{tmp_path}/day=7")
    what = results.of(target, YESTERDAY, numbers(50, 7))
    assert publish(spark, what, open_store) == SinkDone("out", YESTERDAY)
    assert rows(spark.read.parquet(target.path)) == rows(spark.sql(numbers(50, 7)))
    next_master = Publication(
        sink="out", owner=what.owner, target=target, fence=Fence(7, 2, 1), files=what.files, schema=what.schema
    )
    assert publish(spark, next_master, open_store) == SinkDone("out", Fence(7, 2, 1))
    answer = publish(spark, results.of(target, TODAY, numbers(60, 8)), open_store)
    assert isinstance(answer, SinkFailed) and "written once" in answer.failure.cause.text
    assert rows(spark.read.parquet(target.path)) == rows(spark.sql(numbers(50, 7)))
    assert [path.name for path in tmp_path.iterdir() if path.name != "results"] == ["day=7"]


def test_a_bare_directory_is_replaced_and_sleepers_clean_up(
    spark: SparkSession, results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = replace(f"{tmp_path}/out", atomic=False)
    spark.sql(numbers(5, 1)).write.parquet(target.path)
    yesterdays, todays = results.of(target, YESTERDAY, numbers(50, 7)), results.of(target, TODAY, numbers(60, 8))
    assert publish(spark, yesterdays, open_store) == SinkDone("out", YESTERDAY)
    assert rows(spark.read.parquet(target.path)) == rows(spark.sql(numbers(50, 7)))

    exchange = replaced._exchange

    def overtaken(session: SparkSession, what: Publication, base: str, handed: Mapping[str, int]) -> None:
        monkeypatch.setattr(replaced, "_exchange", exchange)
        assert publish(session, todays, open_store) == SinkDone("out", TODAY)
        exchange(session, what, base, handed)

    again = Publication(
        sink="out",
        owner=yesterdays.owner,
        target=target,
        fence=Fence(7, 2, 1),
        files=yesterdays.files,
        schema=yesterdays.schema,
    )
    monkeypatch.setattr(replaced, "_exchange", overtaken)
    assert publish(spark, again, open_store) == SinkFenced("out", Fence(7, 2, 1), TODAY)
    assert rows(spark.read.parquet(target.path)) == rows(spark.sql(numbers(60, 8)))


def test_what_is_not_ours_is_refused_before_anything_runs(
    spark: SparkSession, results: Results, gold: Table, tmp_path: Path
) -> None:
    publish(spark, results.of(gold, YESTERDAY, numbers(50, 7)), open_store)
    with pytest.raises(Refused, match="is a target of daily/out, and weekly/out may not publish to it"):
        sinks.check(spark, TargetOwner(owner="weekly/out", place="", sink="out"), gold, 1, open_store)
    sinks.check(spark, TargetOwner(owner="daily/out", place="", sink="out"), gold, 8, open_store)
    with pytest.raises(Refused, match=r"what a later run published \(run 7; this is run 6\)"):
        sinks.check(spark, TargetOwner(owner="daily/out", place="", sink="out"), gold, 6, open_store)
    sinks.check(spark, TargetOwner(owner="daily/out", place="", sink="out"), table(gold.name, "append"), 8, open_store)
    sinks.check(spark, TargetOwner(owner="daily/out", place="", sink="out", has_published=True), gold, 6, open_store)
    spark.sql(numbers(5, 1)).write.parquet(f"{tmp_path}/foreign")
    with pytest.raises(Refused, match="was not published by Rekindle"):
        sinks.check(
            spark, TargetOwner(owner="daily/out", place="", sink="out"), directory(f"{tmp_path}/foreign"), 8, open_store
        )
    spark.sql(f"CREATE TABLE {gold.name}_foreign USING parquet AS {numbers(5, 1)}")
    try:
        with pytest.raises(Refused, match="was not published by Rekindle"):
            sinks.check(
                spark,
                TargetOwner(owner="daily/out", place="", sink="out"),
                table(f"{gold.name}_foreign"),
                8,
                open_store,
            )
    finally:
        spark.sql(f"DROP TABLE {gold.name}_foreign")
    with pytest.raises(Refused, match="no database nowhere"):
        sinks.check(spark, TargetOwner(owner="daily/out", place="", sink="out"), table("nowhere.t"), 8, open_store)


ON_S3 = """
    import json, sys
    from functools import partial
    from pathlib import Path
    from pyspark.sql import SparkSession
    from rekindle.engine.spark.publish import tables
    from rekindle.engine.spark.publish.publication import Publication
    from rekindle.engine.spark.jvm.access import ours
    from rekindle.engine.spark.session import attach
    from rekindle.engine.spark.publish.files import read_newest
    from rekindle.engine.spark.publish.sinks import publish
    from rekindle.publish.targets import directory, files, replace, table
    from rekindle.storage.stores import open_store
    from rekindle.master.facts.events import Fence

    root, options = sys.argv[1], json.loads(sys.argv[2])
    stores = lambda url: open_store(url, options)
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    attach(spark)

    def result(target, order, epoch=1):
        frame = spark.range(order * 10).selectExpr("id", f"{order} day")
        place = f"{root}/results/{type(target).__name__}-{order}"
        frame.repartition(3).write.mode("ignore").parquet(place)
        listed = ours(spark).Bridge.list(spark._jsparkSession, place).splitlines()
        found = sorted((f"{place}/{line.split(chr(9))[0]}", int(line.split(chr(9))[1])) for line in listed)
        found = tuple(one for one in found if "/part-" in one[0])
        return Publication(
            sink="out",
            owner="daily/out",
            target=target,
            fence=Fence(order, epoch, 1),
            files=found,
            schema=frame.schema.json(),
        )

    def shown(frame):
        return [tuple(row) for row in frame.groupBy("day").count().collect()]

    for target in (
        table("gold", location=f"{root}/gold"), files(f"{root}/files"), replace(f"{root}/replaced", atomic=False)
    ):
        answers = [type(publish(spark, result(target, order), stores)).__name__ for order in (7, 8, 7)]
        print("ANSWERS", type(target).__name__, *answers)
    print("TABLE", shown(spark.table("gold")))
    print("FILES", shown(read_newest(spark, f"{root}/files", stores)))
    print("REPLACED", shown(spark.read.parquet(f"{root}/replaced")))
    once = directory(f"{root}/day")
    answers = [publish(spark, result(once, order, epoch), stores) for order, epoch in ((7, 1), (7, 2), (8, 1))]
    print("ANSWERS Directory", *(type(one).__name__ for one in answers))
    print("DAY", shown(spark.read.parquet(f"{root}/day")))
    bridge = ours(spark).Bridge
    spark.range(1000).repartition(1).write.parquet(f"file:{sys.argv[3]}")
    (damaged,) = Path(sys.argv[3]).glob("part-*")
    body = bytearray(damaged.read_bytes())
    body[-1] ^= 1
    damaged.write_bytes(body)
    found = ((f"file:{damaged}", len(body)),)
    cut = Publication(
        sink="out",
        owner="daily/out",
        target=files(f"{root}/cut"),
        fence=Fence(7, 1, 1),
        files=found,
        schema=spark.range(1).schema.json(),
    )
    print("CUT", type(publish(spark, cut, stores)).__name__, stores(f"{root}/cut").list_after("versions/v7-1-1/"))
    for levels in (0, 3):
        run = f"{root}/run{levels}"
        bridge.put(spark._jsparkSession, f"{run}/record", b"x")
        spark.range(3).write.parquet(f"{run}/results/step/g0/e1-a1")
        bridge.delete(spark._jsparkSession, f"{run}/results/step/g0/e1-a1", levels)
        print("LEFT", levels, stores(run).list_after(""), stores(run).list_folders(""))
    spark.stop()
"""


@pytest.mark.s3
def test_the_same_on_s3(s3: S3Server, tmp_path: Path) -> None:
    script = tmp_path / "publisher.py"
    script.write_text(dedent(ON_S3))
    settings = s3.spark_settings | {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    settings["spark.sql.warehouse.dir"] = str(tmp_path / "warehouse")
    mark = s3.mark()
    arguments = s3.url("sinks"), json.dumps(s3.store_settings), str(tmp_path / "damaged")
    driver = start_driver(script, *arguments, folder=tmp_path, settings=settings)
    try:
        assert driver.wait(180) == 0, driver.text()[-3000:]
    finally:
        driver.end()
    said = driver.text()
    asked = s3.requests(mark, prefix="sinks/gold/versions/")
    assert asked["CopyObject"] == 2 * 3 and "PutObject" not in asked, "S3 copies, no byte passes through an executor"
    for name in ("Table", "Files", "Replace"):
        assert f"ANSWERS {name} SinkDone SinkDone SinkFenced" in said, said[-3000:]
    assert "ANSWERS Directory SinkDone SinkDone SinkFailed" in said, said[-3000:]
    assert "CUT FilesLost []" in said, "closing a copy that failed puts its beginning under its name"
    assert "LEFT 0 ['record'] ['results']" in said, "a store keeps an object for the empty directory"
    assert "LEFT 3 ['record'] []" in said, "what is empty above a deleted attempt goes with it"
    for line in ("TABLE [(8, 80)]", "FILES [(8, 80)]", "REPLACED [(8, 80)]", "DAY [(7, 70)]"):
        assert line in said, said[-3000:]
