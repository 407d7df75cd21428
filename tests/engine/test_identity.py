"""What a kept step is: equal in another driver, different in exactly the part that changed, and said in a sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from rekindle.engine.spark.plan.identity import KeptStep, Member, fingerprint
from rekindle.engine.spark.plan.packed import told
from rekindle.engine.spark.session import clone
from rekindle.master.rules.opening import ADDED, changed_parts, part_kind
from rekindle.pipeline.identity.changes import describe_change

FACTOR = 2


@F.udf(LongType())  # type: ignore[untyped-decorator]
def scaled(value: int) -> int:
    return value * FACTOR


def clean(df: DataFrame, day: str = "") -> DataFrame:
    return df.where("id > 3").withColumn("s", scaled("id"))


def kept(frame: DataFrame, **given: Any) -> KeptStep:
    values = {"keys": ("id",), "partitions": 4, "members": (Member("clean", clean, {"day": "2026-01-01"}),)}
    return KeptStep(frame, **{**values, **given})


def source(session: SparkSession, folder: Path) -> DataFrame:
    return clean(session.read.parquet(str(folder)))


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Path:
    spark.range(40).coalesce(1).write.parquet(f"{tmp_path}/in")
    return tmp_path / "in"


def other(df: DataFrame) -> DataFrame:
    return df


Change = Callable[[SparkSession, Path], KeptStep]


def _setting(key: str, value: str) -> Change:
    return lambda spark, folder: kept(source(clone(spark, {key: value}), folder))


def _appended(spark: SparkSession, folder: Path) -> KeptStep:
    spark.range(1).coalesce(1).write.mode("append").parquet(str(folder))
    return kept(source(spark, folder))


ROWS: dict[str, tuple[Change, str, str]] = {
    "plan": (lambda s, f: kept(source(s, f).where("s > 0")), "plan", "the plan changed"),
    "keys": (lambda s, f: kept(source(s, f), keys=("s",)), "layout", "4 partitions by id -> 4 partitions by s"),
    "count": (lambda s, f: kept(source(s, f), partitions=5), "layout", "4 partitions by id -> 5 partitions by id"),
    "splits": (lambda s, f: kept(source(s, f), splits="#1"), "splits", "the splits is new"),
    "input": (_appended, "input", "the input changed: 1 files"),
    "parameter": (
        lambda s, f: kept(source(s, f), members=(Member("clean", clean, {"day": "2026-01-02"}),)),
        "clean.parameter:day",
        "the parameter day of clean changed: 2026-01-01 -> 2026-01-02",
    ),
    "code": (
        lambda s, f: kept(
            source(s, f), members=(Member("clean", lambda df: df.where("id > 3"), {"day": "2026-01-01"}),)
        ),
        "clean.code",
        "the code of clean changed",
    ),
    "another member": (
        lambda s, f: kept(source(s, f), members=(*kept(s.range(1)).members, Member("other", other))),
        "other.code",
        "the code of other changed",
    ),
    "metadata": (
        lambda s, f: kept(source(s, f).withMetadata("s", {"unit": "cent"})),
        "attribute:metadata",
        "the metadata of columns is new",
    ),
    "time zone": (
        _setting("spark.sql.session.timeZone", "Europe/Berlin"),
        "spark.sql.session.timeZone",
        "-> Europe/Berlin",
    ),
    "ANSI": (_setting("spark.sql.ansi.enabled", "false"), "spark.sql.ansi.enabled", "default -> false"),
    "case": (_setting("spark.sql.caseSensitive", "true"), "spark.sql.caseSensitive", "default -> true"),
    "time parser": (
        _setting("spark.sql.legacy.timeParserPolicy", "LEGACY"),
        "spark.sql.legacy.timeParserPolicy",
        "default -> LEGACY",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_each_change_is_seen_and_named(spark: SparkSession, folder: Path, name: str) -> None:
    change, part, sentence = ROWS[name]
    before = fingerprint(kept(source(spark, folder)), "clean")
    after = fingerprint(change(spark, folder), "clean")
    differing = {one for one in before.keys() | after.keys() if before.get(one) != after.get(one)}
    assert part in differing
    assert part == "clean.code" or differing <= {part, "plan"}, differing
    assert any(sentence in said for said in describe_change(before, after)), describe_change(before, after)


def test_changed_metadata_of_a_column_is_seen(spark: SparkSession, folder: Path) -> None:
    """Equal plans but for what is said about a column; a run of an earlier release is not computed again for it."""
    frame = source(spark, folder)
    one, again, other, moved = (
        fingerprint(kept(frame.withMetadata(column, {"unit": unit})), "clean")
        for column, unit in (("s", "cent"), ("s", "cent"), ("s", "euro"), ("id", "cent"))
    )
    assert describe_change(one, again) == []
    assert describe_change(one, other) == ["the metadata of columns changed"]
    assert "attribute:metadata" in changed_parts(one, moved)
    assert part_kind("attribute:metadata") in ADDED


def test_a_global_of_a_udf_is_seen(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(kept(source(spark, folder)), "clean")
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 3)
    after = fingerprint(kept(source(spark, folder)), "clean")
    assert describe_change(before, after) == ["the constant FACTOR of clean changed: 2 -> 3"]


def test_a_setting_that_changes_no_value_is_no_change(spark: SparkSession, folder: Path) -> None:
    before = fingerprint(kept(source(spark, folder)), "clean")
    calm = clone(spark, {"spark.sql.shuffle.partitions": "77", "spark.sql.ansi.enabled": "true"})
    assert fingerprint(kept(source(calm, folder)), "clean") == before
    zones = (clone(spark, {"spark.sql.session.timeZone": zone}) for zone in ("UTC", "Etc/UTC"))
    one, other_name = (fingerprint(kept(source(session, folder)), "clean") for session in zones)
    assert one == other_name


def test_another_python_is_named_and_not_the_code_it_compiled() -> None:
    old = {"python": "3.11.7", "clean.code": "#1", "clean.helper:f": "#2", "clean.package:numpy": "1.0"}
    new = {"python": "3.12.1", "clean.code": "#3", "clean.helper:f": "#4", "clean.package:numpy": "2.0"}
    assert describe_change(old, new) == ["package numpy, which clean uses: 1.0 -> 2.0", "python: 3.11.7 -> 3.12.1"]


BUILDS: dict[str, Callable[[SparkSession], DataFrame]] = {
    "drawn seeds": lambda s: s.range(9).select(F.rand(), F.randn(), F.expr("uuid()"), F.expr("rand()")).sample(0.5),
    "SQL over a frame": lambda s: s.sql("select id + 1 x from {df}", df=s.range(3)),
    "a function of arrays": lambda s: s.range(3).select(F.transform(F.array("id"), lambda x: x + 1)),
    "a common table": lambda s: s.sql("with a as (select 1 x) select * from a join a b using (x)"),
    "a window": lambda s: s.range(3).selectExpr("row_number() over (partition by id order by id) n"),
    "a subquery": lambda s: s.range(3).where("id < (select max(id) from range(9))"),
    "Python": lambda s: s.range(3).withColumn("s", scaled("id")).groupBy("s").agg(F.sum("id")),
    "pandas": lambda s: s.range(3).mapInPandas(lambda frames: frames, "id long"),
    "rows in the plan": lambda s: s.sql("values (1, 'a'), (2, 'b') as t(n, s)"),
    "a self-join": lambda s: s.range(3).alias("a").join(s.range(3).alias("b"), F.expr("a.id = b.id")),
}


@pytest.mark.parametrize("name", BUILDS)
def test_a_plan_built_again_has_the_same_shape(spark: SparkSession, name: str) -> None:
    build = BUILDS[name]
    assert told(build(spark)).shape == told(build(clone(spark, {}))).shape


DIFFER: list[tuple[str, str]] = [
    ("select id from range(3)", "select id x from range(3)"),
    ("select id from range(3)", "select id from range(4)"),
    ("select * from values (1), (2)", "select * from values (1), (3)"),
    ("select a.id from range(3) a join range(3) b", "select b.id from range(3) a join range(3) b"),
    ("select count(*) from range(3) group by id", "select count(*) from range(3) group by cube(id)"),
    ("select array(1, 2) from range(3)", "select array(1, 3) from range(3)"),
    ("select id from range(3) where id in (1, 2)", "select id from range(3) where id in (1, 3)"),
    ("select cast('x' as string) s", "select cast('y' as string) s"),
    ("select sum(id) over (order by id) from range(3)", "select sum(id) over (order by id desc) from range(3)"),
]


@pytest.mark.parametrize(("one", "two"), DIFFER)
def test_plans_that_differ_have_different_shapes(spark: SparkSession, one: str, two: str) -> None:
    assert told(spark.sql(one)).shape != told(spark.sql(two)).shape


DRIVER = """
    import json, sys
    from pathlib import Path
    from pyspark.sql import SparkSession
    from rekindle.engine.spark.plan.identity import fingerprint
    from rekindle.engine.spark.plan.packed import told
    from rekindle.engine.spark.session import attach
    sys.path.insert(0, {tests!r})
    from engine import test_identity as t
    spark = SparkSession.builder.master({master!r}).config("spark.ui.enabled", "false")
    spark = spark.config("spark.driver.host", "127.0.0.1").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    attach(spark)
    for _ in range({before}):
        spark.range(3).selectExpr("transform(array(id), x -> x + 1)").collect()
    shapes = {{name: told(build(spark)).shape for name, build in t.BUILDS.items()}}
    print(json.dumps([fingerprint(t.kept(t.source(spark, Path({folder!r}))), "clean"), shapes]))
    spark.stop()
"""


def test_equal_in_another_driver(folder: Path) -> None:
    """Another hash seed, another number of cores, other ids used up before."""
    found = []
    for seed, master, before in (("1", "local[1]", 0), ("2", "local[2]", 3)):
        tests = str(Path(__file__).parent.parent)
        text = textwrap.dedent(DRIVER).format(tests=tests, master=master, before=before, folder=str(folder))
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        ran = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
        found.append(json.loads(ran.stdout.splitlines()[-1]))
    assert found[0] == found[1]
