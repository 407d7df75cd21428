"""Digests made while a result is written: in every attempt, told by the driver, the markers or a read back alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from rekindle.engine.spark.jvm import result_calls
from rekindle.engine.spark.jvm.access import Package
from rekindle.engine.spark.plan import kept_frames
from rekindle.engine.spark.plan.analyse import analyse
from rekindle.engine.spark.plan.group import GroupSpec
from rekindle.engine.spark.run.engine import SparkEngine
from rekindle.engine.spark.session import TIMESTAMPS
from rekindle.master.facts.digests import Digests
from rekindle.master.facts.stimuli import AttemptEnded, AttemptSealed, CommitsSeen
from rekindle.master.state.commands import SealAttempt, StartAttempt
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.kinds import Determinism, DigestPolicy
from rekindle.model.partitions import Partitions
from support.reports import until
from support.spark_line import is_lacking

N = 6
ALL = Partitions.first(N)
WIDTH = 24


def totals(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """Four keys: of six partitions at least two have no rows."""
    rows = session.range(400).selectExpr("id % 4 k", "id", "map('a', id, 'b', null) m")
    return rows.repartition(N, "k").withColumn("v", F.expr("array(id / 3.0D, -0.0D)"))


SPEC = GroupSpec(step="totals", build=totals, inputs=(), keys=("k",), partitions=N, is_digested=True)


def made(spark: SparkSession, folder: Path, *, is_digested: bool = True) -> SparkEngine:
    return SparkEngine(spark, f"file:{folder}", {"totals": replace(SPEC, is_digested=is_digested)})


def attempt_of(number: int) -> AttemptId:
    return AttemptId("totals", Generation(0), Epoch(1), number)


def ran(engine: SparkEngine, number: int = 1, wanted: Partitions = ALL) -> dict[int, bytes | None]:
    """The digest of each partition, as one attempt reported them."""
    engine.send(
        StartAttempt(
            attempt=attempt_of(number),
            partitions=wanted,
            inputs=(),
            is_repeatable=number == 1,
            is_first=True,
            exchange_version=0,
            exchange_checksum=None,
        )
    )
    reported = until(engine, AttemptEnded)
    assert not [one for one in reported if isinstance(one, AttemptEnded) and one.failures]
    seen = [Digests(one.partitions, one.digests) for one in reported if isinstance(one, CommitsSeen)]
    return {number: one.digest(number) for one in seen for number in one.of}


def sealed(engine: SparkEngine, number: int = 1) -> dict[int, bytes | None]:
    engine.send(SealAttempt(attempt_of(number)))
    (found,) = (one for one in until(engine, AttemptSealed) if isinstance(one, AttemptSealed))
    return {number: Digests(found.partitions, found.digests).digest(number) for number in found.partitions}


def test_every_partition_has_one_also_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    found = ran(made(spark, tmp_path))
    assert set(found) == set(ALL)
    assert all(digest is not None and len(digest) == WIDTH for digest in found.values())
    rows = {number: int.from_bytes((digest or b"")[:8]) for number, digest in found.items()}
    assert sum(rows.values()) == 400 and 2 <= list(rows.values()).count(0) < N
    nothing = bytes.fromhex(result_calls.digest_of_nothing(spark, totals(spark, {})._jdf.schema()))
    assert {found[number] for number, count in rows.items() if not count} == {nothing}


def test_a_retry_of_some_partitions_has_the_same(spark: SparkSession, tmp_path: Path) -> None:
    first = made(spark, tmp_path)
    found = ran(first)
    some = Partitions(number for number in ALL if number % 2)
    assert ran(first, 2, some) == {number: found[number] for number in some}
    assert ran(made(spark, tmp_path), 3) == found, "another driver, another plan"


def test_another_driver_finds_them_in_the_markers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ran(made(spark, tmp_path))

    def never(*_: object) -> None:
        raise AssertionError("no file has to be read")

    monkeypatch.setattr(kept_frames, "read", never)
    assert sealed(made(spark, tmp_path)) == found
    assert sealed(made(spark, tmp_path, is_digested=False)) == found


def test_what_was_written_without_is_read_back_once(spark: SparkSession, tmp_path: Path) -> None:
    assert set(ran(made(spark, tmp_path / "a", is_digested=False)).values()) == {None}
    assert set(sealed(made(spark, tmp_path / "a", is_digested=False)).values()) == {None}
    assert sealed(made(spark, tmp_path / "a")) == ran(made(spark, tmp_path / "b"))


def odd(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """What Spark would store as something else: a variant taken apart, and times cut to milliseconds."""
    rows = session.range(40).selectExpr("id % 4 k", "timestamp_micros(id + 1) t", "id")
    if is_lacking("variants"):
        return rows
    return rows.selectExpr("k", "t", """parse_json(concat('{"b": ', id, ', "a": 2.50, "c": 1}')) v""")


def test_what_is_read_back_is_what_was_written(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set(TIMESTAMPS, "TIMESTAMP_MILLIS")
    try:
        ways = []
        for name, is_digested in (("a", True), ("b", False)):
            group = replace(SPEC, build=odd, is_digested=is_digested)
            engine = SparkEngine(spark, f"file:{tmp_path}/{name}", {"totals": group})
            ways.append(ran(engine))
        read_back = SparkEngine(spark, f"file:{tmp_path}/b", {"totals": replace(SPEC, build=odd)})
        assert sealed(read_back) == ways[0] and None not in ways[0].values()
    finally:
        spark.conf.unset(TIMESTAMPS)


def test_a_file_that_cannot_be_read_back_leaves_them_unknown(spark: SparkSession, tmp_path: Path) -> None:
    ran(made(spark, tmp_path, is_digested=False))
    file = next(path for path in tmp_path.rglob("part-*.parquet"))
    file.write_bytes(b"x" * file.stat().st_size)
    assert set(sealed(made(spark, tmp_path)).values()) == {None}


def test_without_a_digest_nothing_is_different(spark: SparkSession, tmp_path: Path) -> None:
    """Neither in what is written nor in what Spark is asked to write with."""
    ran(made(spark, tmp_path, is_digested=False))
    assert {len(path.name.split("-")) for path in tmp_path.rglob("_committed/0*")} == {4}


def test_a_type_without_a_canonical_form_has_none(spark: SparkSession) -> None:
    types = Package(spark, "org.apache.spark.sql.types")
    point = types.DataType.fromJson('{"type":"struct","fields":[]}')
    assert result_calls.digest_of_nothing(spark, point)
    unknown = types.ObjectType(Package(spark, "java.lang").Class.forName("java.lang.Object"))
    assert result_calls.digest_of_nothing(spark, point.add("v", unknown)) == ""


@F.udf(LongType())  # type: ignore[untyped-decorator]
def opaque(value: int) -> int:
    return value


@pytest.mark.parametrize(
    ("policy", "declared", "expected"),
    [
        (DigestPolicy.AUTO, None, {"known": False, "doubtful": True}),
        (DigestPolicy.AUTO, Determinism.DECLARED, {"known": False, "doubtful": True}),
        (DigestPolicy.AUTO, Determinism.INDETERMINATE, {"known": True, "doubtful": True}),
        (DigestPolicy.ALWAYS, None, {"known": True, "doubtful": True}),
        (DigestPolicy.NEVER, None, {"known": False, "doubtful": False}),
    ],
    ids=["auto", "auto: a declaration is no proof", "auto: declared indeterminate", "always", "never"],
)
def test_which_steps_get_digests(
    spark: SparkSession, policy: DigestPolicy, declared: Determinism | None, expected: dict[str, bool]
) -> None:
    def known(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        return session.range(10).selectExpr("id", "id % 3 k")

    def doubtful(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        return known(session, inputs).withColumn("v", opaque("id"))

    groups = {
        build.__name__: GroupSpec(
            step=build.__name__, build=build, inputs=(), keys=("k",), partitions=2, declared=declared, digest=policy
        )
        for build in (known, doubtful)
    }
    found = analyse(spark, groups).groups
    assert {name: group.is_digested for name, group in found.items()} == expected
