"""Fences in a table's own log: which publication may replace which, decided from numbers that commits carry.

Rules
- A log keeps one number for each id, and a commit that sets some depends on them: whoever set one meanwhile makes it
  fail. So comparing fences and publishing are one act, as with a chain of pointers.
- Ids begin with `rekindle/`. There is one `door`, which every publication sets: of two at once only one is right. Of
  each owner (pipeline) and place there is one `floor`: the fence of what replaced everything last.
- Of each key there are a `fence`, the `source` that tells the committed files, and how many `files` of it there are:
  none after everything was replaced. What replaces a partition has the values of that for a key, all else the
  parameters of its run. What merges may have rows in common with everything: it must be later than all of its owner.
- A later master of a run that finds the files of its run published takes only the fence: rows that others changed since
  stay changed.
- Fences of two owners, or of two places, cannot be compared: the table belongs to the first, until another place takes
  it on the user's word. Then the floor of the old place is closed: nothing is later.
- A fence is one number of 63 bits: 24 for the run, 15 for the epoch, 24 for the publication. More is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from rekindle.errors import Refused
from rekindle.master.facts.events import Fence

PREFIX = "rekindle/"
# The ids of streams, whose numbers are those of their batches.
STREAM_PREFIX = f"{PREFIX}stream/"
FLOOR, FENCE, SOURCE, FILES = "floor", "fence", "source", "files"
DOOR = f"{PREFIX}door"
ORDER_BITS, EPOCH_BITS, NUMBER_BITS = 24, 15, 24
CLOSED = (1 << (ORDER_BITS + EPOCH_BITS + NUMBER_BITS)) - 1
SOURCE_DIGITS = 15
PARTITION_KEY, MERGE_KEY = "partition:", "merge:"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableClaim:
    """What wants to be published: whose it is, its fence, and what tells its files. It `overwrites` all that is there,
    or not. `takes` is the place from which the table is taken."""

    owner: str
    place: str
    key: str
    fence: Fence
    source: str
    overwrites: bool
    takes: str | None = None


@dataclass(frozen=True, slots=True)
class AlreadyThere:
    """The table holds this very publication."""


@dataclass(frozen=True, slots=True)
class Later:
    """The table holds a later one."""

    fence: Fence


@dataclass(frozen=True, slots=True)
class SameFiles:
    """An earlier master of the run published these files: only the fence is new."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a run of some place published of a key: its order, and how many files of it there are."""

    place: str
    order: int
    files: int


@dataclass(frozen=True, slots=True)
class Replaces:
    """It is published; `earlier` is what the same key has there."""

    earlier: tuple[Earlier, ...] = ()


Verdict = AlreadyThere | Later | SameFiles | Replaces


def packed(fence: Fence) -> int:
    bits = ((fence.order, ORDER_BITS), (fence.epoch, EPOCH_BITS), (fence.number, NUMBER_BITS))
    number = 0
    for value, width in bits:
        if not 0 <= value < 1 << width:
            raise Refused(
                f"the fence {fence.order}-{fence.epoch}-{fence.number} does not fit into the log of a table",
                "publish to rk.files or rk.table, whose fences have no bounds",
            )
        number = number << width | value
    return number


def unpacked(number: int) -> Fence:
    epoch, low = number >> NUMBER_BITS, number & ((1 << NUMBER_BITS) - 1)
    return Fence(epoch >> EPOCH_BITS, epoch & ((1 << EPOCH_BITS) - 1), low)


def verdict(numbers: Mapping[str, int], claim: TableClaim) -> Verdict:
    """What becomes of a claim on a table whose log has these numbers."""
    held, now = numbers.get(_id(FENCE, claim.place, claim.owner, claim.key), 0), packed(claim.fence)
    highest = max(_compared(numbers, claim), default=0)
    if highest <= held and _is_same_files(numbers, claim, held):
        return AlreadyThere() if now == held else SameFiles() if now > held else Later(unpacked(held))
    if highest >= now:
        return Later(unpacked(highest))
    return Replaces(tuple(_earlier(numbers, claim)))


def numbers_of_same(claim: TableClaim) -> dict[str, int]:
    """What a commit sets that takes the fence alone."""
    now, ours = packed(claim.fence), (claim.place, claim.owner)
    after = {DOOR: now, _id(FENCE, *ours, claim.key): now}
    return after | {_id(FLOOR, *ours): now} if claim.overwrites else after


