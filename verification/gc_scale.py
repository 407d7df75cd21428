"""`make gc-scale`: gc on a location with 10,000 runs and 1,000,000 files, and on a real S3 server at a smaller size.

Of a hundred runs 94 succeeded, and a task that came late left files; four failed lately and can be resumed; two failed
long ago and are due. A tenth of all files lies in one directory. gc runs as a process of its own, first dry; its time
and its peak memory are printed, beside those of a tenth of the runs and files. What is left afterwards is counted:
exactly what the runs that can be resumed need.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from rekindle.journal.history import read, start_of
from rekindle.journal.journal import Journal
from rekindle.journal.lease import Lease
from rekindle.journal.owner import this_process
from rekindle.master.facts.events import Event, RunStarted
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.machine import BATCH
from rekindle.master.state.run_state import RunState
from rekindle.runtime.opening import RunIntent, codec, execute
from rekindle.runtime.pins import RunPin
from rekindle.runtime.snapshots import StateKeeper
from rekindle.storage.memory import MemoryStore
from rekindle.storage.stores import open_store
from rekindle.testing.drawing import draw
from support.filing import Filing, data_name
from support.location import AT_ONCE, always
from support.s3 import S3Server

PEAK_MB_MAX = 200.0
GROWTH_MAX = 1.5
DAY = 86_400.0
LATELY, LONG_AGO = 2 * DAY, 30 * DAY
DEEP_SHARE = 0.1
# Of each hundred runs.
DUE = (3, 53)
RESUMABLE = (5, 25, 55, 75)
AT_ONCE_FLAGS = ("--set", "gc.grace_hours=0", "--set", "gc.retention_hours=0")
REKINDLE = (sys.executable, "-c", "from rekindle.cli.main import main; main()")


class Item(NamedTuple):
    """One object to be made. Results are empty: gc looks at names and times."""

    key: str
    body: bytes
    age: float
    is_needed: bool = False


class Took(NamedTuple):
    """A process: its seconds, those of the CPU, and its peak memory."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


