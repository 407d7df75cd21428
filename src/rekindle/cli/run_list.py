"""Many runs, one line each, read as cheaply as their journals allow.

- Of a stream its state is folded: a stream has few records, and a pipeline has few streams.
- Of each other run: one listing of its snapshots, one of its journal, the newest snapshot, and the records behind it.
- Whether the driver of an unfinished run lives is asked once per run, and the store's clock once in all.
"""

from __future__ import annotations

import msgspec

from rekindle.cli.catalog import Named
from rekindle.errors import NewerJournal, NotFound, RekindleError, RunClosed, StoreFailed
from rekindle.journal.frame import NAME, WholeFrame, find, name_of
from rekindle.journal.history import Position, folder_of
from rekindle.journal.lease import LivenessState, sign_of_life
from rekindle.journal.owner import Owner
from rekindle.journal.snapshot import newest
from rekindle.observe.runs import INTERRUPTED, RunCounts, RunLine
from rekindle.observe.stream_view import StreamLine
from rekindle.service.life import life_text
from rekindle.service.stream_looking import see
from rekindle.storage.one_clock import with_one_clock
from rekindle.storage.store import Store
from rekindle.streams.stream_events import StreamPhase

LIVE = frozenset({"running", "failing", "closing"})
DAMAGES = (RekindleError, msgspec.MsgspecError, ValueError, KeyError, AssertionError)


class RunList:
    """Reads lines of runs from one store."""

    def __init__(self, store: Store, stale_seconds: float) -> None:
        self._store = store
        self._clock = with_one_clock(store)
        self._stale_seconds = stale_seconds

    def any_of(self, named: Named, parameters: dict[str, str] | None) -> RunLine | StreamLine:
        """One run or one stream."""
        return self.stream(named, parameters) if named.is_stream else self.of(named, parameters)

    def stream(self, named: Named, parameters: dict[str, str] | None) -> StreamLine:
        """One stream. Damage makes a line that says so."""
        try:
            seen = see(self._clock, named.pipeline, named.run, named.number, self._stale_seconds)
            return seen.line(parameters)
        except NotFound:
            phase = "never began"
        except RunClosed:
            phase = StreamPhase.CLOSED.value
        except NewerJournal:
            phase = "newer"
        except DAMAGES:
            phase = "damaged"
        return StreamLine(
            pipeline=named.pipeline, run=named.run, number=named.number, parameters=parameters, phase=phase
        )

    def of(self, named: Named, parameters: dict[str, str] | None) -> RunLine:
        """One run. Damage makes a line that says so, never an error: the others must be listed."""
        tally = RunCounts()
        phase, driver = "damaged", ""
        try:
            position = self._read(named, tally)
            phase = tally.phase or "never began"
            if phase in LIVE and position is not None:
                phase, driver = self._life(named, position, phase)
        except NewerJournal:
            phase = "newer"  # Written by a newer release, which can read it.
        except DAMAGES:
            phase = "damaged"
        return RunLine(
            pipeline=named.pipeline,
            run=named.run,
            number=named.number,
            parameters=parameters,
            phase=phase,
            kept=tally.kept,
            wanted=tally.wanted,
            changed_ms=tally.changed_ms,
            driver=driver,
            steps=tally.steps,
            left_out=tally.left_out,
            started_ms=tally.started_ms,
            ended_ms=tally.ended_ms,
            published=len(tally.published),
            sinks=tally.sinks,
            rows=tally.rows,
            bytes=tally.size_bytes,
        )

    def _read(self, named: Named, tally: RunCounts) -> Position | None:
        folder = folder_of(named.folder)
        start = self._snapshot(named, tally)
        names = [name for name in self._store.list_after(folder, name_of(start.sequence)) if NAME.fullmatch(name)]
        if not names and not start.sequence:
            return None
        position, last = start, None
        if not names:
            names = [name_of(start.sequence)]
        for data in self._store.get_many(folder, names):
            match find(data or b""):
                case WholeFrame(frame, checksum):
                    if frame.sequence > start.sequence:
                        tally.add(frame.types, frame.events)
                    owner: Owner | None = frame.owner or position.owner
                    position = Position(
                        sequence=frame.sequence,
                        kept=frame.sequence,
                        epoch=frame.epoch,
                        checksum=checksum,
                        owner=owner,
                        is_closed=frame.is_closed,
                    )
                    last = frame
                case _:
                    continue
        if last is not None:
            tally.last(last.events)
        return position

    def _snapshot(self, named: Named, tally: RunCounts) -> Position:
        """Begin with the newest snapshot that can be read; from nothing otherwise."""
        found = newest(self._store, named.folder)
        if found is None:
            return Position()
        position, state = found
        try:
            tally.begin(state)
        except (msgspec.MsgspecError, ValueError):
            return Position()
        return position

    def _life(self, named: Named, position: Position, phase: str) -> tuple[str, str]:
        try:
            sign = sign_of_life(self._clock, named.folder, position, self._stale_seconds)
        except StoreFailed:
            return phase, "unknown: the store does not tell the time"
        is_alone = sign.life is not LivenessState.LIVING and phase == "running"
        return (INTERRUPTED if is_alone else phase), life_text(sign)
