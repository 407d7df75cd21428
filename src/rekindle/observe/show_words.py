"""How views put sets, moments and reasons into words. Short, whatever the size of what they name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec

from rekindle.master.facts.events import Reasons
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.reasons import NotYetRun, sentence

NOT_FINISHED = "not finished"
SPANS_MAX = 5
TEXT_MAX = 300


class ReasonView(msgspec.Struct, frozen=True):
    """Partitions that run for one reason. `is_restart` is false for what runs for the first time."""

    sentence: str
    partitions: Partitions
    count: int
    is_restart: bool

    def __str__(self) -> str:
        return f"{brief(self.partitions)}: {self.sentence}"


def reasons_of(why: Reasons, started: Partitions = EMPTY) -> tuple[ReasonView, ...]:
    """The reasons in words. What has no result yet, but was started before, was not finished."""
    found: list[ReasonView] = []
    for reason, partitions in why:
        is_fresh = isinstance(reason, NotYetRun)
        unfinished = partitions & started if is_fresh else EMPTY
        if rest := partitions - unfinished:
            found.append(ReasonView(sentence(reason), rest, len(rest), not is_fresh))
        if unfinished:
            found.append(ReasonView(NOT_FINISHED, unfinished, len(unfinished), True))
    return tuple(found)


def joined(reasons: tuple[ReasonView, ...]) -> str:
    """All reasons in one line."""
    return " · ".join(map(str, reasons))


def to_json(value: Any) -> str:
    """A view for machines. Sets stand in full, as text: `0-3,7`."""
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()


def brief(partitions: Partitions, spans_max: int = SPANS_MAX) -> str:
    """The set as text; of one with many gaps the beginning, and how many there are in all."""
    spans = list(islice(partitions.spans(), spans_max + 1))
    pieces = [str(low) if high == low + 1 else f"{low}-{high - 1}" for low, high in spans[:spans_max]]
    rest = f",… ({len(partitions):,} in all)" if len(spans) > spans_max else ""
    return ",".join(pieces) + rest


def vertices(sets: Mapping[str, Partitions]) -> str:
    """`priced[3], keyed[1-2]`."""
    return ", ".join(f"{step}[{brief(partitions)}]" for step, partitions in sets.items())


def clock(at_ms: int) -> str:
    """Date and time in UTC."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def one_line(text: str) -> str:
    """The first line of a message, not too long."""
    first = next(iter(text.strip().splitlines()), "").rstrip()
    return first if len(first) <= TEXT_MAX else f"{first[:TEXT_MAX]}…"
