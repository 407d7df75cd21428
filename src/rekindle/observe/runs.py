"""A run in one line, cheaply: for a list of a thousand of them.

- Only the few fields that count are decoded, and of most events nothing but their type, which stands in the frame.
- A line decides nothing. What cannot be read here is said in it, and `show` names the damage.
- Of finished runs the newest snapshot is enough, whichever code made it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from pyroaring import BitMap

# Types after which a run is in another phase; the newest one counts.
PHASES = {
    "RunStarted": "running",
    "RunFailing": "failing",
    "RunFailed": "failed",
    "RunSucceeded": "succeeded",
    "RunClosing": "closing",
    "RunClosed": "closed",
}
INTERRUPTED = "interrupted"
RESUMED = frozenset({"failing", "failed"})


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `kept` of `wanted` result partitions count now; `phase` is `interrupted` where its driver is gone;
    `left_out` partitions are missing on the user's word. `started_ms` is when it began, `ended_ms` when it succeeded;
    `published` of `sinks` are, with so many `rows` and `bytes` in all: None where a run has published nothing, or
    nobody told."""

    pipeline: str
    run: str
    number: int
    parameters: dict[str, str] | None
    phase: str
    kind: str = "batch"
    kept: int
    wanted: int
    changed_ms: int | None
    driver: str = ""
    steps: int = 0
    left_out: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    published: int = 0
    sinks: int = 0
    rows: int | None = None
    bytes: int | None = None


class _Step(msgspec.Struct, frozen=True):
    name: str
    partitions: int
    kind: str


class _Graph(msgspec.Struct, frozen=True):
    steps: tuple[_Step, ...]


class _Started(msgspec.Struct, frozen=True):
    at_ms: int
    drawn: _Graph = msgspec.field(name="graph")
    sinks: tuple[str, ...] = ()


class _Attempt(msgspec.Struct, frozen=True):
    step: str


class _Committed(msgspec.Struct, frozen=True):
    attempt: _Attempt
    partitions: bytes
    at_ms: int


class _Gone(msgspec.Struct, frozen=True):
    step: str
    partitions: bytes


class _Dropped(msgspec.Struct, frozen=True):
    step: str
    dropped: bytes


class _Timed(msgspec.Struct, frozen=True):
    at_ms: int | None = None


class _KeptStep(msgspec.Struct, frozen=True):
    committed: bytes
    holes: bytes = b""


class _Spec(msgspec.Struct, frozen=True):
    sinks: tuple[str, ...] = ()


class _Published(msgspec.Struct, frozen=True):
    sink: str


class _Size(msgspec.Struct, frozen=True):
    rows: int | None
    bytes: int


class _Folded(msgspec.Struct, frozen=True, kw_only=True):
    """What a snapshot's state says, as far as a line needs it."""

    layout: _Graph
    phase: str
    steps: dict[str, _KeptStep]
    spec: _Spec = _Spec()
    published: dict[str, msgspec.Raw] = {}
    run_time_ms: int = 0
    ended_ms: int = 0
    published_sizes: dict[str, _Size] = {}


_STARTED = msgspec.json.Decoder(_Started)
_COMMITTED = msgspec.json.Decoder(_Committed)
_GONE = msgspec.json.Decoder(_Gone)
_DROPPED = msgspec.json.Decoder(_Dropped)
_TIMED = msgspec.json.Decoder(_Timed)
_PUBLISHED = msgspec.json.Decoder(_Published)
_FOLDED = msgspec.msgpack.Decoder(_Folded)


class RunCounts:
    """Counts what is kept of one run, record by record."""

    def __init__(self) -> None:
        self.phase = ""
        self.changed_ms: int | None = None
        self.steps = 0
        self.wanted = 0
        self.started_ms: int | None = None
        self.ended_ms: int | None = None
        self.sinks = 0
        self.published: set[str] = set()
        self._sizes: dict[str, _Size] = {}
        self._kept: dict[str, Any] = {}
        self._holes: dict[str, Any] = {}

    @property
    def kept(self) -> int:
        return sum(map(len, self._kept.values()))

    @property
    def rows(self) -> int | None:
        """Of all that is published; a snapshot alone tells it."""
        told = [one.rows for one in self._sizes_published() if one.rows is not None]
        return sum(told) if told and len(told) == len(self.published) else None

    @property
    def size_bytes(self) -> int | None:
        told = [one.bytes for one in self._sizes_published() if one.bytes]
        return sum(told) if told and len(told) == len(self.published) else None

    def _sizes_published(self) -> list[_Size]:
        return [size for sink, size in self._sizes.items() if sink in self.published]

    @property
    def left_out(self) -> int:
        return sum(map(len, self._holes.values()))

    def begin(self, snapshot: bytes) -> None:
        """Go on from a snapshot's state instead of from nothing."""
        found = _FOLDED.decode(snapshot)
        self._graph(found.layout)
        self.phase = found.phase
        self.started_ms, self.ended_ms = found.run_time_ms or None, found.ended_ms or None
        self.sinks, self.published = len(found.spec.sinks), set(found.published)
        self._sizes = found.published_sizes
        self._kept = {name: BitMap.deserialize(step.committed) for name, step in found.steps.items()}
        self._holes = {name: BitMap.deserialize(step.holes) for name, step in found.steps.items() if step.holes}

    def add(self, types: Iterable[str], events: Iterable[msgspec.Raw]) -> None:
        """Count the events of one record."""
        for name, raw in zip(types, events, strict=True):
            self._add(name.partition("/")[0], raw)

    def last(self, events: Iterable[msgspec.Raw]) -> None:
        """Take the time of the newest record."""
        for raw in events:
            at_ms = _TIMED.decode(raw).at_ms
            if at_ms is not None:
                self.changed_ms = at_ms
                return

    def _add(self, kind: str, raw: msgspec.Raw) -> None:
        match kind:
            case "RunStarted":
                started = _STARTED.decode(raw)
                self._graph(started.drawn)
                self.changed_ms = self.started_ms = started.at_ms
                self.sinks = len(started.sinks)
            case "SinkPublished":
                self.published.add(_PUBLISHED.decode(raw).sink)
            case "RunSucceeded":
                self.ended_ms = _TIMED.decode(raw).at_ms
            case "PartitionsCommitted":
                committed = _COMMITTED.decode(raw)
                self._of(committed.attempt.step).update(BitMap.deserialize(committed.partitions))
                self.changed_ms = committed.at_ms
            case "PartitionsLost" | "PartitionsReleased":
                gone = _GONE.decode(raw)
                self._of(gone.step).difference_update(BitMap.deserialize(gone.partitions))
            case "HoleAccepted":
                hole = _GONE.decode(raw)
                self._holes[hole.step] = self._holes.get(hole.step, BitMap()) | BitMap.deserialize(hole.partitions)
            case "GenerationOpened":
                dropped = _DROPPED.decode(raw)
                self._of(dropped.step).difference_update(BitMap.deserialize(dropped.dropped))
                if dropped.step in self._holes:
                    self._holes[dropped.step] -= BitMap.deserialize(dropped.dropped)
            case "EpochOpened" if self.phase in RESUMED:
                self.phase = "running"
        self.phase = PHASES.get(kind, self.phase)

    def _graph(self, graph: _Graph) -> None:
        kept = [step for step in graph.steps if step.kind != "pipelined"]
        self.steps = len(kept)
        self.wanted = sum(step.partitions for step in kept)

    def _of(self, step: str) -> Any:
        found = self._kept.get(step)
        if found is None:
            found = self._kept[step] = BitMap()
        return found
