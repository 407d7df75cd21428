"""A streaming driver as a process of its own: three regions over one folder, until it is told to halt."""

from __future__ import annotations

import sys
import time
import uuid
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from stream_fence.regions import BARE, ONCE, REGIONS, DriverOrder, StreamPlace

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def start(spark: SparkSession, order: DriverOrder, region: str) -> StreamingQuery:
    place = StreamPlace(Path(order.folder), order.url)
    checkpoint = f"{place.url}/checkpoints/{region}"
    session = spark.newSession()
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stopTimeout": "20s",
        "spark.sql.streaming.stateStore.providerClass": ROCKS,
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    }
    if region != BARE:
        settings |= {
            "spark.sql.streaming.checkpointFileManagerClass": "rekindle.spark.FencedCheckpoints",
            "spark.rekindle.stream.fence": f"{place.url}/fence",
            "spark.rekindle.stream.epoch": str(order.epoch),
        }
    for name, value in settings.items():
        session.conf.set(name, value)
    rows = session.readStream.option("maxFilesPerTrigger", 1).text(str(place.source))
    if region == ONCE:
        rows = rows.dropDuplicates(["value"])
    writer = rows.writeStream.queryName(f"{region} {uuid.uuid4()}")
    writer = writer.trigger(availableNow=True) if order.ends else writer.trigger(processingTime="50 milliseconds")
    writer = writer.option("checkpointLocation", checkpoint)
    if region == BARE:

        def append(batch: DataFrame, number: int) -> None:
            batch.write.parquet(f"{place.folder}/bare/{number}-{uuid.uuid4()}")

        return writer.foreachBatch(append).start()
    writer = writer.format("rekindle.spark.StreamFiles").option("path", f"{place.url}/target")
    return writer.option("checkpoint", checkpoint).option("region", region).option("generation", "0").start()


def main(order: DriverOrder) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    queries = {region: start(spark, order, region) for region in REGIONS}
    print("started", flush=True)
    while queries and not StreamPlace(Path(order.folder)).halt.exists():
        for region, query in list(queries.items()):
            if not query.isActive:
                print(f"dead {region}: {' '.join(str(query.exception()).split())}", flush=True)
                del queries[region]
        time.sleep(0.05)
    for query in queries.values():
        query.stop()
    spark.stop()
    print("halted", flush=True)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=DriverOrder))
