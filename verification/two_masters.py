"""`make two-masters`: two processes fight for one run, again and again, on a disk, a real S3 server, a real HDFS and an
emulator of Azure.

In each round the one that holds the run meets one fate: kill -9; SIGSTOP for longer than its heartbeat
allows, then SIGCONT; a forced takeover; or sleep while the other one takes over, retires the run and
deletes its journal (gc). In a third of the rounds the storage answers late or never. After each round the
journal is compared with what the processes wrote down as acknowledged: each acknowledged fact once, at its
number; each number one writer; the loser said that it was fenced and ended with its code.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TypeVar

from fighter import DONE, FENCED, Arena, fight
from rekindle.journal.history import History, folder_of, read
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store
from support.azurite import Azurite
from support.facts import CODEC, RUN, Fact, Noted
from support.hadoop import HadoopCluster
from support.s3 import S3Server

SERVERS: dict[str, type[S3Server] | type[HadoopCluster] | type[Azurite]] = {
    "s3": S3Server,
    "hdfs": HadoopCluster,
    "azure": Azurite,
}
T = TypeVar("T")
FORK = multiprocessing.get_context("fork")
FATES = ("kill", "stop", "force", "gc")


class Violation(Exception):
    """Two masters were not kept apart."""


class OutOfTime(Exception):
    """Nothing wrong was seen, but the machine or the storage was too slow to see the round through."""


class Ring:
    """The processes of one round. A new challenger steps in where the first one has lost before its time."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.folder = Path(arena.folder)
        self.fighters: dict[str, BaseProcess] = {}
        for name in ("a", "b"):
            self.start(name)

    def start(self, name: str) -> None:
        self.fighters[name] = FORK.Process(target=fight, args=(name, self.arena))
        self.fighters[name].start()

    def end(self) -> None:
        for process in self.fighters.values():
            if process.is_alive():
                process.kill()
            process.join()

    def holder(self, acks: int) -> str | None:
        """Who opened the newest epoch, once it has so many acknowledgements."""
        newest = max(self.fighters, key=lambda name: _epoch(self.folder, name))
        return newest if _epoch(self.folder, newest) and _acks(self.folder, newest) >= acks else None

    def challenger(self, holder: str) -> str:
        """Who waits for the run. One that held it already, and was too slow to keep it, is replaced."""
        other = "b" if holder == "a" else "a"
        if _epoch(self.folder, other) == 0:
            return other
        self.start("c")
        return "c"


def play(arena: Arena, fate: str) -> str:
    """One round; returns the fate it had. Raises `Violation`."""
    ring = Ring(arena)
    try:
        _round(ring, fate)
    finally:
        ring.end()
    return fate


def _round(ring: Ring, fate: str) -> None:
    arena, folder = ring.arena, ring.folder
    wanted = random.Random(arena.seed).randrange(1, 20)
    holder = _wait(lambda: ring.holder(wanted), arena, "a holder")
    other = ring.challenger(holder)
    if fate == "gc":
        (folder / "gc").touch()
    _strike(fate, ring.fighters[holder], folder)
    _wait(lambda: _acks(folder, other) >= 3, arena, f"{other} to take over after {fate}")
    (folder / f"enough-{other}").touch()
    _end(ring.fighters[other], DONE, f"the winner after {fate}", arena, other)
    before = apart(_names, arena)
    if fate != "kill":
        _signal(ring.fighters[holder], signal.SIGCONT)
        _end(ring.fighters[holder], FENCED, f"the loser after {fate}", arena, holder)
        if "fenced RK200" not in _witness(folder, holder):
            raise Violation(f"{fate}: the loser did not say that it was fenced")
    after = apart(_names, arena)
    if after[-1:] != before[-1:] or (fate != "gc" and after != before):
        raise Violation(f"{fate}: a record appeared after the winner had ended")
    if found := apart(_judged, arena, fate, tuple(ring.fighters)):
        raise Violation(found)


