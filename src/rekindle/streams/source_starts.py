"""Where a new checkpoint begins to read: what the user says, and what that comes to for each of its streams.

- What is said is turned into positions before the checkpoint is there, and the positions are journaled: a driver that
  dies before its first batch is followed by one that begins at the same place, also if the word was `latest`.
- A position is that of a stream by its place, not by its number: streams may be added and change their order.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from rekindle.streams.stream_spec import SourceStart

# Of each topic, by the number of its partition as text: as Spark's `startingOffsets` has them.
Offsets = dict[str, dict[str, int]]
OFFSETS_WORD = f"{SourceStart.OFFSETS.value}:"


class StartRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the user said. `at_ms` is there with a timestamp, `offsets` are with offsets."""

    start: SourceStart
    at_ms: int = -1
    offsets: Offsets = {}

    def __str__(self) -> str:
        return instant_text(self.at_ms) if self.start is SourceStart.TIMESTAMP else self.start.value


class SourcePosition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where one stream begins: at these `offsets` of its topics, or with files that were modified at `since_ms` or
    later. Without both it begins with its first file. `skipped` is how many records of its topics lie before."""

    stream: str
    offsets: Offsets = {}
    since_ms: int = -1
    skipped: int = 0


def start_request(text: str, now_ms: int) -> StartRequest:
    """`earliest`, `latest`, an ISO time with its zone, or `offsets:` and JSON. Raises `ValueError` with a sentence."""
    if text in (SourceStart.EARLIEST.value, SourceStart.LATEST.value):
        return StartRequest(SourceStart(text))
    if text.startswith(OFFSETS_WORD):
        try:
            offsets = msgspec.json.decode(text.removeprefix(OFFSETS_WORD), type=Offsets)
        except msgspec.MsgspecError as error:
            raise ValueError(f'offsets are not JSON such as {{"topic": {{"0": 42}}}}: {error}') from error
        return StartRequest(SourceStart.OFFSETS, offsets=offsets)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no place to begin to read") from None
    if at.tzinfo is None:
        raise ValueError(f"{text} has no time zone")
    at_ms = round(at.timestamp() * 1000)
    if not 0 <= at_ms <= now_ms:
        raise ValueError(f"{instant_text(at_ms)} is not in the past")
    return StartRequest(SourceStart.TIMESTAMP, at_ms)


def instant_text(at_ms: int) -> str:
    """A time as it can be typed again."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def offsets_lacking(asked: Offsets, first: Offsets, last: Offsets) -> str:
    """Why a source with these first and last offsets cannot begin where it is asked to; empty if it can."""
    for topic, firsts in first.items():
        given = asked.get(topic, {})
        if set(given) != set(firsts):
            return f"{topic} has the partitions {_listed(firsts)}, and offsets are said for {_listed(given) or 'none'}"
        for partition, low in firsts.items():
            high = last[topic][partition]
            if not low <= given[partition] <= high:
                has = f"partition {partition} of {topic} has the offsets {low} to {high}"
                return f"{has}, and {given[partition]} is said"
    return ""


def distance(low: Offsets, high: Offsets) -> int:
    """How many offsets lie between."""
    return sum(at - low[topic][partition] for topic, found in high.items() for partition, at in found.items())


def _listed(partitions: dict[str, int]) -> str:
    return ", ".join(sorted(partitions, key=int))
