"""`verify` on Spark: files that are damaged in every way are named, what is made again is compared, nothing is written.

One run is made for all tests; what a test damages it puts back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from rekindle.api import verify_files
from rekindle.failover.backoff import FixedDelay
from rekindle.journal.keys import listed
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.model.partitions import Partitions
from rekindle.observe.verified import ComparisonBasis, ComparisonResult, RunVerification, StepVerification
from rekindle.service.verifying import VerifiedRun
from rekindle.storage.stores import open_store

PARTS = 4
EQUAL, DIFFERENT, UNSURE = ComparisonResult.EQUAL, ComparisonResult.DIFFERENT, ComparisonResult.NOT_COMPARABLE
ALWAYS = rk.RunOptions(digest="always")


class Shop:
    """Kept: `keyed` with digests, `bare` without, `priced` by Python that looks at a file, `tagged` with a uuid,
    `ordered` as a whole; published: `daily`."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.factor = factor = folder / "factor"
        factor.write_text("2")
        spark.range(80).selectExpr("id", "id % 31 as k").write.parquet(str(folder / "orders"))
        self.pipeline = pipeline = rk.Pipeline("shop")

        @pipeline.source
        def orders(spark: SparkSession) -> DataFrame:
            return spark.read.schema("id long, k long").parquet(str(folder / "orders"))

        @pipeline.step(partition_by="k", partitions=PARTS, keep_until="forever")
        def keyed(orders: DataFrame) -> DataFrame:
            return orders.where("id >= 0")

        @pipeline.step(partition_by="k", partitions=PARTS, keep_until="forever", digest="never")
        def bare(keyed: DataFrame) -> DataFrame:
            return keyed.withColumn("twice", F.col("id") * 2)

        @pipeline.step(partition_by="k", partitions=PARTS, keep_until="forever")
        def priced(keyed: DataFrame) -> DataFrame:
            price = F.udf(lambda number: number * int(factor.read_text()), "long")
            return keyed.withColumn("price", price("id"))

        @pipeline.step(result="blocking", keep_until="forever")
        def tagged(keyed: DataFrame) -> DataFrame:
            return keyed.withColumn("tag", F.expr("uuid()"))

        @pipeline.step(result="blocking", partitions=3, keep_until="forever")
        def ordered(keyed: DataFrame) -> DataFrame:
            return keyed.repartitionByRange(3, "id")

        @pipeline.sink(rk.files(str(folder / "out")))
        def daily(priced: DataFrame) -> DataFrame:
            return priced.where("id < 1000")

    @property
    def location(self) -> str:
        return str(self.folder / "runs")

    def run(self) -> None:
        self.pipeline.run(self.spark, self.location, options=ALWAYS)

    def place(self) -> VerifiedRun:
        [run] = listed(open_store(self.location), "shop").values()
        return VerifiedRun("shop", run, self.location, {}, self.spark)

    def file(self, step: str, partition: int) -> Path:
        [found] = self.folder.glob(f"runs/shop/*/results/{step}/*/*/part-*_{partition:05d}.*")
        return found

    def files(self, step: str) -> StepVerification:
        [judged] = verify_files(self.place(), step).judged
        return judged

    def verify(self, step: str | None = None) -> RunVerification:
        before = contents(self.folder)
        found = self.pipeline.verify(self.spark, self.location, step)
        assert contents(self.folder) == before, "nothing is written"
        return found


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    made = Shop(spark, tmp_path_factory.mktemp("shop"))
    made.run()
    return made


@contextmanager
def changed(path: Path, change: Callable[[bytes], bytes | None]) -> Iterator[None]:
    """The file with other bytes, or gone, until the end."""
    before, crc = path.read_bytes(), path.with_name(f".{path.name}.crc")
    crc.unlink(missing_ok=True)
    after = change(before)
    path.unlink() if after is None else path.write_bytes(after)
    try:
        yield
    finally:
        path.write_bytes(before)


def flipped(body: bytes) -> bytes:
    """One bit of the first page's data: behind the magic number and the page header."""
    at = 4 + 60
    return body[:at] + bytes([body[at] ^ 4]) + body[at + 1 :]


