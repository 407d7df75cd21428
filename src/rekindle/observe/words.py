"""Numbers as people read them. What is not known is `?`. Text of others as a page may hold it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence

from rekindle.errors import visible
from rekindle.remedies import Say, new_run

# How a sentence begins that says what of a finished run could not be compared.
UNCOMPARED = "whether its inputs changed is not known"
UNKNOWN = "?"
UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
BATCHES_MAX = 5


def escape(text: str) -> str:
    """Text for HTML and SVG: neither a tag nor a control character of it is more than letters."""
    return html.escape(visible(text))


def bytes_text(count: int | None) -> str:
    """`41.2 GB`, in steps of a thousand."""
    if count is None:
        return UNKNOWN
    size, unit = float(count), 0
    while size >= 999.5 and unit < len(UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{count} bytes" if unit == 0 else f"{size:.3g} {UNITS[unit]}"


def size_texts(rows: int | None, bytes_: int | None) -> list[str]:
    """`1,204 rows` and `12 MB`, each if it is known."""
    told = [] if rows is None else [count_text(rows, "row")]
    return told if bytes_ is None else [*told, bytes_text(bytes_)]


def time_text(ms: int | None) -> str:
    """`3 h 10 min`, `12 min`, `8 s`: two units at most."""
    if ms is None:
        return UNKNOWN
    if ms < 950:
        return "under 1 s"
    seconds = round(ms / 1000)
    if seconds < 90:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{round(hours / 24)} days"


def span_text(low_ms: int, high_ms: int) -> str:
    """`9 to 12 min`; one time where both read the same."""
    low, high = time_text(low_ms), time_text(high_ms)
    if low == high:
        return low
    number, _, unit = low.partition(" ")
    return f"{number} to {high}" if high.endswith(f" {unit}") and high.count(" ") == 1 else f"{low} to {high}"


def count_text(count: int, one: str, many: str = "") -> str:
    """`1 partition`, `2 partitions`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def batches_text(batches: Sequence[int]) -> str:
    """`batch 3`, `batches 3, 4, 5 and 2 more`."""
    more = f" and {len(batches) - BATCHES_MAX} more" if len(batches) > BATCHES_MAX else ""
    return f"batch{'es' if len(batches) != 1 else ''} {', '.join(map(str, batches[:BATCHES_MAX]))}{more}"


def names_text(names: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = tuple(names) or ("",)
    return f"{', '.join(most)} and {last}" if most else last


def is_stale(differs: tuple[str, ...]) -> bool:
    """Something is known to differ from what a finished run published. What could not be compared is not."""
    return any(not one.startswith(UNCOMPARED) for one in differs)


def differing(differs: tuple[str, ...], say: Say) -> Iterator[str]:
    """What changed since a run that is done published, and what to do."""
    if differs:
        yield "  It was not recomputed, although this changed since it was computed:"
        yield from (f"    {one}" for one in differs)
        yield f"  next: {say(new_run('compute it with all of that, and publish it'))}"