def apart(function: Callable[..., T], *arguments: object) -> T:
    """Call in a child: the client of an object store does not survive the forks that follow."""
    receiver, sender = FORK.Pipe(duplex=False)
    child = FORK.Process(target=lambda: sender.send(function(*arguments)))
    child.start()
    sender.close()
    try:
        answer: T = receiver.recv()
    except EOFError:
        raise OutOfTime(f"{function.__name__} got no answer of the storage") from None
    finally:
        child.join()
    return answer


def _strike(fate: str, holder: BaseProcess, folder: Path) -> None:
    match fate:
        case "kill":
            _signal(holder, signal.SIGKILL)
            holder.join()
        case "stop" | "gc":
            _signal(holder, signal.SIGSTOP)
        case "force":
            (folder / "force").touch()


def _signal(process: BaseProcess, number: signal.Signals) -> None:
    """Only to a child that was not reaped yet, so that its number cannot be another's."""
    if process.is_alive() and process.pid is not None:
        os.kill(process.pid, number)


def _end(process: BaseProcess, code: int, what: str, arena: Arena, name: str) -> None:
    process.join(arena.patience_seconds)
    if process.exitcode is None and not arena.is_broken:
        raise OutOfTime(f"{what} did not end in time")
    if process.exitcode != code:
        tail = _witness(Path(arena.folder), name)[-600:]
        raise Violation(f"{what} ended with {process.exitcode}, not with {code}:\n{tail}")


def _judged(arena: Arena, fate: str, names: tuple[str, ...]) -> str:
    """What is wrong, or nothing."""
    try:
        _judge(arena, fate, names)
    except Violation as violation:
        return str(violation)
    return ""


def _judge(arena: Arena, fate: str, names: tuple[str, ...]) -> None:
    """Compare the journal with the witnesses."""
    folder = Path(arena.folder)
    store: Store = open_store(arena.url, arena.options)
    history = read(store, RUN, CODEC)
    lines = [line.split() for name in names for line in _witness(folder, name).splitlines()]
    acknowledged = [(int(line[1]), line[2]) for line in lines if line[0] == "ack"]
    tried = {line[1] for line in lines if line[0] == "try"}
    if fate == "gc":
        if not history.position.is_closed:
            raise Violation("gc: the run is not closed")
        return
    stored = _numbered(history)
    if len({text for _, text in stored}) != len(stored):
        raise Violation(f"{fate}: a fact stands twice in the journal")
    if lost := set(acknowledged) - set(stored):
        raise Violation(f"{fate}: acknowledged but not in the journal: {sorted(lost)}")
    if len({number for number, _ in acknowledged}) != len(acknowledged):
        raise Violation(f"{fate}: one number was acknowledged twice")
    if foreign := {text for _, text in stored} - tried:
        raise Violation(f"{fate}: never tried but in the journal: {sorted(foreign)}")
    writers = {record.epoch: record.writer for record in history.records}
    if any(record.writer != writers[record.epoch] for record in history.records):
        raise Violation(f"{fate}: two writers in one epoch")


def _numbered(history: History[Fact]) -> list[tuple[int, str]]:
    return [
        (record.sequence, event.text)
        for record in history.records
        for event in record.events
        if isinstance(event, Noted)
    ]


def _names(arena: Arena) -> list[str]:
    return open_store(arena.url, arena.options).list_after(folder_of(RUN))


def _witness(folder: Path, name: str) -> str:
    path = folder / f"{name}.witness"
    return path.read_text() if path.exists() else ""


def _acks(folder: Path, name: str) -> int:
    return _witness(folder, name).count("\nack ")


def _epoch(folder: Path, name: str) -> int:
    """The epoch a process opened, 0 where it never did."""
    found = [line for line in _witness(folder, name).splitlines() if line.startswith("opened ")]
    return int(found[-1].split()[1]) if found else 0


def _wait(find: Callable[[], T | None], arena: Arena, what: str) -> T:
    deadline = time.monotonic() + arena.patience_seconds
    while time.monotonic() < deadline:
        found = find()
        if found:
            return found
        time.sleep(0.005)
    raise OutOfTime(f"waited too long for {what}")


