"""`make lost-partitions`: one lost partition below a union, a coalesce and a broadcast, on a real cluster.

Each pipeline runs until its sink fails, with the edges drawn as now and as before. One partition of the first step and
one of its reader are deleted, and another driver goes on. What it computed is counted by the run and by Spark's event
log. Exit 0 only if the rows are right, both counts agree, and no more than the readers concerned ran again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lost_partitions.driver import DRAWN, SHAPES, Answer
from rekindle.local_cluster.cluster import LocalCluster, Size
from support import eventlog
from support.drivers import start_driver

ROWS, KEYS, LOST, READER = 60_000, 3_000, 5, 0
SIZE = Size(worker_cores=1, executor_cores=1, executor_memory_mb=768, application_cores=2)


def make_lake(folder: Path) -> Path:
    (folder / "orders").mkdir(parents=True)
    for number in range(4):
        ids = range(number, ROWS, 4)
        columns = {"k": pa.array([one % KEYS for one in ids], pa.int64()), "v": pa.array(ids, pa.int64())}
        pq.write_table(pa.table(columns), folder / "orders" / f"part-{number}.parquet")
    return folder


def drive(cluster: LocalCluster, lake: Path, name: str) -> list[Answer]:
    folder, script = lake / name, Path(__file__).parent / "driver.py"
    folder.mkdir()
    answers = folder / "answers"
    driver = start_driver(
        script,
        str(lake),
        str(answers),
        folder=folder,
        settings=cluster.app_settings(lake / "events"),
        env=cluster.app_env,
    )
    try:
        code = driver.wait()
    finally:
        driver.end()
    assert code == 0, driver.text()[-3000:]
    return [msgspec.json.decode(line, type=Answer) for line in answers.read_bytes().splitlines()]


def lose(lake: Path, answer: Answer) -> None:
    """One partition of the first step, and the one of its reader that reads it now."""
    for step, number in (("facts", LOST), ("joined", reader_of(answer.name))):
        (file,) = (lake / "runs" / answer.name).rglob(f"results/{step}/**/part-*_{number:05d}.*")
        file.unlink()


def reader_of(name: str) -> int:
    return READER if name.startswith("coalesce") else LOST


def main() -> int:
    argparse.ArgumentParser(prog="lost_partitions").parse_args()
    started, wrong = time.monotonic(), list[str]()
    with tempfile.TemporaryDirectory() as held, LocalCluster(workers=2, size=SIZE) as cluster:
        lake = make_lake(Path(held) / "lake")
        (lake / "poison").touch()
        for answer in drive(cluster, lake, "first"):
            lose(lake, answer)
        (lake / "poison").unlink()
        found = {answer.name: answer for answer in drive(cluster, lake, "second")}
        (application,) = {answer.application for answer in found.values()}
        log = eventlog.read_application(lake / "events", application)
        print(f"{'':12}{'drawn':8}{'facts':>7}{'joined':>8}{'Spark tasks of joined':>24}")
        for shape in SHAPES:
            rows = [pq.read_table(lake / f"{shape}_{drawn}" / "current").num_rows for drawn in DRAWN]
            if len(set(rows)) > 1:
                wrong.append(f"{shape}: {rows} rows")
            for drawn in DRAWN:
                answer = found[f"{shape}_{drawn}"]
                writing, others = log.of_step("joined", answer.run)
                again = answer.computed["facts"], answer.computed["joined"]
                print(f"{shape:12}{drawn:8}{again[0]:>7}{again[1]:>8}{len(writing) + len(others):>24}")
                if len(writing) != again[1]:
                    wrong.append(f"{answer.name}: {again[1]} partitions computed, {len(writing)} Spark tasks wrote one")
                if drawn == "now" and again != (1, 1):
                    wrong.append(f"{answer.name}: {again} ran again")
    for line in wrong:
        print(f"WRONG {line}")
    minutes = (time.monotonic() - started) / 60
    print(f"RESULT lost-partitions shapes={len(SHAPES)} wrong={len(wrong)} minutes={minutes:.1f}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
