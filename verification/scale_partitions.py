"""`make scale-partitions`: what a partition costs the driver, with 1,000, 10,000 and 100,000 of them in one kept step.

Each partition has one row, is computed by one Spark task and becomes one Parquet file. Runs go through `rk.Pipeline` on
a real local Spark, in one application that was warmed up by a run of its own; a size that is run several times counts
by its median run.

- Own time of a run: wall time of `pipeline.run` in which no Spark job was active (by the times Spark itself notes for
  its jobs), and the CPU time that this Python process used, in all its threads, while jobs were active. Before and
  after its job Spark also plans, schedules and cleans up; that counts as ours, so it is an upper bound. The JVM's work
  inside a job is Spark's and is measured by `make bench-batch`.
- py4j calls: every command that leaves Python while `pipeline.run` is on. Polls ask for the commits since the last
  poll, all in one call, at most five times a second: they follow the time, so they are counted apart.
- marginal: own time that a further partition costs, from 1,000 to 10,000 and from there to 100,000. The time that a
  run costs anyway is not in it, so that growth which that would hide is seen.
- again: a second driver process, with a Spark of its own, runs the same and learns from the journal that all is done.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import psutil
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from build_jar import TEST_JAR
from local_spark import local_spark

ROUNDS = {1_000: 3, 10_000: 1, 100_000: 1}
WARM_UP = 1_000
RATIO_MAX = 1.5
CALLS_RATIO_MAX = 1.1
POLLS_PER_SECOND_MAX = 5.5
MINUTES_MAX = 12.0
SAMPLE_SECONDS = 0.02
STEP = "squares"
SETTINGS = {
    "spark.ui.retainedTasks": "100",
    "spark.driver.memory": "3g",
    "spark.eventLog.enabled": "false",
    # Without native code Hadoop starts two processes for each file on local disk, to set its permissions.
    "spark.driver.extraClassPath": str(TEST_JAR),
    "spark.hadoop.fs.file.impl": "rekindle.test.NoPermissions",
}
Intervals = list[tuple[float, float]]


class Figures(msgspec.Struct, frozen=True):
    """One run. Times in seconds."""

    partitions: int
    wall: float
    spark: float
    python_in_jobs: float
    jvm: float
    calls: int
    polls: int
    was_done: bool = False

    @property
    def own(self) -> float:
        return self.wall - self.spark + self.python_in_jobs

    @property
    def own_us(self) -> float:
        """Own microseconds per partition."""
        return self.own / self.partitions * 1e6


def pipeline() -> rk.Pipeline:
    """One kept step with as many partitions as the run asks for."""
    made = rk.Pipeline("scale")

    @made.source
    def numbers(spark: SparkSession, partitions: int) -> DataFrame:
        return spark.range(0, partitions, 1, partitions)

    @made.step(result="blocking", name=STEP)
    def squares(numbers: DataFrame) -> DataFrame:
        return numbers.selectExpr("id", "id * id AS square")

    return made


class Calls:
    """Counts the commands that Python sends to the JVM while it is entered, by what they are. `release` tells the JVM
    of objects that Python has forgotten, whenever its garbage collection comes to it. `cancel` is at most one for each
    attempt: a run that closes sends it if the attempt's thread has not quite ended by then. `exchanges` is what a
    thread sends that nobody waits for, a few for each step: a run may be over before them."""

    def __init__(self, spark: SparkSession) -> None:
        self._client: Any = spark.sparkContext._gateway._gateway_client
        self._lock = threading.RLock()
        self.found: Counter[str] = Counter()

    def __enter__(self) -> Calls:
        send = self._client.send_command

        def counted(command: str, *arguments: Any, **options: Any) -> Any:
            with self._lock:
                is_release = threading.current_thread().name.startswith("release the exchanges")
                self.found["exchanges" if is_release else _kind_of(command)] += 1
            return send(command, *arguments, **options)

        self._client.send_command = counted
        return self

    def __exit__(self, *_: object) -> None:
        del self._client.send_command


def _kind_of(command: str) -> str:
    if command.startswith(MEMORY_COMMAND_NAME):
        return "release"
    if "\ncancelJobsWithTag\n" in command:
        return "cancel"
    return "poll" if "\ndrain\n" in command else "call"


class CpuClock:
    """The CPU time of this process, noted again and again, so that it can be asked for any time in the past."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._cpu: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self._note()

    def _note(self) -> None:
        self._times.append(time.time())
        self._cpu.append(time.process_time())

    @contextmanager
    def running(self) -> Iterator[None]:
        self._note()
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()
            self._note()

    def during(self, intervals: Intervals) -> float:
        return sum(self._at(end) - self._at(begin) for begin, end in intervals)

    def _at(self, when: float) -> float:
        at = min(max(bisect.bisect(self._times, when), 1), len(self._times) - 1)
        begin, end = self._times[at - 1], self._times[at]
        share = min(max((when - begin) / (end - begin), 0.0), 1.0) if end > begin else 1.0
        return self._cpu[at - 1] + share * (self._cpu[at] - self._cpu[at - 1])


