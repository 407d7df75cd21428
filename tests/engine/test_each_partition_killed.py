"""A driver that writes to a database is killed in the middle, with its JVM; the next one goes on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from textwrap import dedent

import pytest

from support.drivers import kill_driver, start_driver
from support.signals import when

pytestmark = pytest.mark.spark
PARTITIONS, ROWS = 8, 400
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

# `begun` has a line for each call, `totals` what its transactions wrote.
SCRIPT = f"""
    import sqlite3, sys, time
    from contextlib import closing
    from pyspark.sql import SparkSession
    import rekindle as rk

    folder = sys.argv[1]

    def write(rows, key, partition, batch):
        found = [(row.id, partition, key) for row in rows]
        with closing(sqlite3.connect(f"{{folder}}/shop.db", timeout=60)) as connection:
            with connection:
                connection.execute("INSERT INTO begun VALUES (?)", (partition,))
            time.sleep(0.4)
            with connection:
                connection.execute("DELETE FROM totals WHERE partition = ? AND key <> ?", (partition, key))
                if connection.execute("INSERT OR IGNORE INTO written VALUES (?)", (key,)).rowcount:
                    connection.executemany("INSERT INTO totals VALUES (?, ?, ?)", found)

    spark = SparkSession.builder.getOrCreate()
    pipeline = rk.Pipeline("exports")

    @pipeline.source
    def orders(spark):
        return spark.range(0, {ROWS}, 1, {PARTITIONS})

    @pipeline.sink(rk.each_partition(write, f"{{folder}}/notes", exactly_once=True))
    def database(orders):
        return orders

    options = rk.RunOptions(stale_seconds=3)
    while True:
        try:
            print("done", pipeline.run(spark, f"{{folder}}/runs", options=options).was_resumed, flush=True)
            break
        except rk.StillOwned:
            time.sleep(0.5)
"""


def asked(folder: Path, query: str) -> list[tuple[int, ...]]:
    with closing(sqlite3.connect(folder / "shop.db", timeout=60)) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("after", [1, 4])
def test_rows_are_written_once_although_the_driver_dies(tmp_path: Path, after: int) -> None:
    """`after` is how many partitions were written when it dies, at least; others are being written then."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE begun (partition)")
        connection.execute("CREATE TABLE totals (id, partition, key)")
        connection.execute("CREATE TABLE written (key TEXT PRIMARY KEY)")
    script = tmp_path / "exports.py"
    script.write_text(dedent(SCRIPT))
    first = start_driver(script, str(tmp_path), folder=tmp_path, settings=SETTINGS)
    try:
        when(lambda: len(asked(tmp_path, "SELECT key FROM written")) >= after or not first.is_alive())
        kill_driver(first)
    finally:
        first.end()
    assert len(asked(tmp_path, "SELECT key FROM written")) < PARTITIONS, "it died before the end"
    second = start_driver(script, str(tmp_path), folder=tmp_path, settings=SETTINGS)
    try:
        assert second.wait() == 0, second.text()[-3000:]
    finally:
        second.end()
    assert "done True" in second.text()
    assert sorted(asked(tmp_path, "SELECT id FROM totals")) == [(number,) for number in range(ROWS)]
    assert len(asked(tmp_path, "SELECT partition FROM begun")) > PARTITIONS, "some were called twice"
