"""Is what the master of a stream has made again the least that is right? Ask a brute force over small graphs.

    python -m verification stream_oracle            every 7th case
    python -m verification stream_oracle --every 1  all of them

A case is a graph of results and readers, what is known of the rows of each result, which of its two batches are gone,
where each reader is, and whose failure is reported first. The brute force knows only this: a reader goes on when what
it needs is there; a batch is made from the same batch of each result that its region reads; some batches cannot be made
again, some come out otherwise, and these may not count where somebody has read the first ones. Of all sets of batches
that let a reader go on it takes the smallest. A real engine is stood in for by one that makes what it is told.

Checked: exactly those batches are made again, each once, where all who failed go on; else none that nobody needs. Those
give up who need what cannot be, and nobody else. Of the regions only those restart that failed, and those that read a
result whose rows may differ, while that is made again. Nobody starts before what it said it needs is there.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import chain, combinations, product

from rekindle.failover.backoff import FixedDelay
from rekindle.master.facts.config import BackoffSpec
from rekindle.model.failures import Cause, FailureKind
from rekindle.model.machine import WakeAt
from rekindle.streams.replaced_rows import ReaderPlace, refused_replacement
from rekindle.streams.stream_commands import ReplayBatches, StartQuery, StopQuery
from rekindle.streams.stream_events import QueryEnd, QueryStarted, RegionsRestart
from rekindle.streams.stream_machine import STREAM
from rekindle.streams.stream_spec import Delivery, RegionSpec, StreamLimits, StreamSpec
from rekindle.streams.stream_state import StreamState
from rekindle.streams.stream_stimuli import OpenStream, QueryReport, ReplayReport, StreamStimulus, StreamTick

# Each region with the results that it reads; those that nobody reads are the readers.
GRAPHS: tuple[dict[str, str], ...] = (
    {"a": "", "x": "a", "y": "a"},
    {"a": "", "b": "a", "x": "b", "y": "a"},
    {"a": "", "b": "a", "x": "b", "y": "b"},
    {"a": "", "b": "a", "c": "a", "x": "b", "y": "c"},
    {"a": "", "b": "a", "x": "ab", "y": "b"},
    {"a": "", "b": "", "c": "ab", "x": "c", "y": "bc"},
)
BATCHES, EVERY, DELAY_MS, ROUNDS_MAX = 2, 7, 100, 200
GONE = Cause(FailureKind.EVICTED, "its batch is gone")
Batch = tuple[str, int]


class Rows(Enum):
    """What becomes of a batch of a result that is made again."""

    PROVED = "equal, and proved to be"
    EQUAL = "equal, and nobody knew"
    OTHER = "other rows"
    NEVER = "it keeps state"


@dataclass(frozen=True, slots=True)
class Case:
    """`places` are the batches that each reader has read; `first` fails before the other one."""

    graph: dict[str, str]
    rows: dict[str, Rows]
    gone: frozenset[Batch]
    places: dict[str, int]
    first: str

    @property
    def readers(self) -> list[str]:
        return [name for name in self.graph if not any(name in reads for reads in self.graph.values())]

    def read_by(self, region: str) -> list[str]:
        return [name for name, reads in self.graph.items() if region in reads]

    def needs(self, reader: str) -> set[Batch]:
        """Of what it reads directly, what is gone."""
        unread = range(self.places[reader], BATCHES)
        return {(one, batch) for one in self.graph[reader] for batch in unread} & self.gone

    def has_read(self, reader: str, batch: int) -> bool:
        """Regions that make results have read everything."""
        return self.places.get(reader, BATCHES) > batch


def cases() -> Iterator[Case]:
    for graph in GRAPHS:
        makers = [name for name in graph if any(name in reads for reads in graph.values())]
        batches = [(name, batch) for name in makers for batch in range(BATCHES)]
        every = chain.from_iterable(combinations(batches, size) for size in range(1, len(batches) + 1))
        for gone, rows, (x, y) in product(every, product(Rows, repeat=len(makers)), product(range(BATCHES), repeat=2)):
            for first in "xy":
                yield Case(graph, dict(zip(makers, rows, strict=True)), frozenset(gone), {"x": x, "y": y}, first)


def least(case: Case, reader: str) -> frozenset[Batch] | None:
    """The smallest set of batches to be made again so that a reader goes on, by trying all; None if there is none."""
    needed = case.needs(reader)
    lost = sorted(case.gone)
    for size in range(len(lost) + 1):
        found = [frozenset(one) for one in combinations(lost, size) if _is_enough(case, needed, set(one))]
        if found:
            assert len(found) == 1, "the smallest set is the only one of its size"
            return found[0]
    return None


def _is_enough(case: Case, needed: set[Batch], made: set[Batch]) -> bool:
    inputs = {(one, batch) for region, batch in made for one in case.graph[region]} & case.gone
    return needed | inputs <= made and all(_can_be(case, *one) for one in made)


def _can_be(case: Case, region: str, batch: int) -> bool:
    if case.rows[region] is Rows.NEVER:
        return False
    is_read = any(case.has_read(name, batch) for name in case.read_by(region))
    return case.rows[region] is not Rows.OTHER or not is_read


class Engine:
    """What the master tells it, done at once, in the order of the commands."""

    def __init__(self, case: Case) -> None:
        self.case, self.gone = case, set(case.gone)
        self.state: StreamState | None = None
        self.now_ms = 1_000
        self.made: Counter[Batch] = Counter()
        self.started: Counter[str] = Counter()
        self.running: dict[str, int] = {}
        self.sent: set[object] = set()
        self.pending: list[StreamStimulus | ReplayBatches] = []
        self.told: dict[str, set[Batch]] = {}
        self.wrong: list[str] = []

    def run(self) -> None:
        case = self.case
        limits = StreamLimits(backoff=BackoffSpec.of(FixedDelay(attempts_max=9, delay_ms=DELAY_MS)))
        spec = StreamSpec(regions=tuple(_spec(case, name) for name in case.graph))
        self._take(
            OpenStream(
                pipeline="p", run="r", spec=spec, limits=limits, run_time_ms=0, seed=0, application="app", owner="me"
            )
        )
        for name in sorted(case.readers, key=lambda one: one != case.first):
            self._reads(name)
        for _ in range(ROUNDS_MAX):
            if self.pending:
                first = self.pending.pop(0)
                self._take(self._replayed(first) if isinstance(first, ReplayBatches) else first)
            elif self._is_waiting():
                self.now_ms += DELAY_MS
                self._take(StreamTick())
            else:
                return
        self.wrong.append("it does not come to rest")

    @property
    def gave_up(self) -> set[str]:
        assert self.state is not None
        return {name for name, one in self.state.regions.items() if one.gave_up}

    def _is_waiting(self) -> bool:
        assert self.state is not None
        return any(isinstance(one, WakeAt) for one in STREAM.commands(self.state))

    def _reads(self, name: str) -> None:
        """It fails if it runs, and what it is to read is gone."""
        missing = self.case.needs(name) & self.gone
        if not missing or name not in self.running:
            return
        lost: dict[str, tuple[int, ...]] = {}
        for region, batch in sorted(missing):
            lost[region] = (*lost.get(region, ()), batch)
        self.told[name] = missing
        number = self.running.pop(name)
        self.pending.append(
            QueryReport(region=name, number=number, end=QueryEnd.FAILED, cause=GONE, signature="gone", lost=lost)
        )

    def _take(self, stimulus: StreamStimulus) -> None:
        events = STREAM.decide(self.state, stimulus, self.now_ms)
        if isinstance(stimulus, QueryReport) and not any(isinstance(one, RegionsRestart) for one in events):
            self.told.pop(stimulus.region, None)  # It was to start again anyway, and says so again.
        self.state = STREAM.fold(self.state, events)
        assert self.state is not None
        STREAM.invariants(self.state)
        for event in events:
            if isinstance(event, QueryStarted):
                self.started[event.region] += 1
        for command in STREAM.commands(self.state):
            if command.key not in self.sent:
                self.sent.add(command.key)
                self._obey(command)

    def _obey(self, command: object) -> None:
        match command:
            case StartQuery(region, number):
                self.running[region] = number
                if missing := self.told.pop(region, set()) & self.gone:
                    self.wrong.append(f"{region} starts, and {sorted(missing)} is gone")
                if self.started[region] > 1 and region in self.case.places:
                    self._reads(region)
            case StopQuery(region, number) if self.running.get(region) == number:
                del self.running[region]
                self.pending.append(QueryReport(region=region, number=number, end=QueryEnd.STOPPED))
            case ReplayBatches():
                self.pending.append(command)
            case _:
                pass

    def _replayed(self, command: ReplayBatches) -> ReplayReport:
        region, todo = command.region, [one for one in command.batches if (command.region, one) in self.gone]
        lost: dict[int, dict[str, tuple[int, ...]]] = {}
        for batch in todo:
            inputs: dict[str, tuple[int, ...]] = {
                one: (batch,) for one in self.case.graph[region] if (one, batch) in self.gone
            }
            lost |= {batch: inputs} if inputs else {}
        if lost:
            return ReplayReport(region=region, number=command.number, lost=lost)
        is_equal = self.case.rows[region] is not Rows.OTHER
        made: list[int] = []
        changed: list[int] = []
        for batch in command.batches:
            if batch in todo:
                places = {name: self._place(name, batch) for name in self.case.read_by(region)}
                why = refused_replacement(batch, region, places, is_equal=is_equal)
                if why:
                    return ReplayReport(
                        region=region, number=command.number, batches=tuple(made), why=why, unmade=(batch,)
                    )
                self.made[region, batch] += 1
                self.gone.discard((region, batch))
                changed += [] if is_equal else [batch]
            made.append(batch)
        return ReplayReport(region=region, number=command.number, batches=tuple(made), changed=tuple(changed))

    def _place(self, name: str, batch: int) -> ReaderPlace:
        if self.case.has_read(name, batch):
            return ReaderPlace.BEYOND
        return ReaderPlace.MAY_READ if name in self.running else ReaderPlace.BEFORE


def _spec(case: Case, name: str) -> RegionSpec:
    rows = case.rows.get(name)
    return RegionSpec(
        name=name,
        steps=(name,),
        sources=(),
        target=f"files {name}",
        delivery=Delivery.EXACTLY_ONCE,
        trigger="",
        output_mode="append",
        reads=tuple(case.graph[name]),
        result="memory" if rows else "",
        doubts=("rand()",) if rows in (Rows.EQUAL, Rows.OTHER) else (),
        unreplayable="it keeps state" if rows is Rows.NEVER else "",
    )


def check(case: Case) -> list[str]:
    """What the master did otherwise than the brute force says."""
    engine = Engine(case)
    engine.run()
    wrong = list(engine.wrong)
    failed = [name for name in case.readers if case.needs(name)]
    sets = {name: least(case, name) for name in failed}
    lost = {name for name, found in sets.items() if found is None}
    if engine.gave_up != lost:
        wrong.append(f"gave up: {sorted(engine.gave_up)}, and not {sorted(lost)}")
    right = set[Batch]().union(*(found for found in sets.values() if found))
    made = set(engine.made)
    if not right <= made or (not lost and made != right):
        wrong.append(f"made again: {sorted(made)}, and not {sorted(right)}")
    if not made <= _reached(case, failed):
        wrong.append(f"made again: {sorted(made)}, which nobody needs")
    if any(count > 1 for count in engine.made.values()):
        wrong.append(f"made twice: {dict(engine.made)}")
    unknown = [region for region, _ in case.gone if case.rows[region] in (Rows.EQUAL, Rows.OTHER)]
    waiting = {name for region in unknown for name in case.read_by(region)}
    restarted = {name for name, count in engine.started.items() if count > 1}
    if not set(failed) - lost <= restarted or not restarted <= set(failed) | waiting:
        wrong.append(f"restarted: {sorted(restarted)}")
    return wrong


def _reached(case: Case, failed: list[str]) -> set[Batch]:
    """All that somebody who failed needs, directly or not."""
    found = set[Batch]().union(*(case.needs(name) for name in failed))
    while more := {(one, batch) for region, batch in found for one in case.graph[region]} & case.gone - found:
        found |= more
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream-oracle")
    parser.add_argument("--every", type=int, default=EVERY)
    asked = parser.parse_args()
    count = failed = 0
    for number, case in enumerate(cases()):
        if number % asked.every:
            continue
        count += 1
        for wrong in check(case):
            failed += 1
            if failed <= 10:
                print(f"WRONG {case}: {wrong}")
    print(f"RESULT stream-oracle graphs={len(GRAPHS)} cases={count} wrong={failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
