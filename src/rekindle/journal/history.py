"""Reading a journal: list the numbers, judge each record by the table, keep the facts.

- Reading changes nothing and needs no lease. Names that are no sequence number do not count.
- A position is all that a writer has to know about what was kept: the last number, its epoch, its checksum.
- Reading may start behind a position, if the record at that position is still the one it names. Without one it starts
  at the last base, which holds all that was said before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar

import msgspec

from rekindle.errors import Fenced, JournalRefused
from rekindle.journal.codec import Codec
from rekindle.journal.frame import (
    NAME,
    DamagedFrame,
    Found,
    Frame,
    TornFrame,
    WholeFrame,
    checksum_of,
    find,
    name_of,
    whole,
)
from rekindle.journal.owner import Owner
from rekindle.journal.tail import TailAction, TailFacts, judge
from rekindle.remedies import CommandRemedy, TextRemedy, new_run
from rekindle.storage.store import Store

E = TypeVar("E")
LATE_NAMES_MAX = 64


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """The end of what was kept. `sequence` is the last number in use; it is behind `kept` where one was cut."""

    sequence: int = 0
    kept: int = 0
    epoch: int = 0
    checksum: str = ""
    owner: Owner | None = None
    is_closed: bool = False


def start_of(run: str) -> Position:
    """Before the first record. The name of the run stands for the record before it, so that no run's beginning
    can be mistaken for another's."""
    return Position(checksum=checksum_of(run.rstrip("/").encode()))


class Record(msgspec.Struct, Generic[E], frozen=True):
    """One kept record with its events."""

    sequence: int
    epoch: int
    writer: str
    events: tuple[E, ...]


class History(msgspec.Struct, Generic[E], frozen=True):
    """What a journal says: the records after where reading began, and where it ends."""

    records: tuple[Record[E], ...]
    position: Position
    cut: tuple[int, ...] = ()

    @property
    def events(self) -> Iterator[E]:
        return (event for record in self.records for event in record.events)


def folder_of(run: str) -> str:
    """The journal's folder in a run's directory."""
    return f"{run.rstrip('/')}/journal/"


def read(
    store: Store, run: str, codec: Codec[E], after: Position | None = None, own_epoch: int | None = None
) -> History[E]:
    """All records behind a position. Raises `JournalRefused`, or `Fenced` for a reader with an epoch."""
    folder, after = folder_of(run), after or start_of(run)
    names = _names(store, folder, after.sequence)
    found = [find(data if data is not None else b"") for data in store.get_many(folder, names)]
    tombstone = _pruned_to(names, found, after)
    if tombstone is not None:
        return History((_record(tombstone.frame, codec),), follow(after, tombstone))
    listed = list(zip(names, found, strict=True))
    if not after.sequence:
        after, listed = _from_base(listed, after)
    return _judge_all(store, run, codec, listed, after, own_epoch)


def _names(store: Store, folder: str, after: int) -> list[str]:
    """The numbers behind a position. A listing made while a master appends may miss one and show a later one, so that
    a few that seem to be missing are asked for by name: all of them, or of a journal that was cut the last ones."""
    names = [name for name in store.list_after(folder, name_of(after)) if NAME.fullmatch(name)]
    if not names:
        return names
    last = int(names[-1])
    begin = after + 1 if last - after - len(names) <= LATE_NAMES_MAX else max(after + 1, last - LATE_NAMES_MAX)
    missing = sorted(set(map(name_of, range(begin, last))) - set(names))
    if not missing:
        return names
    late = [name for name, data in zip(missing, store.get_many(folder, missing), strict=True) if data is not None]
    return sorted(names + late)


def catch_up(store: Store, run: str, codec: Codec[E], history: History[E]) -> History[E]:
    """The same history with what was appended meanwhile, number by number: faster than a listing."""
    while True:
        name = name_of(history.position.sequence + 1)
        data = store.get(folder_of(run) + name)
        if data is None:
            return history
        more = _judge_all(store, run, codec, [(name, find(data))], history.position)
        history = History(history.records + more.records, more.position, history.cut + more.cut)


def _pruned_to(names: Sequence[str], found: Sequence[Found], after: Position) -> WholeFrame | None:
    """The tombstone, where it, the record before it and the records that fence sleepers are all that is left."""
    last = found[-1] if found else None
    if after.sequence or not (
        isinstance(last, WholeFrame) and last.frame.is_closed and last.frame.sequence > len(found)
    ):
        return None
    before = next((one for one in reversed(found[:-1]) if isinstance(one, WholeFrame)), None)
    if before is None:
        return None
    position = msgspec.structs.replace(follow(after, before), sequence=last.frame.sequence - 1)
    is_behind_a_cut = position.kept != position.sequence
    return last if is_chained(names[-1], last.frame, position, is_behind_a_cut) else None


