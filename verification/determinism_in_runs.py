"""`make determinism-in-runs`: what runs take the steps of the determinism corpus for, against what they are.

Each step of the corpus is a kept step of a pipeline, over sources and over kept results, and the graph says how
determinate a run would count it. A third time it stands below an exchange, over sources, with opaque Python above: does
a run take that exchange for equal in every driver, by the proof of its plan alone? What a step truly is was found by
`make determinism-corpus`, and stands in its report; steps that are not there are left out.
Wrong in the unsafe direction is a step that gave other rows, and that counts as determinate or below an exchange that
is proved. Nothing is computed here.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from enum import Enum
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle as rk
from determinism_corpus.__main__ import REPORT
from determinism_corpus.data import rows, write
from determinism_corpus.steps import STEPS
from local_spark import local_spark
from rekindle.engine.spark.plan.layout import NOT_PLAIN
from rekindle.errors import RekindleError
from rekindle.model.kinds import Determinism
from rekindle.observe.pipeline_graph import PipelineGraph

ROW = re.compile(r"^\| (?P<step>[^|]+?) \| [^|]* \| [^|]*\| (?P<outputs>\d+) of \d+ \|$")
SHARE_MIN = 0.9
PARTITIONS = 4


class Place(Enum):
    """Where a step of the corpus stands."""

    SOURCES = "sources"
    KEPT = "kept"
    EXCHANGE = "exchange"


WHERE = [one.value for one in Place]


def truth() -> dict[str, bool]:
    """Of each step of the report, whether it gave the same rows every time."""
    found = (ROW.match(line) for line in REPORT.read_text().splitlines())
    return {one["step"]: one["outputs"] == "1" for one in found if one is not None and one["step"] in STEPS}


def below_exchange(frame: DataFrame) -> DataFrame:
    """Its rows are moved by what is in them, and Python is above that."""
    plain = [field.name for field in frame.schema.fields if not isinstance(field.dataType, NOT_PLAIN)]
    moved = frame.repartition(PARTITIONS, *(F.col(f"`{one}`") for one in plain))
    return moved.withColumn("called", F.udf(lambda one: one, "string")(F.lit("called")))


def pipeline_of(name: str, folder: Path, place: Place) -> rk.Pipeline:
    pipeline = rk.Pipeline("corpus")

    def table(which: str) -> None:
        def read(spark: SparkSession) -> DataFrame:
            return spark.read.parquet(f"{folder}/round-0/{which}")

        read.__name__ = f"read_{which}"
        pipeline.add_source(read)

        def kept(read: DataFrame) -> DataFrame:
            return read

        kept.__name__ = which
        how = {"partition_by": "k", "partitions": PARTITIONS} if place is Place.KEPT else {"result": "pipelined"}
        pipeline.add_step(kept, inputs=[f"read_{which}"], **how)

    def made(spark: SparkSession, t: DataFrame, u: DataFrame) -> DataFrame:
        t.createOrReplaceTempView("t")
        u.createOrReplaceTempView("u")
        frame = STEPS[name].frame(spark)
        return below_exchange(frame) if place is Place.EXCHANGE else frame

    def end(made: DataFrame) -> DataFrame:
        return made.limit(1)

    table("t")
    table("u")
    pipeline.add_step(made, result="blocking")
    pipeline.add_sink(end, rk.files(f"{folder}/out"))
    return pipeline


def level(spark: SparkSession, name: str, folder: Path, place: Place) -> tuple[Determinism | None, str]:
    """How a run would count it, or the exchange above it, and why not better; None where it would be refused, or not
    kept."""
    try:
        drawn = pipeline_of(name, folder, place).graph(spark, f"{folder}/state")
        assert isinstance(drawn, PipelineGraph), "it reads no stream"
        spec = drawn.spec
        found = next((one for one in spec.graph.steps if one.name == "made"), None)
        if found is None:
            return None, "not kept"
        is_moved = place is Place.EXCHANGE
        told = (found.below or Determinism.UNKNOWN) if is_moved else found.determinism
        return told, ", ".join(spec.doubts.get("made", ()))
    except RekindleError as error:
        return None, error.message


def main() -> int:
    parser = argparse.ArgumentParser(prog="determinism-in-runs")
    parser.add_argument("--only", nargs="+", choices=list(STEPS), metavar="STEP")
    parser.add_argument("--where", nargs="+", choices=WHERE, default=WHERE)
    asked = parser.parse_args()
    known, unsafe, shares = truth(), 0, {}
    with tempfile.TemporaryDirectory(prefix="determinism-in-runs-") as temporary:
        folder = Path(temporary)
        write(folder, rows(), 0)
        spark = local_spark({})
        for place in map(Place, asked.where):
            counted = {}
            for name in (one for one in asked.only or STEPS if one in known):
                found, why = level(spark, name, folder, place)
                counted[name] = found is Determinism.DETERMINATE
                mark = "" if counted[name] or not known[name] else "  not proved" if found else "  left out"
                mark = "  UNSAFE" if counted[name] and not known[name] else mark
                print(f"{place.value:8} {name:52} {found.value if found else '-':14}{mark} {why}", flush=True)
            unsafe += sum(is_proved and not known[name] for name, is_proved in counted.items())
            truly = [name for name in counted if known[name]]
            shares[place.value] = sum(counted[name] for name in truly) / len(truly)
    told = " ".join(f"share_{where}={share:.3f}" for where, share in shares.items())
    print(f"RESULT determinism-in-runs steps={len(known)} determinate={sum(known.values())} unsafe={unsafe} {told}")
    return 0 if not unsafe and min(shares.values()) >= SHARE_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