def written_again(change: Callable[[pa.Table], pa.Table]) -> Callable[[bytes], bytes]:
    """Other rows in a whole file of the same length: its pages end earlier, and its footer stays at the end."""

    def write(body: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        table = change(pq.read_table(pa.BufferReader(body))).replace_schema_metadata(None)
        pq.write_table(table, sink, store_schema=False, write_statistics=False, compression="zstd")
        new: bytes = sink.getvalue().to_pybytes()
        footer = 8 + struct.unpack("<I", new[-8:-4])[0]
        assert len(new) <= len(body), "the padding goes between pages and footer"
        return new[:-footer] + bytes(len(body) - len(new)) + new[-footer:]

    return write


def one_changed(table: pa.Table) -> pa.Table:
    ids = table.column("id")
    other = pc.if_else(pc.equal(ids, ids[0]), pc.add(ids, 7), ids)
    return table.set_column(table.schema.get_field_index("id"), table.schema.field("id"), other)


ROWS = "other rows: "
DAMAGES = [
    pytest.param(lambda body: None, "the file is missing: ", id="missing"),
    pytest.param(lambda body: body[:-20], "the file has another length: ", id="cut off"),
    pytest.param(flipped, "the file cannot be read: ", id="a flipped bit"),
    pytest.param(lambda body: bytes(len(body)), "the file cannot be read: ", id="nothing but zeros"),
    pytest.param(written_again(lambda table: table.slice(1)), ROWS, id="a row is missing"),
    pytest.param(written_again(lambda table: pa.concat_tables([table, table.slice(0, 1)])), ROWS, id="a row too many"),
    pytest.param(written_again(one_changed), ROWS, id="one value is another"),
    pytest.param(written_again(lambda table: table.slice(0, 0)), ROWS, id="replaced by a file without rows"),
]


@pytest.mark.parametrize(("change", "said"), DAMAGES)
def test_a_damaged_file_is_named(shop: Shop, change: Callable[[bytes], bytes | None], said: str) -> None:
    with changed(shop.file("keyed", 2), change):
        judged = shop.files("keyed")
    assert (judged.answer, judged.different) == (DIFFERENT, Partitions((2,)))
    assert judged.details[0].startswith(f"keyed[2] {said}"), judged.details


def test_every_damaged_file_is_named_in_one_pass(shop: Shop) -> None:
    with (
        changed(shop.file("keyed", 0), flipped),
        changed(shop.file("keyed", 1), lambda body: None),
        changed(shop.file("keyed", 3), written_again(one_changed)),
    ):
        judged = shop.files("keyed")
    assert judged.different == Partitions((0, 1, 3))
    assert [line.split(":")[0] for line in judged.details] == [
        "keyed[0] the file cannot be read",
        "keyed[1] the file is missing",
        "keyed[3] other rows",
    ]


def test_everything_is_as_it_was(shop: Shop) -> None:
    found = shop.verify()
    assert {(one.step, one.way): one.answer for one in found.judged} == {
        ("keyed", ComparisonBasis.FILES): EQUAL,
        ("keyed", ComparisonBasis.AGAIN): EQUAL,
        ("bare", ComparisonBasis.FILES): UNSURE,
        ("bare", ComparisonBasis.AGAIN): EQUAL,
        ("priced", ComparisonBasis.FILES): EQUAL,
        ("priced", ComparisonBasis.AGAIN): EQUAL,
        ("tagged", ComparisonBasis.FILES): EQUAL,
        ("tagged", ComparisonBasis.AGAIN): UNSURE,
        ("ordered", ComparisonBasis.FILES): EQUAL,
        ("ordered", ComparisonBasis.AGAIN): EQUAL,
        ("daily", ComparisonBasis.FILES): UNSURE,
        ("daily", ComparisonBasis.AGAIN): EQUAL,
        ("daily", ComparisonBasis.PUBLISHED): EQUAL,
    }
    bare, tagged, ordered = (
        found.of("bare", ComparisonBasis.FILES),
        found.of("tagged", ComparisonBasis.AGAIN),
        found.of("ordered", ComparisonBasis.AGAIN),
    )
    assert bare is not None and bare.why.startswith("no digest was recorded; ")
    assert tagged is not None and tagged.why == "it is indeterminate: the same input may give other rows"
    assert ordered is not None and ordered.why.startswith("all rows of 3 partitions, whose numbers hold in one ")


def test_the_control_without_a_digest_other_rows_are_seen_only_by_making_them_again(shop: Shop) -> None:
    with changed(shop.file("bare", 1), written_again(lambda table: table.slice(1))):
        assert shop.files("bare").answer is UNSURE
        found = shop.verify("bare")
    again = found.of("bare", ComparisonBasis.AGAIN)
    assert again is not None and (again.answer, again.different) == (DIFFERENT, Partitions((1,)))
    with changed(shop.file("bare", 1), flipped):
        assert shop.files("bare").answer is DIFFERENT, "Parquet checksums"


def test_python_that_gives_something_else_now(shop: Shop) -> None:
    """Its files are what was written; the same input gives other rows, and nobody knew that it might."""
    shop.factor.write_text("3")
    try:
        found = shop.verify("priced")
    finally:
        shop.factor.write_text("2")
    files, again = found.of("priced", ComparisonBasis.FILES), found.of("priced", ComparisonBasis.AGAIN)
    assert files is not None and files.answer is EQUAL
    assert again is not None and (again.answer, again.different) == (DIFFERENT, Partitions.first(PARTS))
    assert ", unknown; 4 of 4 partitions recomputed" in again.why


def test_what_was_published_is_read_too(shop: Shop) -> None:
    [version] = (shop.folder / "out" / "versions").iterdir()
    file = sorted(version.glob("part-*.parquet"))[1]
    with changed(file, written_again(lambda table: table.slice(1))):
        published = shop.verify("daily").of("daily", ComparisonBasis.PUBLISHED)
    assert published is not None and (published.answer, published.different) == (DIFFERENT, Partitions((1,)))
    assert "other rows: " in published.details[0]


def test_a_source_that_changed_is_not_compared(shop: Shop) -> None:
    more = shop.folder / "orders" / "more.parquet"
    pq.write_table(pa.table({"id": [1], "k": [1]}), more)
    try:
        again = shop.verify("keyed").of("keyed", ComparisonBasis.AGAIN)
    finally:
        more.unlink()
    assert again is not None and again.answer is UNSURE
    assert again.why.startswith("since the run, the input changed")


def test_a_run_that_was_mended_as_verify_says_publishes_what_is_right(spark: SparkSession, tmp_path: Path) -> None:
    """A file with other rows in it looks whole to the run that goes on: it is found, taken away, and made again."""
    spark.range(40).selectExpr("id", "id % 31 as k").write.parquet(str(tmp_path / "orders"))
    poison = tmp_path / "poison"
    poison.touch()
    pipeline = rk.Pipeline("shop")

    @pipeline.source
    def orders(spark: SparkSession) -> DataFrame:
        return spark.read.schema("id long, k long").parquet(str(tmp_path / "orders"))

    @pipeline.step(partition_by="k", partitions=PARTS, digest="always")
    def keyed(orders: DataFrame) -> DataFrame:
        return orders.where("id >= 0")

    @pipeline.sink(rk.files(str(tmp_path / "out")))
    def daily(keyed: DataFrame) -> DataFrame:
        def doubled(number: int) -> int:
            if poison.exists():
                raise ValueError("not today")
            return number * 2

        return keyed.withColumn("twice", F.udf(doubled, "long")("id"))

    poison_once = MasterConfig(backoff=BackoffSpec.of(FixedDelay(9, 0)), poison_tries_max=1)
    options = rk.RunOptions(config=poison_once)
    with pytest.raises(rk.RunFailed):
        pipeline.run(spark, str(tmp_path / "runs"), options=options)
    [run] = listed(open_store(str(tmp_path / "runs")), "shop").values()
    [file] = tmp_path.glob("runs/shop/*/results/keyed/*/*/part-*_00001.*")
    file.with_name(f".{file.name}.crc").unlink()
    file.write_bytes(written_again(lambda table: table.slice(1))(file.read_bytes()))
    found = verify_files(VerifiedRun("shop", run, str(tmp_path / "runs"), {}, spark))
    assert found.different(ComparisonBasis.FILES) == {"keyed": Partitions((1,))} and not found.is_over
    poison.unlink()
    file.unlink()
    pipeline.run(spark, str(tmp_path / "runs"), options=options)
    rows = rk.read_newest(spark, str(tmp_path / "out"))
    assert sorted(row.id for row in rows.collect()) == list(range(40))