def _from_base(listed: list[tuple[str, Found]], start: Position) -> tuple[Position, list[tuple[str, Found]]]:
    """The position before the last base, and what is there from it on; all of it where there is no base."""
    for index in reversed(range(len(listed))):
        item = listed[index][1]
        if isinstance(item, WholeFrame) and item.frame.is_base:
            before = item.frame.sequence - 1
            position = Position(
                sequence=before,
                kept=before,
                epoch=item.frame.epoch,
                checksum=item.frame.previous,
                owner=item.frame.owner,
            )
            return position, listed[index:]
    return start, listed


def _judge_all(
    store: Store,
    run: str,
    codec: Codec[E],
    listed: Sequence[tuple[str, Found]],
    position: Position,
    own_epoch: int | None = None,
) -> History[E]:
    """`listed` are the names behind the position, each with what was found in it."""
    records: list[Record[E]] = []
    cut: list[int] = []
    for index, (name, item) in enumerate(listed):
        later = (other for _, other in islice(listed, index + 1, None))
        row = judge(_seen(name, item, later, position, cut, own_epoch))
        match row.verdict:
            case TailAction.KEEP:
                assert isinstance(item, WholeFrame)
                records.append(_record(item.frame, codec))
                position = follow(position, item)
            case TailAction.CUT:
                cut.append(int(name))
                position = msgspec.structs.replace(position, sequence=int(name))
            case TailAction.REFUSE:
                raise _refused(store, run, name, item, row.because)
            case TailAction.FENCED:
                assert isinstance(item, WholeFrame)
                raise fenced(run, item.frame)
    return History(tuple(records), position, tuple(cut))


def _seen(
    name: str,
    item: Found,
    later: Iterator[Found],
    position: Position,
    cut: Sequence[int],
    own_epoch: int | None,
) -> TailFacts:
    if isinstance(item, WholeFrame):
        after_cut = bool(cut) and cut[-1] == position.sequence
        newer = own_epoch is not None and item.frame.epoch > own_epoch
        return TailFacts(True, True, is_chained(name, item.frame, position, after_cut), False, newer)
    next_whole = next((other for other in later if isinstance(other, WholeFrame)), None)
    nothing_stands_on_it = next_whole is None or next_whole.frame.previous == position.checksum
    is_last = nothing_stands_on_it and int(name) == position.sequence + 1
    return TailFacts(isinstance(item, DamagedFrame), False, False, is_last, False)


def is_chained(name: str, frame: Frame, position: Position, after_cut: bool = False) -> bool:
    """Whether a record under this name is the one that may follow a position."""
    if position.is_closed or frame.previous != position.checksum:
        return False
    if not int(name) == frame.sequence == position.sequence + 1:
        return False
    if frame.opens_epoch:
        return frame.epoch == position.epoch + 1
    return frame.epoch == position.epoch and position.epoch > 0 and not after_cut


def follow(position: Position, record: WholeFrame) -> Position:
    """The position behind a record that was kept."""
    frame = record.frame
    owner = frame.owner if frame.owner is not None else position.owner
    return Position(
        sequence=frame.sequence,
        kept=frame.sequence,
        epoch=frame.epoch,
        checksum=record.checksum,
        owner=owner,
        is_closed=frame.is_closed,
    )


def confirm(store: Store, run: str, position: Position) -> bool:
    """Whether the record at a position is still the one that the position names."""
    if position.sequence == 0:
        return True
    name = name_of(position.sequence)
    data = store.get(folder_of(run) + name)
    return data is not None and whole(data, name).checksum == position.checksum


def fenced(run: str, frame: Frame) -> Fenced:
    who = f" ({frame.owner})" if frame.owner is not None else ""
    return Fenced(
        f"run {run} was taken over: record {frame.sequence} belongs to epoch {frame.epoch}{who}",
        CommandRemedy("show", run=run.rsplit("/", 1)[-1]),
    )


def _record(frame: Frame, codec: Codec[E]) -> Record[E]:
    events = tuple(map(codec.decode, frame.types, frame.events))
    return Record(frame.sequence, frame.epoch, frame.writer, events)


def _refused(store: Store, run: str, name: str, item: Found, because: str) -> JournalRefused:
    match item:
        case DamagedFrame(reason):
            what = reason
        case TornFrame() | WholeFrame():
            what = because
    return JournalRefused(
        f"record {int(name)} of {store.name}/{folder_of(run)} cannot be used: {what}. Nothing was changed.",
        (TextRemedy("restore that object from a backup or an older version"), new_run("or start over")),
    )
