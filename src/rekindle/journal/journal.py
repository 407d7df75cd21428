"""The writer's end of a journal: append facts as the one master of an epoch.

- A record is acknowledged when the store said `CREATED`, or when the bytes under its number are exactly ours.
- Unknown stays unknown: the same bytes are tried again at the same number, and nothing else, until an
  answer is certain. `AppendUnknown` leaves the record pending; `settle` goes on with it.
- A number that holds other bytes ends this writer for good: `Fenced` by a newer epoch, else `AppendRejected`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from rekindle.errors import AppendRejected, AppendUnknown, Fenced, RekindleError, RunClosed, StoreFailed
from rekindle.journal.codec import Codec
from rekindle.journal.frame import Frame, WholeFrame, find, name_of, to_bytes
from rekindle.journal.history import Position, Record, fenced, folder_of, follow
from rekindle.journal.owner import Owner
from rekindle.remedies import StartKind, StartRemedy, new_run
from rekindle.storage.store import Put, Store

E = TypeVar("E")
PAUSES_SECONDS = (0.05, 0.2, 0.8, 2.0, 5.0)
Pause = Callable[[float], None]


class _Pending(msgspec.Struct, Generic[E], frozen=True):
    """A record on its way, with the only bytes that may ever be tried at its number."""

    record: WholeFrame
    data: bytes
    events: tuple[E, ...]


class Journal(Generic[E]):
    """Appends records behind a position. One thread appends; any thread may look."""

    def __init__(
        self,
        store: Store,
        run: str,
        codec: Codec[E],
        position: Position,
        *,
        pause: Pause = time.sleep,
        writer: str = "",
        pauses_seconds: Sequence[float] = PAUSES_SECONDS,
    ) -> None:
        self.store = store
        self.run = run
        self.writer = writer or uuid.uuid4().hex[:16]
        self._codec = codec
        self._position = position
        self._pause = pause
        self._pauses_seconds = tuple(pauses_seconds)
        self._pending: _Pending[E] | None = None
        self._ended: RekindleError | None = None

    @property
    def position(self) -> Position:
        """The end of what is acknowledged."""
        return self._position

    @property
    def epoch(self) -> int:
        return self._position.epoch

    def open_epoch(self, owner: Owner, events: Sequence[E]) -> Record[E]:
        """Append the first record of the next epoch. Once acknowledged, older masters are fenced."""
        return self._begin(tuple(events), self.epoch + 1, owner)

    def append(self, *events: E) -> Record[E]:
        """Append one record whose events become true together. Returns when it is acknowledged."""
        return self._begin(events, self.epoch, None)

    def as_read(self, event: E) -> E:
        """The event as whoever reads it will find it."""
        return self._codec.decode(*self._codec.encode(event))

    def settle(self) -> Record[E] | None:
        """Go on with a pending record until its answer is certain; None where nothing is pending."""
        return None if self._pending is None else self._try(self._pending, is_first=False)

    def look(self) -> None:
        """Raise `Fenced` if another master took the next number. Changes nothing; for the heartbeat."""
        data = self.store.get(self._key(self._position.sequence + 1))
        found = find(data) if data else None
        if isinstance(found, WholeFrame) and found.frame.epoch > self.epoch and found.frame.writer != self.writer:
            self._ended = fenced(self.run, found.frame)
            raise self._ended

    def _begin(self, events: tuple[E, ...], epoch: int, owner: Owner | None) -> Record[E]:
        if self._ended is not None:
            raise self._ended
        if self._pending is not None:
            number = self._pending.record.frame.sequence
            raise AppendUnknown(
                f"record {number} of run {self.run} is still unknown, and no other record can follow it"
            )
        if self._position.is_closed:
            raise RunClosed(f"run {self.run} is closed, its journal has ended", new_run())
        named = [self._codec.encode(event) for event in events]
        is_base = owner is None and self._codec.is_base(events)
        frame = Frame(
            sequence=self._position.sequence + 1,
            epoch=epoch,
            previous=self._position.checksum,
            writer=self.writer,
            types=tuple(name for name, _ in named),
            events=tuple(raw for _, raw in named),
            owner=self._position.owner if is_base else owner,
            is_closed=self._codec.closes(events),
            is_base=is_base,
        )
        data, checksum = to_bytes(frame)
        self._pending = _Pending(WholeFrame(frame, checksum), data, events)
        return self._try(self._pending, is_first=True)

    def _try(self, pending: _Pending[E], is_first: bool) -> Record[E]:
        """One try after the other with the same bytes. Only a first try can be certain to have failed."""
        for seconds in (*self._pauses_seconds, None):
            try:
                if self._is_written(pending):
                    return self._acknowledge(pending)
            except StoreFailed:
                if is_first:
                    self._pending = None
                    raise
            is_first = False
            if seconds is not None:
                self._pause(seconds)
        number = pending.record.frame.sequence
        raise AppendUnknown(
            f"{self.store.name} gave no definite answer for record {number} of run {self.run}",
            "nothing was dispatched; the same record is tried again when the run goes on or is resumed",
        )

    def _is_written(self, pending: _Pending[E]) -> bool:
        """True: acknowledged. False: unknown. Raises where the number is certainly lost to other bytes."""
        key = self._key(pending.record.frame.sequence)
        match self.store.put_if_absent(key, pending.data):
            case Put.CREATED:
                return True
            case Put.UNKNOWN:
                return False
            case Put.EXISTS:
                return self._is_ours(key, pending)

    def _is_ours(self, key: str, pending: _Pending[E]) -> bool:
        try:
            data = self.store.get(key)
        except StoreFailed:
            return False
        if data == pending.data:
            return True
        if data is None:
            return False
        self._pending = None
        self._ended = self._lost_to(data, pending.record.frame)
        raise self._ended

    def _lost_to(self, data: bytes, ours: Frame) -> AppendRejected | Fenced:
        found = find(data)
        if isinstance(found, WholeFrame) and found.frame.epoch >= ours.epoch and found.frame.writer != self.writer:
            return fenced(self.run, found.frame)
        return AppendRejected(
            f"record {ours.sequence} of run {self.run} was not written: another record has its number",
            StartRemedy(to="read the journal again, and go on", kind=StartKind.RESUME),
        )

    def _acknowledge(self, pending: _Pending[E]) -> Record[E]:
        self._position = follow(self._position, pending.record)
        self._pending = None
        frame = pending.record.frame
        return Record(frame.sequence, frame.epoch, frame.writer, pending.events)

    def _key(self, sequence: int) -> str:
        return folder_of(self.run) + name_of(sequence)
