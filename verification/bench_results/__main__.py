"""`make bench-stream-results`: what a result between two streaming regions costs.

CPU seconds of the driver's process and of all below it, for each batch from its file to its last commit. Drivers live
side by side, and are given a batch in turns that rotate; `fused` is there twice, as the control. The broker's own CPU
is not counted.

- The path: rows through one step to a target, in one query (fused), in two with a result between them (caching, or
  memory), in two with a topic between them (kafka).
- Recovery: the same, where the last query calls Python, and fails once in a batch. What a failure costs is such a batch
  less one without. Then the bytes that each kind keeps of a batch, by its entries, or by the files of the broker.
- The producer: the step into its result, against the same rows into Spark's own sink for files.
- The source: a batch of a result that has 100, 20,000 and 100,000 batches, against Spark's source for files over as
  many files (but the last).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from bench_batch.figures import Estimate, estimate
from bench_results.log_driver import FILES, GENERATION, RESULT, STEP
from bench_results.path_driver import (
    CACHING,
    FIRST,
    FRAGILE,
    FUSED,
    KAFKA,
    LAST,
    MADE,
    MEMORY,
    SPARKS,
    TOPIC,
)
from build_jar import JAR
from parts import kafka_jars
from rekindle.publish.stream_entries import entry_of
from support.cpu import cpu_s_below
from support.drivers import Driver, start_driver
from support.kafka import KafkaBroker
from support.signals import when

AGAIN, PATH = "fused again", "path"
KINDS = (FUSED, CACHING, MEMORY, TOPIC, KAFKA)
# A stream runs for months: what the JVM compiles in its first batches is not what it costs. Large ones are warm sooner.
ROWS, REST_S, WARM_UP, WARM_UP_LARGE = 20_000, 0.3, 15, 3
LARGE = 1_000_000
FEW, MANY, MOST = 100, 20_000, 100_000
PATH_FUSED_MAX, PATH_KAFKA_MAX, PRODUCER_MAX = 1.7, 0.7, 0.8
SOURCE_FEW_MAX, SOURCE_MANY_MAX, GROWTH_MAX = 1.05, 0.5, 1.1
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.jars": ",".join(map(str, [JAR, *sorted(kafka_jars().iterdir())])),
    "spark.sql.shuffle.partitions": "2",
}
Costs = dict[str, list[tuple[float, float]]]


class BenchDriver:
    """One driver in its folder."""

    def __init__(self, script: str, folder: Path, *words: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._driver: Driver = start_driver(
            Path(__file__).with_name(script),
            str(folder),
            *words,
            folder=folder / "driver",
            settings=SETTINGS,
            env={"PYSPARK_PYTHON": sys.executable},
        )

    def measured(self, begin: Callable[[], object], is_over: Callable[[], bool]) -> tuple[float, float]:
        """CPU seconds and seconds."""
        cpu_s, began = cpu_s_below(self._driver.process.pid), time.monotonic()
        begin()
        when(lambda: is_over() or not self._driver.is_alive(), 300.0, every_s=0.005, sign=self._driver.printed)
        took_s = time.monotonic() - began
        if not self._driver.is_alive():
            raise RuntimeError(f"the driver ended:\n{self._driver.text()[-3000:]}")
        return cpu_s_below(self._driver.process.pid) - cpu_s, took_s

    def end(self) -> None:
        (self.folder / "halt").touch()
        self._driver.end()


class PathSide:
    """Rows through a step to a target."""

    def __init__(self, folder: Path, how: str, broker: KafkaBroker, rows: int, plan: str = "") -> None:
        self._folder, self._how, self._rows, self._files = folder, how, rows, 0
        for name in ("in", "fail"):
            (folder / name).mkdir(parents=True)
        self._topic = f"bench-{rows}-{how}{plan}"
        self._broker = broker
        if how in (KAFKA, TOPIC):
            broker.make_topic(self._topic, 2)
        self._driver = BenchDriver("path_driver.py", folder, how, broker.address, self._topic, plan)

    def failing(self) -> tuple[float, float]:
        """A batch whose last query fails once."""
        (self._folder / "fail" / str(self._files)).touch()
        return self.batch()

    def batch_bytes(self) -> float:
        """What is kept of a batch between the queries."""
        if self._how in (KAFKA, TOPIC):
            return sum(one.stat().st_size for one in self._broker.folder.rglob(f"{self._topic}-*/*.log")) / self._files
        entries = self._folder.glob(f"state/bench/_streams/*/results/{FIRST}/entries/{FIRST}/*/*")
        sizes = [entry_of(one.read_bytes(), one.name).bytes for one in entries]
        return statistics.median(sizes) if sizes else 0

    def batch(self) -> tuple[float, float]:
        number, self._files = self._files, self._files + 1
        made = self._folder / f".{number}"
        first = number * self._rows
        made.write_text(
            "".join(
                f'{{"id":{one},"text":"row {one} of many","amount":{one}.5}}\n'
                for one in range(first, first + self._rows)
            )
        )
        name = f"{number:06d}.json"
        return self._driver.measured(lambda: made.rename(self._folder / "in" / name), lambda: self._is_over(number))

    def _is_over(self, number: int) -> bool:
        """Of a topic, a batch of the reader may be a part of one of the writer."""
        if self._how == KAFKA:
            return self._read_rows() >= (number + 1) * self._rows
        end = FIRST if self._how in (MADE, SPARKS) else LAST
        below = "checkpoints" if self._how == SPARKS else "state/bench/_streams/*/checkpoints"
        return any(self._folder.glob(f"{below}/{end}/commits/{number}"))

    def _read_rows(self) -> int:
        """How many records of the topic the reader has committed, by its checkpoint."""
        for checkpoint in self._folder.glob(f"state/bench/_streams/*/checkpoints/{LAST}"):
            committed = [int(one.name) for one in (checkpoint / "commits").glob("*") if one.name.isdigit()]
            if committed:
                lines = (checkpoint / "offsets" / str(max(committed))).read_text().splitlines()
                return sum(sum(ends.values()) for ends in _json(lines[-1]).values())
        return 0

    def end(self) -> None:
        self._driver.end()


class LogSide:
    """A source with so many batches behind it."""

    def __init__(self, folder: Path, how: str, count: int) -> None:
        self._folder, self._number = folder, count
        self._data, self._entries = folder / "data", folder / "entries" / STEP / GENERATION
        self._data.mkdir(parents=True)
        self._entries.mkdir(parents=True)
        small, self._large = folder / "small.parquet", folder / "large.parquet"
        for path, rows in ((small, 1), (self._large, ROWS)):
            ids = list(range(rows))
            texts, amounts = [f"row {one} of many" for one in ids], [one + 0.5 for one in ids]
            pq.write_table(pa.table({"id": ids, "text": texts, "amount": amounts}), path)
        self._how = how
        for number in range(count):
            # Of many batches of a result only the newest have a file: its reader has to read the others once, too.
            self._add(number, small, is_empty=how == RESULT and count > MANY and number < count - FEW)
        self._driver = BenchDriver("log_driver.py", folder, how)
        self._driver.measured(lambda: None, lambda: self._commits() >= 0)
        self._batches = self._commits() + 1

    def _add(self, number: int, file: Path, *, is_empty: bool = False) -> None:
        name = f"{number:08d}.parquet"
        if not is_empty:
            made = self._folder / f".{name}"
            os.link(file, made)
            made.rename(self._data / name)
        if self._how == RESULT:
            head = "epoch\t1\noffsets\t0\ndirectory\tdata\n"
            entry = self._folder / f".{number}"
            entry.write_text(head + ("" if is_empty else f"{name}\t{file.stat().st_size}\n"))
            entry.rename(self._entries / str(number))

    def _commits(self) -> int:
        names = (one.name for one in (self._folder / "checkpoint" / "commits").glob("*"))
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def batch(self) -> tuple[float, float]:
        number, self._number = self._number, self._number + 1
        batch, self._batches = self._batches, self._batches + 1

        def begin() -> None:
            self._add(number, self._large)
            new = self._folder / ".new"
            new.write_text(str(number))
            new.rename(self._folder / "new")

        return self._driver.measured(begin, lambda: (self._folder / "checkpoint" / "commits" / str(batch)).exists())

    def end(self) -> None:
        self._driver.end()


def _json(line: str) -> dict[str, dict[str, int]]:
    return dict(msgspec.json.decode(line, type=dict[str, dict[str, int]]))


Sides = Mapping[str, Callable[[], PathSide | LogSide]]


def measure(sides: Sides, rounds: int, warm_up: int) -> Costs:
    """The sides live as long as this takes."""
    living = {name: start() for name, start in sides.items()}
    found: Costs = {name: [] for name in sides}
    try:
        for number in range(-warm_up, rounds):
            names = list(sides)
            turn = number % len(names)
            for name in (*names[turn:], *names[:turn]):
                cost = living[name].batch()
                if number >= 0:
                    found[name].append(cost)
                time.sleep(REST_S)
    finally:
        for one in living.values():
            one.end()
    return found


def measure_recovery(sides: Mapping[str, Callable[[], PathSide]], rounds: int) -> tuple[Costs, dict[str, float]]:
    """What a failure costs more than the batch before it; and the bytes of a batch."""
    living = {name: start() for name, start in sides.items()}
    found: Costs = {name: [] for name in sides}
    try:
        for number in range(-WARM_UP_LARGE, rounds):
            names = list(sides)
            turn = number % len(names)
            for name in (*names[turn:], *names[:turn]):
                (cpu_s, took_s), (more_cpu_s, more_s) = living[name].batch(), living[name].failing()
                if number >= 0:
                    found[name].append((more_cpu_s - cpu_s, more_s - took_s))
                time.sleep(REST_S)
        return found, {name: one.batch_bytes() for name, one in living.items()}
    finally:
        for one in living.values():
            one.end()


def ratio(found: Costs, one: str, other: str) -> Estimate:
    return estimate([a / b for (a, _), (b, _) in zip(found[one], found[other], strict=True)])


def told(what: str, found: Costs) -> Iterator[str]:
    for name, costs in found.items():
        cpu_s, took_s = (statistics.median(one[at] for one in costs) for at in (0, 1))
        yield f"{what}, {name}: CPU {cpu_s:.3f} s, {took_s:.3f} s"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-stream-results")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--large", type=int, default=3, help="rounds with 1,000,000 rows a batch")
    parser.add_argument("--recoveries", type=int, default=8, help="rounds in which each last query fails once")
    parser.add_argument("--only", choices=[PATH], help="leave out the producer and the source by themselves")
    asked = parser.parse_args()
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="stream-bench-"))

    def paths(rows: int, *asked: tuple[str, str]) -> Sides:
        return {name: partial(PathSide, folder / f"{rows}-{name}", how, broker, rows) for name, how in asked}

    def logs(*asked: tuple[str, int]) -> Sides:
        return {f"{how} {count}": partial(LogSide, folder / f"{how}-{count}", how, count) for how, count in asked}

    every = [*((one, one) for one in KINDS), (AGAIN, FUSED)]

    def measured(what: str, sides: Sides, rounds: int, warm_up: int = WARM_UP) -> Costs:
        found = measure(sides, rounds, warm_up)
        for line in told(what, found):
            print(line, flush=True)
        return found

    is_all = asked.only != PATH
    with KafkaBroker() as broker:
        path = measured("20,000 rows", paths(ROWS, *every), asked.rounds)
        recovery: Costs = {}
        kept: dict[str, float] = {}
        if asked.recoveries:
            fragile = {how: partial(PathSide, folder / f"fragile-{how}", how, broker, ROWS, FRAGILE) for how in KINDS}
            recovery, kept = measure_recovery(fragile, asked.recoveries)
            for line in (
                *told("recovery", recovery),
                *(f"a batch, {name}: {size:,.0f} bytes" for name, size in kept.items()),
            ):
                print(line, flush=True)
        large: Costs = {}
        if asked.large:
            large = measured("1,000,000 rows", paths(LARGE, *every), asked.large, WARM_UP_LARGE)
        producer = measured("producer", paths(ROWS, (MADE, MADE), (SPARKS, SPARKS)), asked.rounds) if is_all else {}
        sides = logs((RESULT, FEW), (FILES, FEW), (RESULT, MANY), (FILES, MANY), (RESULT, MOST))
        source = measured("source", sides, asked.rounds) if is_all else {}
    shutil.rmtree(folder, ignore_errors=True)
    figures = {
        "path_fused": (ratio(path, CACHING, FUSED), PATH_FUSED_MAX),
        "path_kafka": (ratio(path, CACHING, KAFKA), PATH_KAFKA_MAX),
    }
    if is_all:
        figures |= {
            "producer": (ratio(producer, MADE, SPARKS), PRODUCER_MAX),
            "source_100": (ratio(source, f"{RESULT} {FEW}", f"{FILES} {FEW}"), SOURCE_FEW_MAX),
            "source_20000": (ratio(source, f"{RESULT} {MANY}", f"{FILES} {MANY}"), SOURCE_MANY_MAX),
            "growth": (ratio(source, f"{RESULT} {MOST}", f"{RESULT} {FEW}"), GROWTH_MAX),
        }
    beside = {
        "control": ratio(path, AGAIN, FUSED),
        "memory_fused": ratio(path, MEMORY, FUSED),
        "memory_kafka": ratio(path, MEMORY, KAFKA),
        "topic_fused": ratio(path, TOPIC, FUSED),
        "topic_kafka": ratio(path, TOPIC, KAFKA),
    }
    beside |= {f"recovery_s_{name}": estimate([took_s for _, took_s in costs]) for name, costs in recovery.items()}
    beside |= {f"recovery_cpu_{name}": estimate([cpu_s for cpu_s, _ in costs]) for name, costs in recovery.items()}
    if large:
        beside |= {"large_fused": ratio(large, CACHING, FUSED), "large_kafka": ratio(large, CACHING, KAFKA)}
        beside["large_memory_fused"] = ratio(large, MEMORY, FUSED)
    for name, one in (*((name, found) for name, (found, _) in figures.items()), *beside.items()):
        print(f"{name}: {one}")
    missed = [name for name, (one, limit) in figures.items() if one.median > limit]
    values = {name: one for name, (one, _) in figures.items()} | beside
    line = " ".join(f"{name}={one.median:.3f}" for name, one in values.items())
    print(
        f"RESULT bench-stream-results rounds={asked.rounds} {line} missed={','.join(missed) or 'none'} "
        f"minutes={(time.monotonic() - began) / 60:.1f}"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