def numbers_after(numbers: Mapping[str, int], claim: TableClaim, files: int) -> dict[str, int]:
    """What the commit of a publication of so many files sets."""
    now, ours = packed(claim.fence), (claim.place, claim.owner)
    after = {DOOR: now, _id(FLOOR, *ours): now if claim.overwrites else _floor(numbers, claim)}
    if claim.overwrites:
        after |= {name: 0 for name, count in numbers.items() if count and _parts(name)[0] == FILES}
    after[_id(FENCE, *ours, claim.key)] = now
    after[_id(SOURCE, *ours, claim.key)] = _source(claim)
    for one in _earlier(numbers, claim):
        after[_id(FILES, one.place, claim.owner, claim.key)] = 0
    after[_id(FILES, *ours, claim.key)] = files
    if claim.takes not in (None, claim.place):
        after[_id(FLOOR, str(claim.takes), claim.owner)] = CLOSED
    return after


def watched(numbers: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """The ids that a commit depends on: all that it sets, and all that are there."""
    return sorted({*numbers, *after})


def owners(numbers: Mapping[str, int]) -> Iterator[tuple[str, str, Fence]]:
    """(place, owner, newest fence) of everybody who may publish to the table."""
    for name, number in numbers.items():
        kind, *rest = _parts(name)
        if kind == FLOOR and number != CLOSED:
            place, owner = rest
            fences = (value for one, value in numbers.items() if _parts(one)[:3] == (FENCE, place, owner))
            yield place, owner, unpacked(max([number, *fences]))


def streams(numbers: Mapping[str, int]) -> list[str]:
    """The regions whose batches a table has."""
    found = (name.removeprefix(STREAM_PREFIX) for name in numbers if name.startswith(STREAM_PREFIX))
    return sorted({unquote(name.split("/")[0]) for name in found})


def partition_key(partition: Mapping[str, str]) -> str:
    """The key of what replaces the rows that have these values."""
    return PARTITION_KEY + "/".join(
        f"{quote(name, '')}={quote(value, '')}" for name, value in sorted(partition.items())
    )


def merge_key(key: str) -> str:
    """The key of what merges, of the key of its parameters."""
    return MERGE_KEY + key


def _compared(numbers: Mapping[str, int], claim: TableClaim) -> Iterator[int]:
    """The fences that a claim must be later than."""
    yield _floor(numbers, claim)
    for name, number in numbers.items():
        kind, *rest = _parts(name)
        if kind == FENCE and rest[:2] == [claim.place, claim.owner]:
            key = rest[2]
            if claim.overwrites or key == claim.key or _share_rows(key, claim.key):
                yield number


def _share_rows(one: str, other: str) -> bool:
    """Whether two keys may have a row in common: one merges, or as partitions they do not say two values for one
    column."""
    if one.startswith(MERGE_KEY) or other.startswith(MERGE_KEY):
        return True
    if not (one.startswith(PARTITION_KEY) and other.startswith(PARTITION_KEY)):
        return False
    first, second = _values(one), _values(other)
    return all(second.get(name, value) == value for name, value in first.items())


def _values(key: str) -> dict[str, str]:
    pairs = (one.split("=", 1) for one in key.removeprefix(PARTITION_KEY).split("/"))
    return {unquote(name): unquote(value) for name, value in pairs}


def _earlier(numbers: Mapping[str, int], claim: TableClaim) -> Iterator[Earlier]:
    for name, count in numbers.items():
        kind, *rest = _parts(name)
        if count and kind == FILES and rest[1:] == [claim.owner, claim.key]:
            yield Earlier(rest[0], unpacked(numbers[_id(FENCE, *rest)]).order, count)


def _is_same_files(numbers: Mapping[str, int], claim: TableClaim, held: int) -> bool:
    if not held or unpacked(held).order != claim.fence.order:
        return False
    return numbers.get(_id(SOURCE, claim.place, claim.owner, claim.key)) == _source(claim)


def _source(claim: TableClaim) -> int:
    return int(claim.source[:SOURCE_DIGITS], 16)


def _floor(numbers: Mapping[str, int], claim: TableClaim) -> int:
    found = numbers.get(_id(FLOOR, claim.place, claim.owner), 0)
    return 0 if found == CLOSED and claim.takes is not None else found


def _id(kind: str, *parts: str) -> str:
    return f"{PREFIX}{kind}/{'/'.join(quote(part, '') for part in parts)}"


def _parts(name: str) -> tuple[str, ...]:
    kind, *rest = name.removeprefix(PREFIX).split("/")
    return (kind, *map(unquote, rest))
