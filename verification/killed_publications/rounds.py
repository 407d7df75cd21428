"""Rounds of one mode at one place: a publisher dies, readers look, the next master of its run publishes, readers look.

Every fourth run's publisher is not killed but frozen (SIGSTOP), and woken when a next master has published, or when a
later run has; half of those die one step after they woke up. A sweep over all steps says where a publisher dies. The
first of the next masters is killed, too, at a drawn step.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from killed_publications.crew import Publisher, killed_with_jvm, start
from killed_publications.modes import (
    KEYS,
    MODES,
    NEVER,
    ROUNDS_OF_TARGET,
    Assignment,
    Mode,
    Rows,
    Seen,
    Truth,
    commit,
)
from killed_publications.readers import ERROR, OTHER, Library, Reader, Watch, broken_promises, kind_of

FROZEN_EVERY, SLOW_EVERY = 4, 5
# How often a step is tried again that a publication did not come to.
TRIES_MAX = 3
KILLED_AWAKE_EVERY = 2
DONE = "SinkDone"
NAMED_MAX = 5


@dataclass(slots=True)
class Figures:
    """What came of the rounds."""

    kills: int = 0
    jvm_kills: int = 0
    zombies: int = 0
    killed_awake: int = 0
    stale: int = 0
    steps: set[str] = field(default_factory=set)
    longest: int = 0
    after: Counter[str] = field(default_factory=Counter)
    unpromised: Counter[str] = field(default_factory=Counter)
    watched: dict[str, Counter[str]] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Sweep:
    """The step at which the next publisher dies. Publications have more steps and fewer (the first one of a target, and
    where a country has no rows): a step to which one did not come is tried again, and then left out. `sweeps` is how
    often somebody died at all of them."""

    at: int = 0
    tries: int = 0
    sweeps: int = 0
    reached: set[int] = field(default_factory=set)

    def go_on(self, longest: int, *, is_reached: bool) -> None:
        if is_reached:
            self.reached.add(self.at)
        self.tries = 0 if is_reached else self.tries + 1
        if is_reached or self.tries == TRIES_MAX:
            self.sweeps += self.at + 1 >= longest
            self.at, self.tries = (self.at + 1 if self.at + 1 < longest else 0), 0


@dataclass(slots=True)
class Rounds:
    """One mode at one place."""

    library: Library
    mode: str
    folder: Path
    gateway: tuple[int, str]
    spark: dict[str, str]
    planted: str = ""
    chance: random.Random = field(default_factory=lambda: random.Random(19))
    figures: Figures = field(default_factory=Figures)
    number: int = 0
    path: str = ""
    kills: Sweep = field(default_factory=Sweep)
    freezes: Sweep = field(default_factory=Sweep)
    truth: Truth = field(init=False)
    sleeping: list[Publisher] = field(default_factory=list)
    told: Assignment = field(init=False)

    def __post_init__(self) -> None:
        self.truth = Truth(self.kind.adds)

    @property
    def kind(self) -> Mode:
        return MODES[self.mode]

    @property
    def _dead(self) -> int:
        return self.figures.kills + self.figures.zombies

    def play(self, deaths: int) -> None:
        """Until so many publishers were killed or frozen, and some at every step; at most twice as many."""
        try:
            while self._dead < deaths or (not self.kills.sweeps and self._dead < 2 * deaths):
                self._begin()
                readers = self.library.quick(self.mode)
                with Watch(readers, self.path, self.truth.old, self.truth.new) as watch:
                    self._round(is_frozen=self.number % FROZEN_EVERY == 0)
                self._watched(readers, watch)
            self._wake(self.sleeping)
        finally:
            for one in self.sleeping:
                one.end()

    def play_with_jvm(self, kills: int) -> None:
        """Publishers that die with their JVM, at any moment of their publication."""
        lasts_s, tries = 0.0, 0
        while self.figures.jvm_kills < kills and tries < 3 * kills + 1:
            self._begin()
            after_s = self.chance.uniform(0, lasts_s) if lasts_s else float(NEVER)
            was_killed, took_s = killed_with_jvm(self._own_jvm(), self.folder / "drivers", after_s)
            lasts_s, tries = lasts_s or took_s, tries + 1
            self.figures.jvm_kills += was_killed
            self._judge("after a kill of Python and its JVM", self.truth.old, is_first=was_killed)
            self._finish()

    def _own_jvm(self) -> Assignment:
        return msgspec.structs.replace(self.told, gateway=None, spark=self.spark)

    def _begin(self) -> None:
        """The next run: its committed files, and the target with what it holds."""
        if self.kind.is_once or self.number % ROUNDS_OF_TARGET == 0:
            self._wake(self.sleeping)
            self.truth = Truth(self.kind.adds)
            self.path = f"{self.library.place.root}/{self.mode}/{self.number}"
        self.number += 1
        key = f"night-{self.chance.randrange(KEYS)}"
        place = self.library.place
        files, rows = commit(place.open(place.root), place.root, self.mode, key, self.number)
        self.truth.begin(key, rows)
        self.told = Assignment(
            mode=self.mode,
            path=self.path,
            key=key,
            order=self.number,
            epoch=1,
            files=files,
            storage=place.settings,
            spark={},
            notes=str(self.folder / f"notes-{place.name}-{self.mode}-{self.number}-1"),
            gateway=self.gateway,
            planted=self.planted,
        )

    def _round(self, *, is_frozen: bool) -> None:
        first = self._frozen() if is_frozen else self._killed()
        self._next_master()
        self._died(self._started(self.chance.randrange(self.figures.longest), signal.SIGKILL))
        waiting, self.sleeping = self.sleeping, []
        self._finish()
        if first.is_frozen:
            self.figures.zombies += 1
            is_held = not self.kind.is_once and self.chance.randrange(2) == 0
            (self.sleeping if is_held else waiting).append(first)
        self._wake(waiting)

    def _frozen(self) -> Publisher:
        then = 1 if self.chance.randrange(KILLED_AWAKE_EVERY) == 0 else NEVER
        publisher = self._died(self._started(self.freezes.at, signal.SIGSTOP, then))
        self.freezes.go_on(self.figures.longest, is_reached=publisher.is_frozen)
        return publisher

    def _killed(self) -> Publisher:
        publisher = self._died(self._started(self.kills.at, signal.SIGKILL))
        self.kills.go_on(self.figures.longest, is_reached=publisher.was_killed)
        return publisher

    def _died(self, publisher: Publisher) -> Publisher:
        is_dead = publisher.was_killed or publisher.is_frozen
        self._judge(f"after {publisher.steps[-1]}", self.truth.old, is_first=is_dead)
        return publisher

    def _started(self, at: int, number: signal.Signals, then: int = NEVER) -> Publisher:
        """A publisher of the run that is told, until it is dead, frozen or done."""
        publisher = start(msgspec.structs.replace(self.told, at=at, number=number, then=then))
        publisher.wait()
        self.figures.kills += publisher.was_killed
        self.figures.steps.update(publisher.steps[-1:])
        self.figures.longest = max(self.figures.longest, len(publisher.steps))
        return publisher

    def _next_master(self) -> None:
        epoch = self.told.epoch + 1
        notes = f"{self.told.notes.rpartition('-')[0]}-{epoch}"
        self.told = msgspec.structs.replace(self.told, epoch=epoch, notes=notes)

    def _finish(self) -> None:
        """The next master of the run publishes: everybody sees the new rows, once."""
        self._next_master()
        last = self._started(NEVER, signal.SIGKILL)
        if not last.answer.startswith(DONE):
            self._tell(f"the next master of run {self.told.order} got {last.answer}")
        self._judge(f"after the next master of run {self.told.order}", self.truth.new, is_first=False)

    def _wake(self, publishers: Iterable[Publisher]) -> None:
        """Nothing goes back when a publisher wakes up that slept through its successors. One that dies as soon as it is
        awake may leave `current`, or a table, at an older version, whole; the next publication puts that right."""
        for publisher in list(publishers):
            last = publisher.steps[-1]
            publisher.wake()
            if publisher.was_killed:
                self.figures.killed_awake += 1
                self.figures.stale += self._has_stale()
                self._finish()
            else:
                self.figures.answers[publisher.answer.partition("(")[0]] += 1
                self._judge(f"after a publisher woke up at {last}", self.truth.new, is_first=False)
        self.sleeping = [one for one in self.sleeping if one.is_frozen]

    def _has_stale(self) -> bool:
        """Whether a reader of what follows the chain sees an older version. Others see the newest, or nothing whole of
        it where they are promised nothing."""
        found = False
        for reader in self.library.quick(self.mode):
            kind, shown = self._seen(reader, self.truth.new)
            if kind in (OTHER, ERROR) and reader.is_promised:
                if kind == ERROR or not reader.follows or reader.read(self.path) not in self.truth.versions:
                    self._tell(f"{reader.name} in round {self.number} after a publisher woke up and died: {shown}")
                found = True
        return found

    def _judge(self, when: str, old: Seen, *, is_first: bool) -> None:
        """Everybody reads. `is_first` after a death, where what is seen is counted."""
        is_end = old == self.truth.new
        readers = self.library.quick(self.mode)
        if self.number % SLOW_EVERY == 0:
            readers += self.library.slow(self.mode)
        for place, reader in enumerate(readers):
            found, shown = self._seen(reader, old)
            if is_first and place == 0:
                self.figures.after[found] += 1
            if is_first and not reader.is_promised:
                self.figures.unpromised[found] += 1
            if found in (OTHER, ERROR) and (reader.is_promised or is_end):
                self._tell(f"{reader.name} in round {self.number} {when}: {shown}")

    def _seen(self, reader: Reader, old: Seen) -> tuple[str, str]:
        try:
            seen = reader.read(self.path)
        except Exception as error:
            return ERROR, f"{type(error).__name__}: {str(error)[:300]}"
        return kind_of(seen, old, self.truth.new), _shown(seen, old, self.truth.new)

    def _watched(self, readers: list[Reader], watch: Watch) -> None:
        for name, counts in watch.seen.items():
            self.figures.watched.setdefault(name, Counter()).update(counts)
        self.figures.errors.update(watch.errors)
        found = broken_promises(readers, watch.seen)
        if found:
            self._tell(f"readers in a loop saw {found} wrong answers in round {self.number}: {dict(watch.seen)}")

    def _tell(self, line: str) -> None:
        self.figures.wrong.append(line)
        if len(self.figures.wrong) <= NAMED_MAX:
            print(f"WRONG {self.library.place.name} {self.mode}: {line}", flush=True)


def _shown(seen: Seen, old: Seen, new: Rows) -> str:
    if seen is None:
        return "nothing"
    before = old or Rows()
    return (
        f"{seen.total()} rows ({before.total()} before, {new.total()} after): {(seen & before).total()} of the "
        f"old ones, {(seen & new).total()} of the new ones, {(seen - before - new).total()} of neither"
    )