class Measured(NamedTuple):
    """A location: both processes, and whether exactly what is needed was left."""

    dry: Took
    real: Took
    is_exact: bool

    @property
    def peak_mb(self) -> float:
        return max(self.dry.peak_mb, self.real.peak_mb)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--s3-runs", type=int, default=50)
    parser.add_argument("--s3-files", type=int, default=5_000)
    arguments = parser.parse_args()
    small = on_disk(arguments.runs // 10, arguments.files // 10)
    large = on_disk(arguments.runs, arguments.files)
    s3 = on_s3(arguments.s3_runs, arguments.s3_files)
    growth = large.peak_mb / small.peak_mb
    is_exact = small.is_exact and large.is_exact and s3.is_exact
    figures = {
        "runs": arguments.runs,
        "files": arguments.files,
        "dry_s": f"{large.dry.seconds:.1f}",
        "dry_cpu_s": f"{large.dry.cpu_seconds:.1f}",
        "gc_s": f"{large.real.seconds:.1f}",
        "gc_cpu_s": f"{large.real.cpu_seconds:.1f}",
        "peak_mb": f"{large.peak_mb:.0f}",
        "peak_mb_at_a_tenth": f"{small.peak_mb:.0f}",
        "growth": f"{growth:.2f}",
        "exact": is_exact,
        "s3_runs": arguments.s3_runs,
        "s3_files": arguments.s3_files,
        "s3_dry_s": f"{s3.dry.seconds:.1f}",
        "s3_gc_s": f"{s3.real.seconds:.1f}",
        "s3_peak_mb": f"{s3.peak_mb:.0f}",
    }
    print("RESULT gc_scale", *(f"{name}={value}" for name, value in figures.items()))
    return 0 if is_exact and large.peak_mb <= PEAK_MB_MAX and growth <= GROWTH_MAX else 1


def location(runs: int, files: int) -> Iterator[Item]:
    """Everything that lies there."""
    each = max(12, round(files * (1 - DEEP_SHARE) / runs))
    for number in range(1, runs + 1):
        run = f"20261101T000000Z-{number:08x}"
        folder, kind = f"daily/{run}", number % 100
        age = LONG_AGO if kind in DUE else LATELY
        yield Item(f"daily/_runs/{number:08d}", run.encode(), age)
        if kind in (*DUE, *RESUMABLE):
            yield from _failed(folder, run, number, each // 4, age)
        else:
            late = round(files * DEEP_SHARE) if number == 1 else each
            yield from _succeeded(folder, run, number, late, age)


def _failed(folder: str, run: str, number: int, partitions: int, age: float) -> Iterator[Item]:
    """What the last try at a partition left is waste; the rest is needed if it can be resumed."""
    drawing = f"orders[{partitions}] =blocking=> clean[{partitions}] =blocking all=> daily[3]"
    for key, body in _run(folder, run, number, _template(drawing, breaks=True)):
        counts = key.startswith((f"{folder}/results/orders/", f"{folder}/results/clean/g0/e1-a2/"))
        yield Item(key, body, age, counts and age == LATELY)


def _succeeded(folder: str, run: str, number: int, late: int, age: float) -> Iterator[Item]:
    for key, body in _run(folder, run, number, _template("orders[3] =blocking=> daily[3]", breaks=False)):
        yield Item(key, body, age)
    for file in range(late):
        yield Item(f"{folder}/results/orders/g0/e1-a1/{data_name(file, 99)}", b"", age)


class Template(NamedTuple):
    """A run of the real loop: the events of each record, what they fold to, and the names of its result files."""

    records: tuple[tuple[Event, ...], ...]
    state: RunState
    files: tuple[str, ...]


@cache
def _template(drawing: str, *, breaks: bool) -> Template:
    store, graph = MemoryStore(), draw(drawing)
    engine = Filing(store, "daily/it", breaks=always("clean", 2)) if breaks else Filing(store, "daily/it")
    state = execute(
        store,
        RunIntent(
            pipeline="daily",
            run="it",
            spec=RunSpec(graph=GraphSpec.of(graph), sinks=(list(graph.steps)[-1],)),
            order=1,
            config=AT_ONCE,
        ),
        engine,
    )
    files = tuple(key.removeprefix("daily/it/") for key in store.objects if key.startswith("daily/it/results/"))
    return Template(tuple(record.events for record in read(store, "daily/it", codec()).records), state, files)


def _run(folder: str, run: str, number: int, like: Template) -> Iterator[tuple[str, bytes]]:
    """The same run under another name, without the threads of a driver: thousands are made."""
    store = MemoryStore()
    journal = Journal(store, folder, codec(), start_of(folder))
    started, *others = like.records[0]
    assert isinstance(started, RunStarted)
    journal.open_epoch(this_process(), [msgspec.structs.replace(started, run=run, order=number), *others])
    for events in like.records[1:]:
        journal.append(*events)
    Lease(journal).stop()
    state = msgspec.structs.replace(like.state, run=run, order=number)
    StateKeeper(BATCH, store, folder).remember_end(journal.position, state)
    yield from ((key, body) for key, (body, _) in store.objects.items())
    yield from ((f"{folder}/{name}", b"") for name in like.files)


def on_disk(runs: int, files: int) -> Measured:
    with tempfile.TemporaryDirectory(prefix="rekindle-gc-") as folder:
        started, now = time.monotonic(), time.time()
        made = needed = 0
        for item in location(runs, files):
            _write(Path(folder), item, now)
            made, needed = made + ("/results/" in item.key), needed + item.is_needed
        print(f"disk: {runs} runs, {made} files made in {time.monotonic() - started:.0f} s", flush=True)
        dry = measured({}, "--location", folder, "--dry-run")
        untouched = _left(folder)
        real = measured({}, "--location", folder)
        left = _left(folder)
        print(f"disk: dry {dry}, gc {real}, left {left} of {made}, needed {needed}", flush=True)
        return Measured(dry, real, untouched == made and left == needed)


def _write(root: Path, item: Item, now: float) -> None:
    parent, _, name = item.key.rpartition("/")
    file = os.open(f"{_folder(root, parent)}/{name}", os.O_WRONLY | os.O_CREAT)
    os.write(file, item.body)
    os.utime(file, (now - item.age, now - item.age))
    os.close(file)


@lru_cache(64)
def _folder(root: Path, parent: str) -> str:
    """Made, and remembered while files of it are written."""
    (root / parent).mkdir(parents=True, exist_ok=True)
    return str(root / parent)


def on_s3(runs: int, files: int) -> Measured:
    """An object store sets times itself: everything is of now, and what must stay is pinned."""
    with S3Server() as server, ThreadPoolExecutor(16) as pool:
        store = open_store(server.url("gc"), server.store_settings)
        items = list(location(runs, files))
        pinned = {item.key.split("/")[1] for item in items if item.is_needed}
        pin = msgspec.json.encode(RunPin("gc-scale", 0))
        objects = [(item.key, item.body) for item in items] + [(f"daily/_pins/{run}", pin) for run in pinned]
        list(pool.map(lambda one: store.put(*one), objects))
        made, needed = sum("/results/" in item.key for item in items), sum(item.is_needed for item in items)
        options = ("--location", server.url("gc"), *AT_ONCE_FLAGS)
        settings = {f"REKINDLE_STORAGE_{name.upper()}": value for name, value in server.store_settings.items()}

        def left() -> int:
            return sum("/results/" in entry.name for page in store.walk("daily/") for entry in page)

        dry = measured(settings, *options, "--dry-run")
        untouched = left()
        real = measured(settings, *options)
        print(f"s3: dry {dry}, gc {real}, left {left()} of {made}, needed {needed}", flush=True)
        return Measured(dry, real, untouched == made and left() == needed)


def measured(environment: dict[str, str], *words: str) -> Took:
    """One `rekindle gc`. Its last lines are printed."""
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        to = [(os.POSIX_SPAWN_DUP2, said.fileno(), 1)]
        arguments = [*REKINDLE, "gc", *words]
        pid = os.posix_spawn(sys.executable, arguments, os.environ | environment, file_actions=to)
        _, status, usage = os.wait4(pid, 0)
        seconds = time.monotonic() - started
        said.seek(0)
        print(*said.read().splitlines()[-2:], sep="\n", flush=True)
    if status:
        raise SystemExit(f"gc ended with status {status}")
    cpu_seconds = usage.ru_utime + usage.ru_stime
    return Took(round(seconds, 2), round(cpu_seconds, 2), round(usage.ru_maxrss / 1024, 1))


def _left(folder: str) -> int:
    return sum(len(names) for path, _, names in os.walk(folder) if "/results/" in path)


if __name__ == "__main__":
    raise SystemExit(main())
