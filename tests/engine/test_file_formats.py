"""Targets of other formats. Bare Spark writes the same rows with the same options, and is the judge."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
from msgspec import structs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from doubles.damage import damage_when_read
from rekindle.engine.spark.publish import rewriting
from rekindle.engine.spark.publish.publication import Publication
from rekindle.publish.pointers import NewestPointer, Pointer, compose
from rekindle.publish.targets import Files, Target

DAYS = ("2026-11-01", "2026-11-02", "2026-11-03")
HEADER = {"header": "true"}
# Nulls, empty texts, quotes and separators.
AWKWARD = "case id % 5 when 0 then null when 1 then '' when 2 then 'a \"b\", c' when 3 then 'ä;ö' else 'x' end note"
AT = "timestamp'2026-11-01 12:00:00.123' at"
COLUMNS = ("id", "note", "cast(amount as string)", "cast(at as string)", "day")

Build = Callable[[SparkSession, str], DataFrame]


def orders_of(spark: SparkSession, day: str, rows: int = 40) -> DataFrame:
    return spark.range(rows).selectExpr("id", AWKWARD, "cast(id / 7 as decimal(10,2)) amount", AT, f"'{day}' day")


def rows_in(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.selectExpr(*COLUMNS).collect()))


def run(spark: SparkSession, folder: Path, target: Target, day: str, build: Build, *, new: bool = False) -> None:
    pipeline = rk.Pipeline("exports")

    @pipeline.source
    def orders(spark: SparkSession, day: str) -> DataFrame:
        return build(spark, day)

    @pipeline.sink(target)
    def export(orders: DataFrame) -> DataFrame:
        return orders

    pipeline.run(spark, f"{folder}/runs", day=day, options=rk.RunOptions(new=new))


def lines(folder: Path) -> list[list[str]]:
    """The lines of each file, in the order of their names."""
    found = sorted(path for path in folder.rglob("part-*") if path.is_file())
    texts = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes() for path in found)
    return [text.decode().splitlines() for text in texts]


@pytest.mark.parametrize(("kind", "options"), [("csv", HEADER), ("csv", {"sep": ";", "nullValue": "-"}), ("json", {})])
def test_text_is_what_bare_spark_writes_line_by_line(
    spark: SparkSession, tmp_path: Path, kind: str, options: dict[str, str]
) -> None:
    """Rows that the step sorted stay sorted, from file to file."""

    def build(spark: SparkSession, day: str) -> DataFrame:
        return orders_of(spark, day, 400).orderBy("note", "id")

    run(spark, tmp_path, rk.files(f"{tmp_path}/gold", format=kind, options=options), DAYS[0], build)
    build(spark, DAYS[0]).write.format(kind).options(**options).save(f"{tmp_path}/bare")
    header = "id,note,amount,at,day"
    found, bare_lines = (
        [line for file in lines(tmp_path / place) for line in file if line != header]
        for place in ("gold/current", "bare")
    )
    assert found == bare_lines and len(found) == 400
    seen = rk.read_newest(spark, f"{tmp_path}/gold")
    assert seen.schema.simpleString() == build(spark, DAYS[0]).schema.simpleString()
    bare = spark.read.schema(seen.schema).format(kind).options(**options).load(f"{tmp_path}/bare")
    assert rows_in(seen) == rows_in(bare)


@pytest.mark.parametrize("kind", ["csv", "json", "orc"])
@pytest.mark.parametrize("mode", ["append", "partition"])
def test_days_are_added_and_replaced(spark: SparkSession, tmp_path: Path, kind: str, mode: str) -> None:
    options = HEADER if kind == "csv" else {}
    by_day: dict[str, Any] = {"hive_partition_by": "day", "partition": {"day": "{day}"}} if mode == "partition" else {}
    target = rk.files(f"{tmp_path}/gold", mode, format=kind, options=options, **by_day)
    for day, rows in ((DAYS[0], 40), (DAYS[1], 7), (DAYS[2], 0)):
        run(spark, tmp_path, target, day, partial(orders_of, rows=rows))
    run(spark, tmp_path, target, DAYS[0], lambda spark, day: orders_of(spark, day, 11), new=True)
    expected = orders_of(spark, DAYS[0], 11).union(orders_of(spark, DAYS[1], 7))
    # Bare Spark reads an empty text of a CSV file as null, too.
    wanted = rows_in(expected.withColumn("note", F.expr("nullif(note, '')")) if kind == "csv" else expected)
    newest = rk.read_newest(spark, f"{tmp_path}/gold")
    assert rows_in(newest) == wanted
    plain = spark.read.schema(newest.schema).format(kind).options(**options).load(f"{tmp_path}/gold/current")
    assert rows_in(plain) == wanted
    if kind == "csv":
        query = f"select id from read_csv('{tmp_path}/gold/current/**/*.csv', header=true)"
        found = duckdb.connect().execute(query).fetchall()
        assert sorted(one for (one,) in found) == sorted([*range(11), *range(7)])


@pytest.mark.parametrize("kind", ["csv", "json", "orc"])
@pytest.mark.parametrize("by", [(), ("day",)])
def test_a_result_without_rows(spark: SparkSession, tmp_path: Path, kind: str, by: tuple[str, ...]) -> None:
    """As bare Spark: a header and no rows."""
    target = rk.files(f"{tmp_path}/gold", format=kind, options=HEADER, hive_partition_by=by)
    run(spark, tmp_path, target, DAYS[0], lambda spark, day: orders_of(spark, day, 0))
    newest = rk.read_newest(spark, f"{tmp_path}/gold")
    assert newest.count() == 0 and set(newest.columns) == {"id", "note", "amount", "at", "day"}
    plain = spark.read.schema(newest.schema).format(kind).options(**HEADER).load(f"{tmp_path}/gold/current")
    assert plain.count() == 0
    if kind == "csv" and not by:
        assert lines(tmp_path / "gold/current") == [["id,note,amount,at,day"]]


@pytest.mark.parametrize("kind", ["csv", "json", "orc"])
def test_a_directory_of_another_format(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    def one_file(spark: SparkSession, day: str) -> DataFrame:
        return orders_of(spark, day).orderBy("id").coalesce(1)

    target = rk.directory(f"{tmp_path}/out/day={{day}}", format=kind, options=HEADER)
    for day in DAYS[:2]:
        run(spark, tmp_path, target, day, one_file)
        one_file(spark, day).write.format(kind).options(**HEADER).save(f"{tmp_path}/bare/day={day}")
    names = sorted(path.name.partition("-")[0] for path in (tmp_path / "out").glob("*/*"))
    assert [name for name in names if not name.startswith(".")] == ["_rekindle", "_rekindle", "part", "part"]
    if kind != "orc":
        assert lines(tmp_path / "out") == lines(tmp_path / "bare")
    seen = spark.read.schema(one_file(spark, DAYS[0]).schema).format(kind).options(**HEADER).load(f"{tmp_path}/out")
    assert seen.count() == 80


def test_files_are_sorted_and_compressed_without_directories(spark: SparkSession, tmp_path: Path) -> None:
    target = rk.files(f"{tmp_path}/gold", format="csv", sort_by="amount", compression="gzip", max_records_per_file=10)
    run(spark, tmp_path, target, DAYS[0], lambda spark, day: orders_of(spark, day).repartition(2))
    found = lines(tmp_path / "gold/current")
    assert max(map(len, found)) <= 10 and sum(map(len, found)) == 40
    assert all(path.name.endswith(".csv.gz") for path in (tmp_path / "gold/current").glob("part-*"))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"format": "avro"}, "the format 'avro' is not known"),
        ({"format": "csv", "compression": "zstd"}, "compression 'zstd' is not known for csv"),
        ({"format": "csv", "options": {"codec": "gzip"}}, "codec, which has a parameter of its own"),
    ],
)
def test_what_does_not_fit_is_refused_at_its_line(made: dict[str, Any], words: str) -> None:
    with pytest.raises(rk.Refused, match=words):
        rk.files("/gold", **made)


def test_a_type_that_the_format_does_not_hold_is_refused_before_anything_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    def nested(spark: SparkSession, day: str) -> DataFrame:
        return spark.range(3).selectExpr("id", "named_struct('a', id) inner")

    for target in (rk.files(f"{tmp_path}/a", format="csv"), rk.directory(f"{tmp_path}/b", format="csv")):
        with pytest.raises(rk.Refused, match=r"inner is struct<a:bigint>, which csv cannot hold"):
            run(spark, tmp_path, target, DAYS[0], nested)
    assert not (tmp_path / "a").exists() and not (tmp_path / "b").exists()


def test_one_version_has_one_format(spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path, rk.files(f"{tmp_path}/gold", "append", format="csv", options=HEADER), DAYS[0], orders_of)
    for target in (
        rk.files(f"{tmp_path}/gold", "append"),
        rk.files(f"{tmp_path}/gold", "append", format="csv"),
        rk.files(f"{tmp_path}/gold", "append", format="json"),
    ):
        with pytest.raises(rk.Refused, match=r"was published as csv, header=true before"):
            run(spark, tmp_path, target, DAYS[1], orders_of)


def test_columns_of_csv_stay_where_they_are(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads CSV by the order of columns, whatever the header says: two texts would change places unseen."""
    target = rk.files(f"{tmp_path}/gold", "append", format="csv", options=HEADER)

    def build(*names: str) -> Build:
        return lambda spark, day: spark.range(3).selectExpr("'a' a", "'b' b", "id", "'c' c").select(*names)

    run(spark, tmp_path, target, DAYS[0], build("a", "b", "id"))
    with pytest.raises(rk.Refused, match="has the columns a, b, id, and the result b, a, id: CSV has"):
        run(spark, tmp_path, target, DAYS[1], build("b", "a", "id"))
    with pytest.raises(rk.Refused, match="new columns come last"):
        run(spark, tmp_path, target, DAYS[1], build("a", "b", "c", "id"))
    run(spark, tmp_path, target, DAYS[1], build("a", "b", "id", "c"))
    found = rk.read_newest(spark, f"{tmp_path}/gold").collect()
    assert sorted((row.a, row.b, row.id, str(row.c)) for row in found) == sorted(
        ("a", "b", number, c) for number in range(3) for c in ("None", "c")
    )


