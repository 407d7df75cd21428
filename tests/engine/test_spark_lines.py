"""Spark lines: which jar a Spark gets, and which Spark is refused with what to do."""

from __future__ import annotations

import re
from typing import cast

import pytest
from pyspark.sql import SparkSession

import build_jar
from rekindle.engine.spark import session
from rekindle.engine.spark.jvm import driver_calls
from rekindle.engine.spark.stream import state_fence
from rekindle.engine.spark_lines import LINES, RELEASES, SUPPORTED, line_of
from rekindle.errors import Refused
from rekindle.streams.stream_spec import RegionSpec


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("3.5.0", "2.12-3.5"),
        ("3.5.4-amzn-0", "2.12-3.5"),
        ("4.0.5", "2.13-4.0"),
        ("4.1.0.dev1", "2.13-4.1"),
        ("4.3.0", "2.13-4.1"),
    ],
)
def test_each_release_has_one_line(version: str, line: str) -> None:
    assert line_of(version).name == line


@pytest.mark.parametrize(
    ("version", "told"), [("4.4.0", "update Rekindle"), ("5.0.0", "update Rekindle"), ("3.4.2", "'pyspark==3.5.*'")]
)
def test_a_release_that_nobody_looked_at_is_refused(version: str, told: str) -> None:
    with pytest.raises(
        Refused, match=f"no jar for Spark {re.escape(version)}; it supports Spark {SUPPORTED}"
    ) as caught:
        line_of(version)
    assert told in caught.value.remedies[0].in_python()


def test_another_scala_is_refused() -> None:
    assert line_of("3.5.1", "2.12.18").name == "2.12-3.5"
    with pytest.raises(Refused, match=re.escape("this Spark 3.5.1 runs on Scala 2.13.8")):
        line_of("3.5.1", "2.13.8")


def test_every_line_has_sources_of_its_own_and_no_line_has_sources_that_no_line_is() -> None:
    folders = {one.name for one in (build_jar.JAVA / "lines").iterdir()}
    assert folders == {line.name for line in LINES} and len(set(RELEASES)) == len(RELEASES)
    declared = re.compile(r"^  (?:public )?static (?:final )?[^=(]*?(\w+)(?:\(| =)", re.MULTILINE)
    names = [set(declared.findall(_line_source(line.name))) for line in LINES]
    assert names[0] == names[1] == names[2] and len(names[0]) > 10, "the same methods in each"


def _line_source(name: str) -> str:
    text = (build_jar.JAVA / "lines" / name / "rekindle" / "spark" / "SparkLine.java").read_text()
    return re.sub(r"^  private .*$", "", text, flags=re.MULTILINE)


def test_names_are_replaced_whole() -> None:
    names = {"a.b.Seq": "a.c.Seq", "a.b.SeqMap": "a.d.SeqMap"}
    assert build_jar.with_names("import a.b.Seq; a.b.SeqMap x; xa.b.Seq; a.b.Sequel", names) == (
        "import a.c.Seq; a.d.SeqMap x; xa.b.Seq; a.b.Sequel"
    )


def test_the_jar_of_another_line_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    session.attach(spark)
    monkeypatch.setattr(driver_calls, "line_of_jar", lambda spark: "2.11-2.4")
    with pytest.raises(Refused, match=r"jar for Spark 2\.11-2\.4, and this Spark needs that for"):
        session.attach(spark)


def test_an_old_java_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_calls, "system_property", lambda spark, name: "1.8")
    with pytest.raises(Refused, match=r"runs on Java 1\.8; Rekindle's jar needs Java 17"):
        session.attach(spark)


class Region:
    name, stateful = "totals", ("counted",)


def test_state_that_nobody_fences_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens without a fence is in `test_stream_fence.py`: who wakes up writes beside the successor."""
    regions = cast(list[RegionSpec], [Region()])
    monkeypatch.setattr(state_fence, "spark_line", lambda spark: line_of("4.0.1"))
    state_fence.refuse_unfenced_state(spark, regions)
    monkeypatch.setattr(state_fence, "spark_line", lambda spark: line_of("3.5.1"))
    with pytest.raises(Refused, match=r"totals has state at counted, and Spark .* has no checkpoint format 2"):
        state_fence.refuse_unfenced_state(spark, regions)