def job_times(spark: SparkSession, begin: float, end: float) -> Intervals:
    """When Spark jobs were active between two times; those that overlap are one."""
    scala: Any = spark.sparkContext._jsc.sc()
    scala.listenerBus().waitUntilEmpty(60_000)
    jobs = scala.statusStore().jobsList(None).iterator()
    found: Intervals = []
    while jobs.hasNext():
        job = jobs.next()
        started, ended = (one.get().getTime() / 1000 for one in (job.submissionTime(), job.completionTime()))
        if ended > begin and started < end:
            found.append((max(started, begin), min(ended, end)))
    merged: Intervals = []
    for one in sorted(found):
        if merged and one[0] <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], one[1])
        else:
            merged.append(one)
    return merged


def jvm_cpu(spark: SparkSession) -> float:
    """CPU seconds of the driver's JVM, which in local mode runs the tasks too; its children are not in it."""
    gateway: Any = spark.sparkContext._gateway
    used = psutil.Process(gateway.proc.pid).cpu_times()
    return float(used.user + used.system)


def measure(spark: SparkSession, location: str, partitions: int) -> Figures:
    clock = CpuClock()
    with clock.running(), Calls(spark) as calls:
        before, begin, started = jvm_cpu(spark), time.time(), time.perf_counter()
        summary = pipeline().run(spark, location, partitions=partitions)
        wall = time.perf_counter() - started
        jvm = jvm_cpu(spark) - before
    sent = calls.found
    jobs = job_times(spark, begin, begin + wall)
    step = summary.steps[STEP]
    assert step.partitions == partitions, f"{step.partitions} partitions, wanted {partitions}"
    assert step.computed == (0 if summary.was_done else partitions), f"{step.computed} of {partitions} computed"
    active = sum(end - begin for begin, end in jobs)
    return Figures(
        partitions, wall, active, clock.during(jobs), jvm, sent["call"], sent["poll"], was_done=summary.was_done
    )


def drive(wanted: list[str]) -> None:
    """The driver process: one run for each `partitions:location`, figures as lines of JSON."""
    spark = local_spark(SETTINGS)
    for one in wanted:
        partitions, _, location = one.partition(":")
        print(msgspec.json.encode(measure(spark, location, int(partitions))).decode(), flush=True)
    spark.stop()


def driver(wanted: list[str]) -> list[Figures]:
    """The same in a process of its own; each run is told as it comes."""
    command = [sys.executable, __file__, "--drive", *wanted]
    found = []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for line in child.stdout:
            figures = msgspec.json.decode(line, type=Figures)
            found.append(figures)
            print(
                f"{figures.partitions:>7} partitions: wall {figures.wall:.2f} s, in Spark jobs {figures.spark:.2f} s, "
                f"CPU of the JVM {figures.jvm:.2f} s, "
                f"own {figures.own:.2f} s = {figures.own_us:.0f} us each, py4j {figures.calls} calls, "
                f"{figures.polls} polls{', was done' if figures.was_done else ''}",
                flush=True,
            )
    assert child.returncode == 0, f"the driver ended with {child.returncode}"
    return found


def median_runs(figures: list[Figures]) -> dict[int, Figures]:
    """Of each size the run with the median own time; the lower one of two."""
    by_size: dict[int, list[Figures]] = {}
    for one in figures:
        by_size.setdefault(one.partitions, []).append(one)
    return {
        size: next(one for one in runs if one.own == statistics.median_low([each.own for each in runs]))
        for size, runs in by_size.items()
    }


def report(runs: dict[int, Figures], again: Figures, minutes: float) -> bool:
    sizes = sorted(runs)
    few, many = runs[sizes[0]], runs[sizes[-1]]
    ratio = many.own_us / few.own_us
    calls_ratio = many.calls / few.calls
    polls = many.polls / many.wall
    slopes = [(runs[high].own - runs[low].own) / (high - low) * 1e6 for low, high in itertools.pairwise(sizes)]
    shown = [f"own_us_{size}={runs[size].own_us:.0f}" for size in sizes]
    shown += [f"ratio={ratio:.3f}", f"ratio_max={RATIO_MAX}"]
    shown += [f"marginal_us_{size}={slope:.0f}" for size, slope in zip(sizes[1:], slopes, strict=True)]
    shown += [f"py4j_calls_{size}={runs[size].calls}" for size in sizes]
    shown += [f"polls_per_s={polls:.1f}", f"spark_s_{sizes[-1]}={many.spark:.0f}", f"again_s={again.wall:.2f}"]
    print("RESULT scale-partitions", *shown, f"minutes={minutes:.1f}", f"minutes_max={MINUTES_MAX}")
    is_small = ratio <= RATIO_MAX and calls_ratio <= CALLS_RATIO_MAX and polls <= POLLS_PER_SECOND_MAX
    return is_small and again.was_done and minutes <= MINUTES_MAX


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(ROUNDS), help="at least two")
    parser.add_argument("--drive", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        drive(options.drive)
        return 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rekindle-scale-") as folder:
        wanted = [f"{WARM_UP}:{folder}/warm-up"]
        wanted += [f"{size}:{folder}/{size}-{at}" for size in options.sizes for at in range(ROUNDS.get(size, 1))]
        runs = median_runs(driver(wanted)[1:])
        (again,) = driver([f"{options.sizes[-1]}:{folder}/{options.sizes[-1]}-0"])
        minutes = (time.monotonic() - started) / 60
        return 0 if report(runs, again, minutes) else 1


if __name__ == "__main__":
    raise SystemExit(main())
