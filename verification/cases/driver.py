"""One driver of a case with two: it runs a program of `cases.programs` once or more, and says what came of it.

driver.py PROGRAM FOLDER [--day DAY] [--accept STEP] [--replace STEP] [--kill-after POINTERS]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import msgspec
from pyspark.sql import SparkSession

import rekindle as rk
from cases.programs import PROGRAMS, TARGET, kill_after_pointers
from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import AttemptOpened, Event
from rekindle.master.state.run_state import RunState


class Said(msgspec.Struct, frozen=True):
    """What came of it. `error` is empty if it was done; `kind` is then empty, too."""

    rows: list[list[int]] = []
    computed: int = 0
    reused: int = 0
    kind: str = ""
    error: str = ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("folder")
    parser.add_argument("--day", default="")
    parser.add_argument("--start", action="append")
    parser.add_argument("--kill-after", type=int, default=0)
    asked = parser.parse_args()
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    if asked.kill_after:
        kill_after_pointers(asked.folder, asked.kill_after)
    for start in asked.start or ["plain"]:
        word, _, step = start.partition(":")
        said = run(spark, asked, accept=(step,) * (word == "accept"), replace=(step,) * (word == "replace"))
        print(f"SAID {msgspec.json.encode(said).decode()}", flush=True)
    spark.stop()


def run(spark: SparkSession, asked: argparse.Namespace, accept: Sequence[str], replace: Sequence[str]) -> Said:
    started: list[Event] = []

    def watch(events: tuple[Event, ...], state: RunState) -> None:
        started.extend(event for event in events if isinstance(event, AttemptOpened))

    config = MasterConfig(backoff=BackoffSpec.of(FixedDelay(6, 200)))
    options = rk.RunOptions(config=config, sweep=None, watcher=watch, accept_change=accept, replace=replace)
    parameters = {"day": asked.day} if asked.day else {}
    try:
        pipeline = PROGRAMS[asked.program](spark, asked.folder)
        summary = pipeline.run(spark, f"{asked.folder}/state", options=options, **parameters)
    except rk.RekindleError as error:
        return Said(kind="failed" if started else "refused", error=f"{error.code} {error.message}")
    except Exception as error:
        return Said(kind="raw", error=f"{type(error).__name__}: {error}")
    rows = rk.read_newest(spark, f"{asked.folder}/{TARGET}").collect()
    computed = sum(step.computed for step in summary.steps.values())
    reused = sum(step.reused for step in summary.steps.values())
    return Said(sorted(list(map(int, row)) for row in rows), computed, reused)


if __name__ == "__main__":
    main()
