"""A run whose source, location and target lie on HDFS: it fails, goes on in a new driver, and is cleaned up."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import uuid
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import rekindle as rk
from cli.calling import call
from rekindle.storage.hdfs import HdfsStore
from support.hadoop import HadoopCluster

MAIN = "from rekindle.cli.main import main; main()"
KEYS, PARTITIONS = 12, 4
PIPELINE = """
    import uuid
    from pathlib import Path
    from pyspark.sql import functions as F
    import rekindle as rk

    pipeline = rk.Pipeline("shop")
    local, place = {local!r}, {place!r}

    @pipeline.source
    def orders(spark):
        return spark.read.schema("id long, k long").parquet(place + "/orders")

    def price(k):
        if k == 3 and Path(local, "poison").exists():
            raise ValueError("cannot price 3")
        Path(local, "calls", f"{{k}}-{{uuid.uuid4().hex}}").touch()
        return k * 2

    @pipeline.step(partition_by="k", partitions={partitions})
    def priced(orders):
        return orders.groupBy("k").agg(F.count("*").alias("n")).withColumn("price", F.udf(price, "long")("k"))

    @pipeline.sink(rk.files(place + "/out"))
    def prices(priced): ...
"""
SETTINGS = ("--master", "local[2]", "--conf", "spark.ui.enabled=false")
# What is not poison is computed before the run gives up.
TWICE = ("--set", "backoff.kind=fixed", "--set", "backoff.delay_ms=0", "--set", "backoff.attempts_max=1")


def called(folder: Path) -> list[int]:
    """For which keys the user's function came to its end since this was asked last."""
    found = list((folder / "calls").iterdir())
    for one in found:
        one.unlink()
    return sorted(int(one.name.split("-")[0]) for one in found)


@pytest.mark.timeout(1800)  # It starts two drivers; on a busy machine each takes minutes.
def test_a_run_on_hdfs_goes_on_in_a_new_driver_and_leaves_what_it_published(
    hdfs: HadoopCluster, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = uuid.uuid4().hex
    store, place = HdfsStore(hdfs.url(folder), hdfs.store_settings), hdfs.url(folder)
    orders = io.BytesIO()
    pq.write_table(pa.table({"id": range(48), "k": [one % KEYS for one in range(48)]}), orders)
    store.put("orders/part-0.parquet", orders.getvalue())
    (tmp_path / "calls").mkdir()
    (tmp_path / "poison").touch()
    (tmp_path / "shop.py").write_text(dedent(PIPELINE).format(local=str(tmp_path), place=place, partitions=PARTITIONS))
    environment = os.environ | {"REKINDLE_LOCATION": f"{place}/runs", "HADOOP_CONF_DIR": str(hdfs.conf)}

    def types(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", MAIN, *words, str(tmp_path / "shop.py"), *SETTINGS, *TWICE]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)

    failed = types("run")
    assert failed.returncode not in (0, 2) and "cannot price 3" in failed.stderr, failed.stderr
    called(tmp_path)
    names = (entry.name for page in store.walk("runs/shop/") for entry in page)
    kept = sum("/results/priced/" in name and "/_committed/" in name for name in names)
    assert 1 <= kept < PARTITIONS, failed.stdout
    (tmp_path / "poison").unlink()
    resumed = types("resume")
    assert resumed.returncode == 0, resumed.stderr
    assert f"reused {kept}" in resumed.stdout, resumed.stdout
    again = called(tmp_path)
    assert 3 in again and len(again) == len(set(again)) < KEYS

    given = ("--location", f"{place}/runs", "--storage", f"webhdfs={hdfs.web}")
    late = "runs/shop/" + store.list_folders("runs/shop/")[0] + "/results/priced/g0/e1-a1/part-9_00000.parquet"
    store.put(late, b"what a late task wrote")
    said = call(capsys, "gc", *given, "--set", "gc.grace_hours=0", "--set", "gc.retention_hours=0")
    assert said.code == 0 and store.get(late) is None, said
    assert "shop" in call(capsys, "runs", *given).out
    expected = [(k, 4, 2 * k) for k in range(KEYS)]
    [version] = store.list_folders("out/versions/")
    bare = spark.read.parquet(f"{place}/out/versions/{version}")
    assert sorted(tuple(row) for row in bare.select("k", "n", "price").collect()) == expected
    read = rk.read_newest(spark, f"{place}/out", storage=hdfs.store_settings)
    assert sorted(tuple(row) for row in read.select("k", "n", "price").collect()) == expected
