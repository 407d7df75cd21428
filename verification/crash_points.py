"""`make crash-points`: kill -9 before and after every system call of the append path, each one once.

A child lives the life of a master on local disk: it claims the key, opens the run, beats, appends, saves a
snapshot, closes. It kills itself at one step, notes each acknowledgement before that, and is reopened by
the next master. Then every acknowledged record must be there, at most the one in flight besides, nothing
else may count, and the next master must be able to take over at once and append. A disk that
acknowledges too early must be found.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from rekindle.errors import JournalRefused, RunClosed
from rekindle.journal.history import folder_of, read
from rekindle.journal.journal import Journal
from rekindle.journal.keys import claim, find_claim
from rekindle.journal.lease import Lease
from rekindle.journal.snapshot import Snapshots
from rekindle.journal.takeover import take_over
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.store import Put, Store
from support.facts import CODEC, RUN, Closed, Fact, Noted, open_run, opening, texts

FORK = multiprocessing.get_context("fork")
RECORDS_AFTER = 2
NEVER = 10**9


def life(store: Store, note: Callable[[str], None]) -> None:
    """Everything a master writes, once."""
    note("try key")
    claim(store, "daily", {"day": "1"}, "run-1")
    note("ack key")
    journal = _open(store, note)
    lease = Lease(journal)
    lease.beat()
    for text in ("a", "b"):
        _append(journal, text, note)
    _snapshots(store).save(journal.position, ["a", "b"])
    lease.beat()
    journal = _open(store, note, force=True)
    _append(journal, "c", note)
    note("try tombstone")
    journal.append(Noted("tombstone"), Closed())
    note("ack tombstone")


def _open(store: Store, note: Callable[[str], None], force: bool = False) -> Journal[Fact]:
    note("try epoch")
    journal, _ = take_over(store, RUN, CODEC, opening, force=force)
    note(f"ack epoch {journal.epoch}")
    return journal


def _append(journal: Journal[Fact], text: str, note: Callable[[str], None]) -> None:
    note(f"try {text}")
    journal.append(Noted(text))
    note(f"ack {text}")


def _snapshots(store: Store) -> Snapshots[list[str]]:
    return Snapshots(store, RUN, "crash", msgspec.json.encode, lambda data: msgspec.json.decode(data, type=list[str]))


class Steps:
    """Counts steps and ends the process at one of them, as kill -9 does."""

    def __init__(self, kill_at: int) -> None:
        self.kill_at = kill_at
        self.seen: list[str] = []

    def __call__(self, name: str) -> None:
        if len(self.seen) == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen.append(name)


def live_and_die(folder: str, kill_at: int, disk: type[LocalDisk]) -> None:
    """The child: its notes are written through, so that they survive it."""
    with (Path(folder) / "notes").open("ab", buffering=0) as notes:
        life(disk(f"{folder}/store", Steps(kill_at)), lambda line: _write(notes.fileno(), line))


def _write(descriptor: int, line: str) -> None:
    os.write(descriptor, line.encode() + b"\n")


class Hasty(LocalDisk):
    """Planted: acknowledges a record before it is linked; the next write links it."""

    later: tuple[Path, Path] | None = None

    def _link(self, temporary: Path, path: Path) -> Put:
        if self.later is not None:
            super()._link(*self.later)
        copy = temporary.with_name(temporary.name + "-later")
        copy.write_bytes(temporary.read_bytes())
        self.later = (copy, path)
        return Put.CREATED


def points(disk: type[LocalDisk] = LocalDisk) -> list[str]:
    """All steps of a whole life."""
    steps = Steps(NEVER)
    with tempfile.TemporaryDirectory(prefix="rekindle-crash-") as folder:
        life(disk(folder, steps), lambda line: None)
    return steps.seen


def violations(kill_at: int, disk: type[LocalDisk] = LocalDisk) -> list[str]:
    """Kill a child at one step, reopen what it left, and say what is wrong with it."""
    with tempfile.TemporaryDirectory(prefix="rekindle-crash-") as folder:
        child = FORK.Process(target=live_and_die, args=(folder, kill_at, disk))
        child.start()
        child.join()
        if child.exitcode != -signal.SIGKILL:
            return [f"the child ended with {child.exitcode}"]
        notes = (Path(folder) / "notes").read_text().splitlines() if (Path(folder) / "notes").exists() else []
        return _reopen(LocalDisk(f"{folder}/store"), notes)


def _reopen(store: LocalDisk, notes: list[str]) -> list[str]:
    acknowledged = [line[4:] for line in notes if line.startswith("ack ")]
    in_flight = notes[-1][4:] if notes and notes[-1].startswith("try ") else ""
    wrong = []
    if "key" in acknowledged and find_claim(store, "daily", {"day": "1"}) is None:
        wrong.append("the key was acknowledged and is gone")
    history = read(store, RUN, CODEC)
    words = [word for word in acknowledged if word != "key" and not word.startswith("epoch")]
    stored = texts(history)
    if stored not in (words, [*words, in_flight]):
        wrong.append(f"acknowledged {words}, in flight {in_flight or 'nothing'}, found {stored}")
    epochs = sum(word.startswith("epoch") for word in acknowledged)
    if history.position.epoch not in (epochs, epochs + (in_flight == "epoch")):
        wrong.append(f"{epochs} epochs were acknowledged, found {history.position.epoch}")
    loaded = _snapshots(store).load()
    if loaded is not None and loaded[1] != stored[: len(loaded[1])]:
        wrong.append(f"the snapshot says {loaded[1]}, the journal {stored}")
    return wrong + _go_on(store, stored, history.position.is_closed)


def _go_on(store: LocalDisk, stored: list[str], is_closed: bool) -> list[str]:
    """The next master: the dead one is seen dead at once, so that it needs no force."""
    try:
        journal, _ = open_run(store, force=False)
    except RunClosed:
        return [] if is_closed else ["refused as closed, but it is not"]
    except JournalRefused as error:
        return [error.message]
    for number in range(RECORDS_AFTER):
        journal.append(Noted(f"after {number}"))
    found = texts(read(store, RUN, CODEC))
    wrong = [] if found == [*stored, "after 0", "after 1"] else [f"the next master's journal is {found}"]
    left = [p.name for p in (store.root / folder_of(RUN)).iterdir() if p.name.startswith(".")]
    if len(left) > 1:
        wrong.append(f"one writer died and left {left}")
    return wrong


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    found = points()
    bad = 0
    for number, name in enumerate(found):
        for wrong in violations(number):
            bad += 1
            print(f"step {number} ({name}): {wrong}")
    kinds = sorted(set(found))
    print(f"{len(found)} points of {len(kinds)} kinds: {', '.join(kinds)}")
    control = sum(bool(violations(number, Hasty)) for number in range(0, len(points(Hasty)), 5))
    print(f"control: a disk that acknowledges too early was found at {control} points")
    print(f"RESULT crash-points points={len(found)} kinds={len(kinds)} violations={bad} control_found={control > 0}")
    return 1 if bad or not control else 0


if __name__ == "__main__":
    raise SystemExit(main())
