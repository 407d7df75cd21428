"""The programs of `make stream-changes`, as text, and what is changed in them: files of code are what users change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

HEAD = """
import os
from pyspark.sql import SparkSession, functions as F
import rekindle as rk

IN, MORE, OUT = @IN@, @MORE@, @OUT@
pipeline = rk.Pipeline("live")


@pipeline.source
def orders(spark):
    return spark.readStream.schema("n long, m long, at timestamp").option("maxFilesPerTrigger", 1).json(IN)
"""
RETURNS = """

@pipeline.source
def returns(spark):
    return spark.readStream.schema("n long, m long, at timestamp").option("maxFilesPerTrigger", 1).json(MORE)
"""
PLAIN = (
    HEAD
    + """

def helped(n):
    return n + 1


@pipeline.step
def cleaned(orders):
    return orders.where("n % 5 <> 4")


@pipeline.sink(rk.files(OUT))
def out(cleaned):
    made = F.udf(lambda n: helped(n) * 2, "long")
    return cleaned.select("n", "m", made("n").alias("made"), F.hour("at").alias("hour"))


def frame(spark):
    return out(cleaned(orders(spark)))
"""
)
COUNTED = (
    HEAD
    + """

@pipeline.step
def keyed(orders):
    return orders.where("n >= 0").withColumn("key", F.col("n") % 3)


@pipeline.step
def counted(keyed):
    timed = keyed.withWatermark("at", "5 seconds")
    return timed.groupBy(F.window("at", "10 seconds"), "key").agg(F.count("n").alias("value"))


@pipeline.step
def shown(counted):
    return counted.select(F.col("window.start").alias("start"), "key", "value")


@pipeline.sink(rk.files(OUT))
def out(shown):
    return shown.withColumn("label", F.lit("a"))


def frame(spark):
    return out(shown(counted(keyed(orders(spark)))))
"""
)
ONCE = (
    HEAD
    + """

@pipeline.step
def keyed(orders):
    made = F.udf(lambda n: n % 17, "long")
    return orders.withColumn("key", made("n"))


@pipeline.sink(rk.files(OUT))
def out(keyed):
    return keyed.dropDuplicates(["key"])


def frame(spark):
    return out(keyed(orders(spark)))
"""
)
# The function is known to the session by its name alone, or holds a value that is read while the step is built.
NAMED = (
    HEAD
    + """
SparkSession.active().udf.register("marked", lambda n: n % 17, "long")


@pipeline.step
def keyed(orders):
    return orders.withColumn("key", F.expr("marked(n)"))


@pipeline.sink(rk.files(OUT))
def out(keyed):
    return keyed.dropDuplicates(["key"])


def frame(spark):
    return out(keyed(orders(spark)))
"""
)
READ = (
    HEAD
    + """

@pipeline.step
def keyed(orders):
    by = int(os.environ.get("STREAM_CHANGES_BY", "17"))
    return orders.withColumn("key", F.udf(lambda n: n % by, "long")("n"))


@pipeline.sink(rk.files(OUT))
def out(keyed):
    return keyed.dropDuplicates(["key"])


def frame(spark):
    return out(keyed(orders(spark)))
"""
)
JOINED = (
    HEAD
    + RETURNS
    + """

@pipeline.sink(rk.files(OUT))
def out(orders, returns):
    left = orders.withWatermark("at", "5 seconds").alias("l")
    right = returns.withWatermark("at", "5 seconds").alias("r")
    near = "l.n = r.n and r.at between l.at - interval 30 seconds and l.at + interval 30 seconds"
    return left.join(right, F.expr(near), "inner").select("l.n", F.col("r.m").alias("back"))


def frame(spark):
    return out(orders(spark), returns(spark))
"""
)
UNITED = (
    HEAD
    + RETURNS
    + """

@pipeline.sink(rk.files(OUT))
def out(orders, returns):
    return orders.union(returns).select("n", "m")


def frame(spark):
    return out(orders(spark), returns(spark))
