"""The batch inputs of a stream in words: what is pinned, what is newer, and what nobody can pin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rekindle.observe.words import bytes_text, count_text
from rekindle.remedies import Say, StartRemedy
from rekindle.streams.pinned_inputs import InputLook, PinnedInput

NAMED_MAX = 2


def shortened(lines: Sequence[str]) -> str:
    """The first of them in one line, and how many more there are."""
    more = f" and {len(lines) - NAMED_MAX} more" if len(lines) > NAMED_MAX else ""
    return f"{'; '.join(lines[:NAMED_MAX])}{more}"


def take_remedy(step: str, to: str = "take what there is now", *, leaves: tuple[str, ...] = ()) -> StartRemedy:
    return StartRemedy(to=to, replace=(step,), is_stream=True, leaves=leaves)


def input_lines(look: InputLook, say: Say | None) -> Iterator[str]:
    """One input. Without a face it is not said what to type."""
    pin = look.pin
    if pin.digest:
        yield f"  {look.step}  {_pinned(look)}"
    else:
        yield f"  {look.step}  a batch input"
    for region, earlier in pin.earlier.items():
        yield f"    batch {earlier.batch} of {region} was planned before, and reads what was pinned before"
    if pin.loose:
        yield f"    reads {', '.join(pin.loose)} anew at each start: not pinned"
    if look.changed:
        yield f"    it is not what was pinned: {shortened(look.changed)}"
    if look.newer is not None:
        then = f"; {say(take_remedy(look.step))}" if say is not None else ""
        yield f"    there is something newer, which is not read: {_size(look.newer)}{then}"
    for one in look.told:
        yield f"    {one}"


def _pinned(look: InputLook) -> str:
    there = f"{_size(look.pin)} in {look.pin.place}"
    if look.is_taken and look.was is not None:
        return f"takes what there is now, from the next batch on: {there}; {_size(look.was)} were pinned"
    return f"pinned: {there}" if look.was is not None else f"pinned at this start: {there}"


def _size(pin: PinnedInput) -> str:
    return f"{count_text(pin.files, 'file')}, {bytes_text(pin.bytes)}"