def lane(rounds: range, url: str, options: Mapping[str, str], stale_seconds: float, report: str) -> None:
    """Play every nth round in a process of its own; the report has one line for each."""
    with Path(report).open("a", buffering=1) as lines:
        for seed in rounds:
            try:
                lines.write(f"ok {_in_time(seed, url, options, stale_seconds)}\n")
            except Exception as error:
                lines.write(f"violation seed={seed} {error!r}\n".replace("\\n", "\n    "))


def _in_time(seed: int, url: str, options: Mapping[str, str], stale_seconds: float) -> str:
    """One round; one that ran out of time is played again, with more patience. The last time counts as it is."""
    is_slow = seed % 3 == 2
    for number, patience_seconds in enumerate((60.0, 120.0, 240.0)):
        with tempfile.TemporaryDirectory(prefix="rekindle-fight-") as folder:
            place = f"{url}/{seed}-{number}" if url else f"{folder}/store"
            arena = Arena(place, options, folder, stale_seconds, seed, is_slow, patience_seconds=patience_seconds)
            try:
                return play(arena, FATES[seed % len(FATES)]) + ("-slow" if is_slow else "")
            except OutOfTime:
                continue
    raise Violation("out of time again and again: it does not end")


def campaign(rounds: int, lanes: int, url: str, options: Mapping[str, str], stale_seconds: float) -> Counter[str]:
    """All rounds on one store, several at a time. Counts fates and violations."""
    with tempfile.TemporaryDirectory(prefix="rekindle-fights-") as folder:
        reports = [f"{folder}/{number}" for number in range(lanes)]
        processes = [
            FORK.Process(target=lane, args=(range(n, rounds, lanes), url, options, stale_seconds, reports[n]))
            for n in range(lanes)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        text = "".join(Path(report).read_text() for report in reports)
    for line in text.splitlines():
        if not line.startswith("ok"):
            print(line)
    return Counter(line.split()[0] if line[0] == "v" else line[3:] for line in text.splitlines() if line[0] in "ov")


def show(label: str, counts: Counter[str], rounds: int, seconds: float) -> bool:
    done = sum(count for fate, count in counts.items() if fate != "violation")
    fates = " ".join(f"{fate}={count}" for fate, count in sorted(counts.items()))
    print(f"{label:5} {done}/{rounds} rounds without violation in {seconds:.0f} s: {fates}")
    return done == rounds


CONTROL_ROUNDS_MAX = 60


def control() -> bool:
    """With the condition switched off the same harness must see the damage, otherwise it proves nothing."""
    for seed in range(CONTROL_ROUNDS_MAX):
        with tempfile.TemporaryDirectory(prefix="rekindle-fight-") as folder:
            arena = Arena(f"{folder}/store", {}, folder, 0.4, seed, False, is_broken=True, patience_seconds=8.0)
            with contextlib.suppress(OutOfTime):
                try:
                    play(arena, FATES[seed % len(FATES)])
                except Violation:
                    print(f"control: without conditions round {seed + 1} was violated")
                    return True
    print(f"control: none of {CONTROL_ROUNDS_MAX} rounds without conditions was violated")
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000, help="on each store")
    parser.add_argument("--lanes", type=int, default=7)
    parser.add_argument("--only", choices=("disk", *SERVERS))
    parser.add_argument(
        "--without-control", action="store_true", help="the control depends on timing, and may take long"
    )
    given = parser.parse_args()
    results = {}
    if given.only in (None, "disk"):
        started = time.monotonic()
        counts = campaign(given.rounds, given.lanes, "", {}, 0.4)
        results["disk"] = show("disk", counts, given.rounds, time.monotonic() - started)
        if not given.without_control:
            results["control_found"] = control()
    for name in (one for one in SERVERS if given.only in (None, one)):
        with SERVERS[name]() as server:
            started = time.monotonic()
            counts = campaign(given.rounds, given.lanes, server.url("fights"), server.store_settings, 2.5)
            results[name] = show(name, counts, given.rounds, time.monotonic() - started)
    passed = " ".join(f"{store}={ok}" for store, ok in results.items())
    bound = 3 / given.rounds
    print(f"RESULT two-masters {passed} rounds={given.rounds} violation_probability_max_95={bound:.4f}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
