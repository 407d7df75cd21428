"""`make bench-digest` (P6): what a digest per partition costs on top of a write, in CPU.

Each case is one write of the product (`results.write`) in several ways, in turn, a new plan each time; the first rounds
warm up and are not counted. The figure is the median of ratios to the two writes without a digest of the same round.

  off         no digest
  off again   the same once more: what the machine adds by itself
  on          the product: each row is looked at on its way to Parquet's writer
  observe     Spark's own aggregates beside the write, two seeded hashes: no digest per partition, no maps; the control
  read back   off, then the files are read again: how partitions without a digest get theirs when they are adopted

CPU is that of the JVM in local mode, with its compiler and collector. Beside it stands that of the Spark tasks alone,
as Spark counts it: less noise, and all that a digest does is in there. Exit 0 only if `on` is at most GATE in every
case, by the JVM's CPU, and `auto` on a determinate step asks for nothing at all.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench_batch.figures import Estimate, estimate
from local_spark import local_spark
from rekindle.engine.spark.jvm.access import Package, ours
from rekindle.engine.spark.plan import layout
from rekindle.engine.spark.plan.analyse import analyse
from rekindle.engine.spark.plan.group import GroupSpec
from rekindle.engine.spark.run import digests, results
from rekindle.engine.spark.session import attach, group_session
from rekindle.model.kinds import DigestPolicy
from rekindle.model.partitions import Partitions
from rekindle.results import manifest

AIM, GATE = 1.03, 1.10
TICKS = os.sysconf("SC_CLK_TCK")
PARTITIONS = 8
WARM_UP = 2
OFF, AGAIN = "off", "off again"
SEED = 7
# Ten columns as results have them; a hundred are these ten times, with other values.
TEN = (
    "xxhash64(id, {n})",
    "cast(hash(id, {n}) as int)",
    "hash(id, {n}) / 7.0D",
    "concat('name ', pmod(hash(id, {n}), 100000))",
    "cast(hash(id, {n}) / 100.0 as decimal(12, 2))",
    "timestamp_micros(pmod(xxhash64({n}, id), 2000000000000000))",
    "date_add(date'2000-01-01', pmod(hash({n}, id), 9000))",
    "if(hash(id, {n}) % 3 = 0, null, cast(hash({n}, id) % 1000 as int))",
    "hash(id, {n}) % 2 = 0",
    "sha1(cast(id + {n} as string))",
)


@dataclass(frozen=True, slots=True)
class Used:
    """CPU seconds of one write: of the whole JVM, and of the Spark tasks alone."""

    jvm: float
    tasks: float


@dataclass(frozen=True, slots=True)
class Case:
    """One shape of a write: an exchange below it or none, and how many columns."""

    name: str
    columns: int
    rows: int
    has_exchange: bool


class Bench:
    """The session, its sources, and one write in each way."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder
        self.spark = _session(folder)
        self.pid = int(Package(self.spark, "java.lang").ProcessHandle.current().pid())
        self.count, self.stage = 0, -1
        self.cases = [
            Case(f"{kind}{columns}", columns, rows * 10 // columns, kind == "shuffle")
            for columns in (10, 100)
            for kind in ("narrow", "shuffle")
        ]
        for columns in (10, 100):
            made = [F.expr(TEN[n % 10].format(n=n)).alias(f"c{n}") for n in range(columns)]
            frame = self.spark.range(0, rows * 10 // columns, 1, PARTITIONS).select("id", *made[1:])
            frame.write.parquet(f"file:{folder}/source{columns}")

    def ways(self) -> dict[str, Callable[[Case, str], object]]:
        return {
            OFF: lambda case, path: self._write(case, path),
            AGAIN: lambda case, path: self._write(case, path),
            "on": lambda case, path: self._write(case, path, is_digested=True),
            "observe": lambda case, path: self._write(case, path, change=_observed),
            "read back": self._write_and_read,
        }

    def cpu(self, case: Case, way: Callable[[Case, str], object]) -> Used:
        self.count += 1
        path = f"file:{self.folder}/out{self.count}"
        Package(self.spark, "java.lang").System.gc()
        before = _cpu_seconds(self.pid)
        way(case, path)
        used = Used(_cpu_seconds(self.pid) - before, self._in_tasks())
        shutil.rmtree(self.folder / f"out{self.count}")
        return used

    def _in_tasks(self) -> float:
        """CPU seconds of the tasks of all Spark stages since the last call."""
        context = self.spark.sparkContext
        context._jsc.sc().listenerBus().waitUntilEmpty()
        none = context._gateway.new_array(context._jvm.double, 0)
        stages = (
            context._jsc.sc()
            .statusStore()
            .stageList(None, False, False, none, Package(self.spark, "java.util").ArrayList())
        )
        used, last = 0.0, self.stage
        for at in range(stages.size()):  # The newest first.
            one = stages.apply(at)
            if one.stageId() <= last:
                break
            self.stage = max(self.stage, one.stageId())
            used += one.executorCpuTime() / 1e9
        return used

    def held(self, case: Case, change: Callable[[DataFrame], DataFrame] = lambda frame: frame) -> layout.PlannedQuery:
        session = group_session(self.spark, {})
        frame = change(session.read.parquet(f"file:{self.folder}/source{case.columns}").where("id >= 0"))
        if case.has_exchange:
            return layout.hold(frame, session, layout.Layout(("id",), PARTITIONS))
        return layout.hold(frame, session, layout.choose(frame, (), PARTITIONS))

    def _write(
        self,
        case: Case,
        path: str,
        *,
        is_digested: bool = False,
        change: Callable[[DataFrame], DataFrame] = lambda frame: frame,
    ) -> layout.PlannedQuery:
        held = self.held(case, change)
        wanted = Partitions.first(held.partitions)
        results.write(held, path, wanted, "measured", is_first=True, is_digested=is_digested)
        return held

    def _write_and_read(self, case: Case, path: str) -> None:
        held = self._write(case, path)
        listing = ours(self.spark).Bridge.list(self.spark._jsparkSession, path)
        commits = manifest.from_listing(listing)
        assert all(one.digest for one in digests.read_back(held.session, path, commits, held.schema))

    def asked_by_auto(self) -> int:
        """For how many of the determinate steps that are measured here `auto` asks for a digest."""

        def spec(case: Case) -> GroupSpec:
            def build(session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
                return session.read.parquet(f"file:{self.folder}/source{case.columns}").where("id >= 0")

            return GroupSpec(
                step=case.name, build=build, inputs=(), keys=("id",), partitions=PARTITIONS, digest=DigestPolicy.AUTO
            )

        found = analyse(self.spark, {case.name: spec(case) for case in self.cases})
        return sum(group.is_digested for group in found.groups.values())


def _observed(frame: DataFrame) -> DataFrame:
    hashes = [F.sum(F.xxhash64(F.lit(seed), *frame.columns).cast("decimal(20)")) for seed in (1, SEED)]
    return frame.observe("digest", F.count("*").alias("n"), *[one.alias(f"h{at}") for at, one in enumerate(hashes)])


def _session(folder: Path) -> SparkSession:
    spark = local_spark(
        {
            "spark.driver.memory": "2g",
            "spark.local.dir": str(folder),
            "spark.sql.files.minPartitionNum": str(PARTITIONS),
        }
    )
    attach(spark)
    return spark


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(bench: Bench, case: Case, rounds: int) -> dict[str, tuple[Estimate, Estimate]]:
    """For each way the ratio of the JVM's CPU, and of that of the tasks."""
    ways = bench.ways()
    used: dict[str, list[Used]] = {name: [] for name in ways}
    names = list(ways)
    for number in range(-WARM_UP, rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            one = bench.cpu(case, ways[name])
            if number >= 0:
                used[name].append(one)
    found = {
        name: (_ratio(used, name, lambda one: one.jvm), _ratio(used, name, lambda one: one.tasks))
        for name in names
        if name != OFF
    }
    seconds = statistics.median(one.jvm for one in used[OFF])
    print(f"{case.name}: {case.rows:,} rows, {seconds:.2f} s of CPU off", flush=True)
    for name, (whole, tasks) in found.items():
        print(f"  {name:10} JVM {whole}  tasks {tasks}", flush=True)
    return found


def _ratio(used: Mapping[str, list[Used]], name: str, of: Callable[[Used], float]) -> Estimate:
    """To both writes without a digest; the second of them to the first."""
    off, again = ([of(one) for one in used[way]] for way in (OFF, AGAIN))
    base = off if name == AGAIN else [(one + other) / 2 for one, other in zip(off, again, strict=True)]
    return estimate([of(one) / other for one, other in zip(used[name], base, strict=True)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-digest")
    parser.add_argument("--rounds", type=int, default=10, help="interleaved rounds that count")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of ten columns; a tenth of a hundred")
    parser.add_argument("--only", help="one case: narrow10, shuffle10, narrow100, shuffle100")
    asked = parser.parse_args()
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="bench-digest-"))
    try:
        bench = Bench(folder, asked.rows)
        asked_for = bench.asked_by_auto()
        cases = [case for case in bench.cases if asked.only in (None, case.name)]
        found = {case.name: measure(bench, case, asked.rounds) for case in cases}
        bench.spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    told = " ".join(
        f"{name}_{way.replace(' ', '_')}={whole.median:.3f} {name}_{way.replace(' ', '_')}_tasks={tasks.median:.3f}"
        for name, ways in found.items()
        for way, (whole, tasks) in ways.items()
    )
    worst = max(ways["on"][0].median for ways in found.values())
    in_tasks = max(ways["on"][1].median for ways in found.values())
    minutes = (time.monotonic() - started) / 60
    print(
        f"RESULT bench-digest {told} worst_on={worst:.3f} worst_on_tasks={in_tasks:.3f} aim={AIM} gate={GATE} "
        f"auto_asks_of_determinate={asked_for} rounds={asked.rounds} minutes={minutes:.1f}"
    )
    return 0 if worst <= GATE and asked_for == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
