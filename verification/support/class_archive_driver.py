"""A driver that does a little of everything, so that its JVM knows the classes that others will need."""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

OTHERS = (
    "org.apache.spark.deploy.master.Master",
    "org.apache.spark.deploy.worker.Worker",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.EventLoggingListener",
    "org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend",
)


def main(folder: str) -> None:
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
    builder = SparkSession.builder.master("local[2]").config(map={**settings, "spark.driver.bindAddress": "127.0.0.1"})
    spark = builder.getOrCreate()
    gateway: Any = spark.sparkContext._gateway
    jvm: Any = spark._jvm
    for name in OTHERS:
        jvm.java.lang.Class.forName(name)
    rows = spark.range(100).withColumn("k", F.col("id") % 7)
    rows.write.parquet(f"{folder}/rows")
    rows.write.json(f"{folder}/json")
    kept = spark.read.parquet(f"{folder}/rows")
    summed = kept.groupBy("k").agg(F.sum("id").alias("total"))
    kept.join(summed, "k").withColumn("twice", F.udf(lambda one: one * 2, "long")("id")).orderBy("id").collect()
    kept.createOrReplaceTempView("kept")
    spark.sql("SELECT k, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM kept WHERE id > 3").collect()
    stream = spark.readStream.schema("id long, k long").json(f"{folder}/json").groupBy("k").count()
    query = stream.writeStream.outputMode("complete").format("memory").queryName("counted")
    query.trigger(availableNow=True).option("checkpointLocation", f"{folder}/checkpoint").start().awaitTermination()
    spark.stop()
    gateway.proc.stdin.close()  # The JVM ends then, and writes the archive.
    gateway.proc.wait()


if __name__ == "__main__":
    main(sys.argv[1])
