"""The folder that `rekindle demo` plays in: orders, a pipeline as a user writes one, and settings.

- Nothing here needs Spark: the orders are text, written by Python.
- The pipeline's slow function takes a little for each order, so that a kill lands in the middle of it.
- `COMPARE` is the judge's script: the same functions called by plain Spark, beside what Rekindle published.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

from rekindle.engine.spark_log import TO_FILE

PIPELINE_FILE = "shop.py"
COMPARE_FILE = "compare.py"
PIPELINE_NAME = "shop"
SLOW_STEP = "priced"
ORDERS, CUSTOMERS, FILES = 4_000, 500, 8
PARTITIONS = 64
SEED = 6

PIPELINE = f'''\
"""Orders of a shop: each gets a price by a slow function, as of a model or a service; then they are summed up."""

import time
from pathlib import Path

import rekindle as rk
from pyspark.sql import functions as f

HERE = Path(__file__).parent
pipeline = rk.Pipeline("{PIPELINE_NAME}")


@pipeline.source
def orders(spark):
    return spark.read.schema("id long, customer long, cents long").csv(f"{{HERE}}/orders")


def price(cents):
    time.sleep(0.006)
    return cents + cents // 5


@pipeline.step(partition_by="customer", partitions={PARTITIONS})
def {SLOW_STEP}(orders):
    return orders.withColumn("price", f.udf(price, "long")("cents"))


@pipeline.step(partition_by="customer", partitions=4)
def totals({SLOW_STEP}):
    return {SLOW_STEP}.groupBy("customer").agg(f.count("id").alias("orders"), f.sum("price").alias("total"))


@pipeline.sink(rk.files(f"{{HERE}}/result"))
def result(totals): ...
'''

COMPARE = f'''\
"""The same functions by plain Spark, without Rekindle, beside what was published: rows of both, as text."""

import json
import time
from pathlib import Path

import rekindle as rk
import shop
from pyspark import cloudpickle
from pyspark.sql import SparkSession

cloudpickle.register_pickle_by_value(shop)
spark = SparkSession.builder.getOrCreate()
spark.range(1).count()
started = time.monotonic()
plain = shop.totals(shop.{SLOW_STEP}(shop.orders(spark))).collect()
print(f"plain Spark took {{time.monotonic() - started:.0f}} s for all of it")
published = rk.read_newest(spark, f"{{shop.HERE}}/result").collect()
for name, rows in (("plain", plain), ("published", published)):
    Path(f"{{name}}.jsonl").write_text("\\n".join(json.dumps(row.asDict(), sort_keys=True) for row in rows))
'''


def lay_out(folder: Path) -> None:
    """Write the orders, the pipeline, its settings file and the judge's script."""
    (folder / "orders").mkdir(parents=True)
    lines = list(_orders())
    for index in range(FILES):
        (folder / "orders" / f"{index}.csv").write_text("".join(lines[index::FILES]))
    (folder / PIPELINE_FILE).write_text(PIPELINE)
    (folder / COMPARE_FILE).write_text(COMPARE)
    (folder / "rekindle.toml").write_text('location = "store"\n')


def write_spark_settings(folder: Path, settings: Mapping[str, str]) -> Path:
    """Spark's configuration folder, so that a command line needs nothing about the cluster."""
    conf = folder / "spark-conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    (conf / "log4j2.properties").write_text(TO_FILE.format(log=folder / "spark.log"))
    return conf


def _orders() -> Iterator[str]:
    chance = random.Random(SEED)
    for number in range(ORDERS):
        yield f"{number},{chance.randrange(CUSTOMERS)},{chance.randrange(100, 20_000)}\n"
