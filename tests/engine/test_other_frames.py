"""What is no batch pipeline on a classic session is refused by name: Spark Connect, and streaming DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from rekindle.engine.spark.session import is_connect
from rekindle.engine.spark.start import start


def of_connect(name: str, *bases: type) -> Any:
    """An object of a class that lies where those of Spark Connect do. The real ones need packages and a server."""
    made: Any = type(name, bases, {"__module__": f"pyspark.sql.connect.{name.lower()}"})
    return object.__new__(made)


def pipeline(read: Any) -> rk.Pipeline:
    made = rk.Pipeline("shop")
    made.add_source(read, name="orders")
    made.add_sink(lambda orders: None, rk.files("/never"), name="daily")
    return made


def test_a_session_of_spark_connect_is_refused(tmp_path: Path) -> None:
    session = of_connect("SparkSession")
    for act in (pipeline(lambda spark: None).plan, pipeline(lambda spark: None).run):
        with pytest.raises(rk.Refused, match="this is a Spark Connect session") as refused:
            act(session, str(tmp_path))
        assert "start a classic session" in refused.value.hint


def test_the_address_of_a_connect_server_is_no_master() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkSession, "getActiveSession", classmethod(lambda cls: None))
        with pytest.raises(rk.Refused, match="sc://host:15002 is a Spark Connect server") as refused:
            start("shop", "sc://host:15002", {}, False)
    assert "use a Spark of this machine: SparkSession.builder.master('local[4]')" in refused.value.hint


def test_a_frame_of_spark_connect_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(rk.GraphRefused, match="orders returned a DataFrame of Spark Connect") as refused:
        pipeline(lambda spark: of_connect("DataFrame", DataFrame)).plan(spark, str(tmp_path))
    assert "from the session that the step is given" in refused.value.hint
    assert not is_connect(spark) and not is_connect(spark.range(1))


def test_a_streaming_frame_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(rk.GraphRefused, match="orders returned a streaming DataFrame") as refused:
        pipeline(lambda spark: spark.readStream.format("rate").load()).plan(spark, str(tmp_path))
    assert "spark.read in place of spark.readStream" in refused.value.hint
    assert "test_other_frames.py:" in refused.value.message