"""
)
GROUPED = (
    HEAD
    + """

def summed(key, frames, state):
    import pandas as pd

    total = state.get[0] if state.exists else 0
    for one in frames:
        total += int(one["n"].sum())
    state.update((total,))
    yield pd.DataFrame({"key": [key[0]], "total": [total]})


@pipeline.sink(rk.files(OUT))
def out(orders):
    keyed = orders.withColumn("key", F.col("n") % 3)
    return keyed.groupBy("key").applyInPandasWithState(
        summed, "key long, total long", "total long", "append", "NoTimeout"
    )


def frame(spark):
    return out(orders(spark))
"""
)
# A step that is handed what it does not read.
UNREAD = (
    HEAD
    + """

@pipeline.step
def passed(orders):
    return orders.withColumn("key", F.col("n") % 17)


@pipeline.step
def unread(orders):
    return orders.dropDuplicates(["n"])


@pipeline.sink(rk.files(OUT))
def out(passed, unread):
    return passed.dropDuplicates(["key"])


def frame(spark):
    return out(passed(orders(spark)), None)
"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeChange:
    """One kind of change: what is replaced in which program; settings and variables of the changed start; how many
    batches the changed code makes of the first half; `is_moved` if its file lies in another folder."""

    name: str
    base: str
    edits: tuple[tuple[str, str], ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    cut: int = 2
    is_moved: bool = False

    def code(self, programs: Mapping[str, str]) -> str:
        text = programs[self.base]
        for old, new in self.edits:
            assert old in text, f"{self.name}: {old!r} is not in {self.base}"
            text = text.replace(old, new)
        return text


PROGRAMS = {
    "plain": PLAIN,
    "counted": COUNTED,
    "once": ONCE,
    "named": NAMED,
    "read": READ,
    "joined": JOINED,
    "united": UNITED,
    "grouped": GROUPED,
    "unread": UNREAD,
}
TOKYO = {"spark.sql.session.timeZone": "Asia/Tokyo"}


def change(name: str, base: str, *edits: tuple[str, str], **others: object) -> CodeChange:
    return CodeChange(name=name, base=base, edits=edits, **others)  # type: ignore[arg-type]


CHANGES = (
    # Nothing that matters.
    change("unchanged, stateless", "plain"),
    change("unchanged, with state", "counted"),
    change("a comment", "counted", ("    timed =", "    # Late rows.\n    timed =")),
    change("the file in another folder", "counted", is_moved=True),
    change("another trigger", "plain", ("rk.files(OUT)", 'rk.files(OUT), trigger="1 second"')),
    # Without state.
    change("filter", "plain", ("n % 5 <> 4", "n % 5 <> 3")),
    change("body of a UDF", "plain", ("helped(n) * 2", "helped(n) * 3")),
    change("body of a helper", "plain", ("return n + 1", "return n + 7")),
    change("column added", "plain", ('"n", "m",', '"n", "m", F.lit(1).alias("one"),')),
    change("column removed", "plain", ('"n", "m",', '"n",')),
    change("column retyped", "plain", ('"n", "m",', '"n", F.col("m").cast("int").alias("m"),')),
    change("step renamed", "plain", ("cleaned", "cleansed")),
    change(
        "step added",
        "plain",
        ("@pipeline.sink", "@pipeline.step\ndef kept(cleaned):\n    return cleaned.where('n <> 20')\n\n@pipeline.sink"),
        ("def out(cleaned)", "def out(kept)"),
        ("return cleaned.select", "return kept.select"),
        ("out(cleaned(orders(spark)))", "out(kept(cleaned(orders(spark))))"),
    ),
    change("time zone, stateless", "plain", conf=TOKYO),
    # Sources, sinks and targets.
    change("maxFilesPerTrigger", "plain", ('"maxFilesPerTrigger", 1', '"maxFilesPerTrigger", 2'), cut=1),
    change("maxFilesPerTrigger below state", "once", ('"maxFilesPerTrigger", 1', '"maxFilesPerTrigger", 2'), cut=1),
    change("path of the source", "plain", (".json(IN)", ".json(MORE)")),
    change("columns of the source", "plain", ("n long, m long,", "m long, n long, extra string,")),
    change("sink renamed", "plain", ("def out(", "def output("), ("return out(", "return output(")),
    change("target", "plain", ("rk.files(OUT)", 'rk.files(OUT + "_other")')),
    change(
        "source added",
        "united",
        ("def out(orders, returns)", "def out(orders, returns, third)"),
        ("orders.union(returns)", "orders.union(returns).union(third)"),
        ("out(orders(spark), returns(spark))", "out(orders(spark), returns(spark), third(spark))"),
        ("@pipeline.sink", "@pipeline.source\ndef third(spark):\n    return orders(spark)\n\n\n@pipeline.sink"),
    ),
    change(
        "source removed",
        "united",
        ("def out(orders, returns)", "def out(orders)"),
        ("orders.union(returns)", "orders"),
        ("out(orders(spark), returns(spark))", "out(orders(spark))"),
    ),
    change("sources swapped", "united", ("orders.union(returns)", "returns.union(orders)")),
    # Above the state.
    change("value of a column above state", "counted", ('F.lit("a")', 'F.lit("b")')),
    change("filter above state", "counted", ("return shown.with", "return shown.where('key <> 1').with")),
    change("column added above state", "counted", ('"key", "value")', '"key", "value", F.lit(1).alias("one"))')),
    change(
        "watermark added above state",
        "counted",
        ("return shown.", "return shown.withColumn('late', F.col('start')).withWatermark('late', '40 seconds')."),
    ),
    # At or below the state.
    change("filter below state", "counted", ("n >= 0", "n >= 12")),
    change("key expression", "counted", ('F.col("n") % 3', 'F.col("n") % 4')),
    change("window", "counted", ("10 seconds", "20 seconds")),
    change("count -> sum", "counted", ('F.count("n")', 'F.sum("n")')),
    change("aggregate added", "counted", ('.alias("value"))', '.alias("value"), F.max("m").alias("most"))')),
    change("watermark longer", "counted", ("5 seconds", "25 seconds")),
    change("watermark shorter", "counted", ("5 seconds", "1 second")),
    change("step below state renamed", "counted", ("keyed", "with_key")),
    change("time zone below state", "counted", conf=TOKYO),
    change("shuffle partitions", "counted", conf={"spark.sql.shuffle.partitions": "3"}),
    change("column of dropDuplicates", "once", ('dropDuplicates(["key"])', 'dropDuplicates(["m"])')),
    change("body of a UDF below state", "once", ("n % 17", "n % 13")),
    change("UDF of the session below state", "named", ("n % 17", "n % 13")),
    change("UDF with a value that was read", "read", variables={"STREAM_CHANGES_BY": "13"}),
    change("join condition", "joined", ("l.n = r.n", "l.m = r.n")),
    change("join type", "joined", ('"inner"', '"left_outer"')),
    change("join with sides swapped", "joined", ("left.join(right", "right.join(left")),
    change("function of grouped state", "grouped", ('one["n"].sum()', 'one["m"].sum()')),
    change("state beside an input that is not read", "unread", ('dropDuplicates(["key"])', 'dropDuplicates(["m"])')),
    # State that comes and goes.
    change("stateful step added", "plain", ("return cleaned.select", 'return cleaned.dropDuplicates(["n"]).select')),
    change(
        "stateful step removed",
        "counted",
        (
            'timed.groupBy(F.window("at", "10 seconds"), "key").agg(F.count("n").alias("value"))',
            'timed.select(F.window("at", "10 seconds"), "key", F.col("n").alias("value"))',
        ),
    ),
    change(
        "second stateful step", "once", ('dropDuplicates(["key"])', 'dropDuplicates(["key"]).dropDuplicates(["m"])')
    ),
)
