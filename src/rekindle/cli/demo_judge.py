"""What really happened in the demo: by the run's journal and by rows, never by what a command printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.cli.catalog import newest_of
from rekindle.journal.history import Record, read
from rekindle.master.facts.events import Event, PartitionsCommitted
from rekindle.master.state.run_state import RunState
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.observe.plan_times import StepRate, paces
from rekindle.runtime.opening import codec, peek
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store

Sets = dict[str, Partitions]


class RunReader:
    """Reads the newest run of one pipeline."""

    def __init__(self, location: Path, pipeline: str) -> None:
        self._store: Store = open_store(str(location))
        self._pipeline = pipeline

    def state(self) -> RunState | None:
        """What its journal says now; None while there is no run."""
        named = newest_of(self._store, self._pipeline)
        return None if named is None else peek(self._store, self._pipeline, named.run)

    def records(self) -> tuple[Record[Event], ...]:
        """All of its journal."""
        named = newest_of(self._store, self._pipeline)
        assert named is not None, "it was started"
        return read(self._store, named.folder, codec()).records

    def committed(self, step: str) -> int:
        """How many result partitions of a step count now; 0 while there is no run."""
        state = self.state()
        return 0 if state is None or step not in state.steps else len(state.steps[step].committed)

    def work(self) -> RunWork:
        """What the first driver and the later ones made count."""
        state, records = self.state(), self.records()
        assert state is not None, "a run that was read has begun"
        first, last = min(one.epoch for one in records), max(one.epoch for one in records)
        total = sum(state.layout.graph.steps[name].partitions for name in state.steps)
        before = paces(event for one in records if one.epoch < last for event in one.events)
        return RunWork(total, last - first + 1, _computed(records, first), _computed(records, last), before)


@dataclass(frozen=True, slots=True)
class RunWork:
    """Result partitions of a run, how many drivers it had, and what its first and its last one computed. `before` is
    how fast the steps were before the last one."""

    total: int
    drivers: int
    first: Sets
    last: Sets
    before: Mapping[str, StepRate] = field(default_factory=dict)

    @property
    def computed_last(self) -> int:
        return sum(map(len, self.last.values()))

    @property
    def reused(self) -> int:
        return self.total - self.computed_last

    @property
    def saved_ms(self) -> int:
        """What the partitions that the first driver made cost it, by the journal's times."""
        return sum(self.before[step].of(len(made)) for step, made in self.first.items() if step in self.before)

    @property
    def twice(self) -> int:
        """What both drivers computed although the first had it recorded."""
        return sum(len(self.first[step] & self.last[step]) for step in self.first.keys() & self.last.keys())


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows as multisets."""

    plain: Counter[str]
    published: Counter[str]

    @property
    def rows(self) -> int:
        return self.plain.total()

    @property
    def is_equal(self) -> bool:
        return self.rows > 0 and self.plain == self.published

    @property
    def different(self) -> int:
        return ((self.plain - self.published) + (self.published - self.plain)).total()


def compare(folder: Path) -> Comparison:
    """What the judge's script wrote down."""
    plain, published = ((folder / name).read_text().splitlines() for name in ("plain.jsonl", "published.jsonl"))
    return Comparison(Counter(plain), Counter(published))


def _computed(records: tuple[Record[Event], ...], epoch: int) -> Sets:
    found: Sets = {}
    for event in (event for record in records if record.epoch == epoch for event in record.events):
        if isinstance(event, PartitionsCommitted) and not event.is_adopted:
            found[event.attempt.step] = found.get(event.attempt.step, EMPTY) | event.partitions
    return found
