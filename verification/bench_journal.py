"""`make bench-journal`: P10. A new driver opens a run with 1,000,000 committed partitions in 10 steps, 10,000 records.

The journal is made by the real master: each record is a decision about a report of 100 partitions, finished in random
order, with file names, lengths and digests as the Spark engine reports them. Opened cold in memory of this process,
warm in the page cache. Times are medians; detection of the dead master is printed apart, with the takeover.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from rekindle.journal.history import read
from rekindle.journal.lease import LivenessState, sign_of_life
from rekindle.journal.owner import Owner
from rekindle.journal.takeover import take_over
from rekindle.master.decide import decide
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import MasterConfig
from rekindle.master.facts.events import Event
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.machine import BATCH
from rekindle.master.state.apply import fold
from rekindle.master.state.run_state import RunState
from rekindle.model.ids import AttemptId
from rekindle.model.partitions import Partitions
from rekindle.results.manifest import Commit, pack
from rekindle.runtime.opening import codec, state_of
from rekindle.runtime.snapshots import StateKeeper
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store
from rekindle.testing.drawing import draw
from support.s3 import S3Server

RUN = "bench/run-1"
TARGET_SECONDS = 1.0
DIGEST_BYTES = 8
SCHEMA = '{"type":"struct","fields":[{"name":"customer_id","type":"long","nullable":true,"metadata":{}}]}'


def dead_owner() -> Owner:
    """A process of this host that has just ended."""
    code = "import msgspec; from rekindle.journal.owner import this_process as me; "
    code += "print(msgspec.json.encode(me()).decode())"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment)
    return msgspec.json.decode(done.stdout, type=Owner)


def build(steps: int, partitions: int, batch: int) -> tuple[MemoryStore, RunState]:
    """A run in which every partition of every step is committed, batch by batch, and whose driver then died."""
    rng = random.Random(1)
    store = MemoryStore()
    graph = draw(" =blocking=> ".join(f"s{n}[{partitions}]@run_end" for n in range(steps)))
    start = st.StartRun(
        run="run-1",
        pipeline="bench",
        order=1,
        spec=RunSpec(graph=GraphSpec.of(graph), sinks=()),
        config=MasterConfig(),
        run_time_ms=0,
        seed=1,
        application="app-1",
        owner="me",
    )
    journal, history = take_over(store, RUN, codec(), lambda history, epoch: decide(None, start, 0), owner=dead_owner())
    state = state_of(history)
    assert state is not None
    keeper = StateKeeper(BATCH, store, RUN)
    for n in range(steps):
        (attempt,) = (one.attempt for one in state.attempts_of(f"s{n}"))
        numbers = rng.sample(range(partitions), partitions)
        for first in range(0, partitions, batch):
            stimulus = _report(attempt, numbers[first : first + batch], rng)
            state = _append(journal.append, state, stimulus)
            keeper.remember(journal.position, state)
        if n < steps - 1:
            state = _append(journal.append, state, st.AttemptEnded(attempt=attempt))
    return store, state


def _report(attempt: AttemptId, numbers: list[int], rng: random.Random) -> st.CommitsSeen:
    commits = [
        Commit(
            partition=n, task=n + 7, name=f"part-{n + 7}_{n:05d}.c000.zstd.parquet", bytes=rng.randrange(10**6, 10**8)
        )
        for n in numbers
    ]
    digests = rng.randbytes(DIGEST_BYTES * len(numbers))
    return st.CommitsSeen(
        attempt=attempt, partitions=Partitions(numbers), manifest=pack(commits, SCHEMA), digests=digests
    )


def _append(append: Callable[..., object], state: RunState, stimulus: st.Stimulus) -> RunState:
    events: tuple[Event, ...] = decide(state, stimulus, 0)
    append(*events)
    after = fold(state, events)
    assert after is not None
    return after


def copy(source: MemoryStore, target: Store) -> None:
    """The same objects in another store."""
    if isinstance(target, LocalDisk):
        for key, (body, _) in source.objects.items():
            path = target.root / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        return
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda item: target.put(item[0], item[1][0]), source.objects.items()))


def open_whole(store: Store) -> RunState | None:
    return state_of(read(store, RUN, codec()))


def open_snapshot(store: Store) -> RunState | None:
    after, base = StateKeeper(BATCH, store, RUN).load()
    return state_of(read(store, RUN, codec(), after), base)


def timed(act: Callable[[], object], times: int) -> tuple[float, float]:
    """Median wall and CPU seconds."""
    walls, cpus = [], []
    for _ in range(times):
        wall, cpu = time.perf_counter(), time.process_time()
        act()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return statistics.median(walls), statistics.median(cpus)


def measure(label: str, store: Store, expected: RunState, times: int) -> float:
    """Print the times of one store; the wall seconds of opening it without a snapshot."""
    assert open_whole(store) == expected == open_snapshot(store)
    position = read(store, RUN, codec()).position
    assert sign_of_life(store, RUN, position).life is LivenessState.DEAD
    whole, whole_cpu = timed(lambda: open_whole(store), times)
    short, short_cpu = timed(lambda: open_snapshot(store), times)
    seen, _ = timed(lambda: sign_of_life(store, RUN, position), times)
    print(f"{label:4} whole journal {whole:.3f} s (cpu {whole_cpu:.3f}), from its snapshot {short:.3f} s ", end="")
    print(f"(cpu {short_cpu:.3f}), dead master seen in {seen:.4f} s")
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    source, expected = build(given.steps, given.partitions, given.batch)
    committed = sum(len(step.committed) for step in expected.steps.values())
    bodies = [body for key, (body, _) in source.objects.items() if "/journal/" in key]
    size = sum(map(len, bodies))
    print(f"{committed} committed partitions, {len(bodies)} records, {size} bytes")
    with tempfile.TemporaryDirectory(prefix="rekindle-bench-") as folder:
        disk: Store = open_store(folder)
        copy(source, disk)
        seconds = measure("disk", disk, expected, given.times)
        listed = sum(1 for _ in Path(folder).rglob("*") if _.is_file())
    with S3Server() as server:
        far = open_store(server.url("bench"), server.store_settings)
        copy(source, far)
        far_seconds = measure("s3", far, expected, 3)
    print(
        f"RESULT bench-journal partitions={committed} records={len(bodies)} bytes={size} objects={listed} "
        f"disk_open_s={seconds:.3f} s3_open_s={far_seconds:.3f} target_s={TARGET_SECONDS}"
    )
    return 0 if seconds < TARGET_SECONDS else 1


if __name__ == "__main__":
    raise SystemExit(main())
