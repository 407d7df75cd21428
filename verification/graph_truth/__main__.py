"""`make graph-truth`: drawn edges and regions of many pipelines against the tasks that Spark ran, and against the rows.

Exit 0 only if no task read, and no row came from, what is not drawn, and nothing is drawn wider than Spark read it.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import rekindle as rk
from graph_truth.judge import Judgement, Seen, judge
from graph_truth.programs import PROGRAMS, Program, made, make_sources
from local_spark import local_spark
from rekindle.model.edges import All
from rekindle.runtime.opening import peek
from rekindle.storage.stores import open_store
from support import eventlog

PROGRAMS_MIN = 40
NUMBER = re.compile(r"_(\d{5})\.")


def observe(spark: SparkSession, name: str, program: Program, folder: Path) -> Seen:
    """Run a program once and look at what it left."""
    location = f"{folder}/runs-{name}"
    pipeline = made(name, program, folder)
    done = pipeline.run(spark, location, options=rk.RunOptions(sweep=None, quiet=True))
    state = peek(open_store(location, {}), name, done.run)
    assert state is not None
    origins: dict[str, dict[int, frozenset[str]]] = {}
    paths: dict[str, frozenset[str]] = {}
    for step in state.spec.graph.steps:
        files = {
            int(found.group(1)): path
            for path in Path(location).rglob(f"results/{step.name}/**/part-*.parquet")
            if (found := NUMBER.search(path.name))
        }
        origins[step.name] = {at: frozenset(_words(spark, path, "origin")) for at, path in files.items()}
        paths[step.name] = frozenset(one for path in files.values() for one in _words(spark, path, "path"))
    return Seen(name, done.run, state.spec.graph, state.spec.regions, origins, paths)


def _words(spark: SparkSession, path: Path, column: str) -> Iterator[str]:
    for row in spark.read.parquet(str(path)).selectExpr(f"explode({column}) one").distinct().collect():
        yield row.one


def main() -> int:
    parser = argparse.ArgumentParser(prog="graph_truth")
    parser.add_argument("--only", default="", help="names of programs, separated by commas")
    asked = parser.parse_args()
    chosen = {name: PROGRAMS[name] for name in asked.only.split(",") if name} or PROGRAMS
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        (folder / "events").mkdir()
        spark = local_spark(
            {
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": f"file:{folder}/events",
                "spark.eventLog.rolling.enabled": "false",
                "spark.eventLog.compress": "false",
                "spark.sql.parquet.filterPushdown": "false",
                "spark.sql.shuffle.partitions": "5",
            }
        )
        make_sources(spark, folder)
        seen, stopped = [], []
        for name, program in chosen.items():
            try:
                seen.append(observe(spark, name, program, folder))
            except (rk.RekindleError, PySparkException) as error:
                stopped.append(f"{name}: {error}")
        spark.stop()
        (log,) = eventlog.read_all(folder / "events")
    found = {one.name: judge(one, log) for one in seen}
    for one in seen:
        print(f"{one.name}: {_drawn(one)}")
    for line in stopped:
        print(f"STOPPED {line}")
    code = tell(found, seen, time.monotonic() - started)
    return code or int(bool(stopped) or (not asked.only and len(found) < PROGRAMS_MIN))


def _drawn(one: Seen) -> str:
    edges = (f"{e.producer} {e.mapping}{f' {e.by}' if e.by else ''} {e.consumer}" for e in one.graph.edges)
    return ", ".join(edges)


def tell(found: dict[str, Judgement], seen: list[Seen], seconds: float) -> int:
    wrong = [line for one in found.values() for line in one.wrong]
    wider = [line for one in found.values() for line in one.wider]
    late = [line for one in found.values() for line in one.at_run_time]
    for word, lines in (("WRONG", wrong), ("WIDER", wider), ("AT RUN TIME", late)):
        for line in lines:
            print(f"{word} {line}")
    edges = sum(one.edges for one in found.values())
    opened = sum(edge.is_open for one in seen for edge in one.graph.edges)
    wide = sum(isinstance(edge.mapping, All) for one in seen for edge in one.graph.graph().edges)
    print(
        f"RESULT graph-truth programs={len(found)} edges={edges} all_to_all={wide} wrong={len(wrong)} "
        f"wider={len(wider)} open_share={opened / max(1, edges):.3f} read_less={len(late)} minutes={seconds / 60:.1f}"
    )
    return int(bool(wrong or wider))


if __name__ == "__main__":
    sys.exit(main())
