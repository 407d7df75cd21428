"""One Spark application that runs what it is asked for, each in a session of its own: orders in, answers out."""

from __future__ import annotations

import linecache
import os
import sys
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import Row, SparkSession

import rekindle as rk
from differential.orders import Answer, Order, Status, What
from local_spark import QUIET
from rekindle.errors import RekindleError, RunFailed
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.observe.plan import Plan

SETTINGS = {
    **QUIET,
    "spark.driver.memory": "1g",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "OFF",
}
JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
CONFIG = MasterConfig(backoff=BackoffSpec.of(FixedDelay(3, 50)))
TRACE_LINES = 25


def text_of(value: Any) -> str:
    """A value as text that is the same for equal values."""
    match value:
        case Row():
            return f"({', '.join(text_of(one) for one in value)})"
        case dict():
            return f"{{{', '.join(sorted(f'{text_of(key)}: {text_of(one)}' for key, one in value.items()))}}}"
        case list() | tuple():
            return f"[{', '.join(text_of(one) for one in value)}]"
        case _:
            return repr(value) if not hasattr(value, "toJson") else str(value.toJson())


def texts(rows: Iterable[Row]) -> list[list[str]]:
    return [[text_of(value) for value in row] for row in rows]


def load(path: str) -> dict[str, Any]:
    """The module, as if it were the script that was started."""
    text = Path(path).read_text()
    linecache.clearcache()
    space: dict[str, Any] = {"__name__": "__main__", "__file__": path}
    exec(compile(text, path, "exec"), space)
    return space


def cuts_of(plan: Plan) -> dict[str, str]:
    return {stage.step: f"{stage.action.value}: {stage.note or stage.reason}" for stage in plan.stages}


class Told:
    """What a run says of itself while it goes on."""

    def __init__(self) -> None:
        self.cuts: dict[str, str] = {}
        self.lines: list[str] = []

    def plan(self, plan: Plan) -> None:
        self.cuts = cuts_of(plan)

    @property
    def options(self) -> rk.RunOptions:
        return rk.RunOptions(config=CONFIG, sweep=None, on_plan=self.plan)


def run(spark: SparkSession, order: Order, told: Told) -> Answer:
    space = load(order.module)
    space["prepare"](spark)
    if order.what is What.BARE:
        return Answer(Status.ROWS, texts(space["bare"](spark).collect()))
    location = f"{order.folder}/state"
    if order.is_onramp:
        with rk.run("script", spark, location, options=told.options, tell=told.lines.append) as script:
            rows = texts(space["script"](spark, script).collect())
        reused = sum("reused" in line for line in told.lines)
        return Answer(Status.ROWS, rows, cuts=told.cuts, reused=reused)
    summary = space["p"].run(spark, location, options=told.options)
    found = rk.read_newest(spark, f"{order.folder}/out").collect()
    reused = sum(step.reused for step in summary.steps.values())
    return Answer(Status.ROWS, texts(found), cuts=told.cuts, reused=reused)


def answer(base: SparkSession, order: Order) -> Answer:
    began = time.monotonic()
    spark, told = base.newSession(), Told()
    for key, value in order.settings.items():
        spark.conf.set(key, value)
    jvm: Any = spark._jvm
    jvm.SparkSession.setActiveSession(spark._jsparkSession)
    SparkSession._instantiatedSession = spark
    try:
        found = run(spark, order, told)
    except RekindleError as error:
        status = Status.FAILED if isinstance(error, RunFailed) else Status.REFUSED
        found = Answer(status, error=f"{error.code} {type(error).__name__}", message=str(error), cuts=told.cuts)
    except Exception as error:
        trace = "".join(traceback.format_exception(error)[-TRACE_LINES:])
        found = Answer(Status.RAW, error=type(error).__name__, message=str(error)[:2000], trace=trace, cuts=told.cuts)
    spark.catalog.clearCache()
    return msgspec.structs.replace(found, seconds=time.monotonic() - began)


def main() -> None:
    cores = sys.argv[1]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ.setdefault("JDK_JAVA_OPTIONS", JAVA)  # A long campaign gives "-XX:+UseSerialGC": C2 pays after an hour.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.sql.warehouse.dir", sys.argv[2])
    for key, value in (SETTINGS | msgspec.json.decode(sys.argv[3], type=dict[str, str])).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        found = answer(spark, msgspec.json.decode(line, type=Order))
        out.write(msgspec.json.encode(found).decode() + "\n")
        out.flush()
    spark.stop()


if __name__ == "__main__":
    main()