def test_line_breaks_and_modes_of_csv(spark: SparkSession, tmp_path: Path) -> None:
    target = rk.files(f"{tmp_path}/gold", "append", format="csv")
    for day in DAYS[:2]:
        run(spark, tmp_path, target, day, lambda spark, day: spark.range(2).selectExpr("id", "'x\\ny' note"))
    found = rk.read_newest(spark, f"{tmp_path}/gold").collect()
    assert sorted(tuple(row) for row in found) == [(0, "x\ny"), (0, "x\ny"), (1, "x\ny"), (1, "x\ny")]
    with pytest.raises(rk.Refused, match="with mode=DROPMALFORMED a reader drops rows"):
        rk.files(f"{tmp_path}/gold", format="csv", options={"mode": "DROPMALFORMED"})


def test_a_damaged_result_is_made_again_before_it_is_exported(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = damage_when_read(monkeypatch, -1)
    target = rk.files(f"{tmp_path}/gold", format="json")
    run(spark, tmp_path, target, DAYS[0], lambda spark, day: orders_of(spark, day, 2000))
    assert damaged
    assert rows_in(rk.read_newest(spark, f"{tmp_path}/gold")) == rows_in(orders_of(spark, DAYS[0], 2000))


def test_other_options_write_other_files(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that died behind its pointer, and one with other options: its files are not those of the pointer."""
    found: list[tuple[str, str]] = []
    real = rewriting.staged

    def noted(spark: SparkSession, what: Publication, target: Files, base: str, top: Pointer | None) -> Any:
        earlier = structs.replace(what.part(), listed=(("part-0.csv", 1),))
        pointer = compose(NewestPointer(0, None), earlier, what.owner, what.schema, adds=False)
        died = structs.replace(pointer, files_format="csv", options=tuple(HEADER.items()))
        for one in (target, rk.files(target.path, format="csv")):
            with real(spark, what, one, f"{base}-{len(found)}", died) as written:
                assert written.staged is not None
                found.append((written.staged.folder, str(written.staged.options)))
        return real(spark, what, target, base, top)

    monkeypatch.setattr(rewriting, "staged", noted)
    run(spark, tmp_path, rk.files(f"{tmp_path}/gold", format="csv", options=HEADER), DAYS[0], orders_of)
    (same, _), (other, options) = found
    assert same == "" and other != "" and options == "()"
