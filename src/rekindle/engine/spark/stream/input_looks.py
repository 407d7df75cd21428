"""The batch inputs of a stream before it starts: what is pinned at this start, what is newer, what cannot be pinned.

- The first region that reads a step looks at it; all others are planned over the same list.
- A step that was pinned before keeps its list, unless the user takes what there is now. Then a batch that was planned
  and is not committed goes on with the list that it had, if all of that is still there.
- Nothing is written before `keep`, and nothing is refused here: a plan tells what a run refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace
from pyspark.sql import DataFrame

from rekindle.engine.spark.jvm import stream_calls
from rekindle.engine.spark.stream.input_lists import InputList, decoded, keep, kept
from rekindle.engine.spark.stream.pinned_reader import LIST_GONE, changed_files, over
from rekindle.publish.target import PointerStore
from rekindle.streams.pinned_inputs import EarlierInput, InputLook, PinnedInput, earlier_left, earlier_of
from rekindle.streams.stream_spec import RegionSpec

LOST = (
    "batch {} of {} was planned with what was pinned before, which is gone: it reads the newer input, and may differ "
    "from what it gave already"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLooks:
    """One look at each step. `pins` are those of the journal, `taken` steps whose newer input the user wants. By
    region: the last batches that it `committed` and `planned`; by step: the regions that read it."""

    pins: Mapping[str, PinnedInput]
    taken: frozenset[str]
    store: PointerStore
    committed: Mapping[str, int]
    planned: Mapping[str, int]
    readers: Mapping[str, tuple[str, ...]]
    looks: dict[str, InputLook] = field(default_factory=dict)
    lists: dict[str, InputList] = field(default_factory=dict)

    def read(self, step: str, frame: DataFrame) -> DataFrame:
        """The frame of a step over what is pinned; as it is, where that cannot be."""
        now = decoded(stream_calls.batch_inputs(frame))
        if step not in self.looks:
            if not now.leaves and not now.loose and step not in self.pins:
                return frame
            self.looks[step] = self._look(step, frame, now)
        pinned = self.lists[step]
        return frame if any(now.differences(pinned)) else over(step, frame, pinned)

    def keep(self) -> None:
        """Put the lists where the next drivers find them."""
        for step, one in self.lists.items():
            if one.leaves:
                keep(self.store, step, one)

    def notes(self, region: RegionSpec) -> list[str]:
        """What a newer input means for rows that are in state already."""
        found = [name for name, one in self.looks.items() if one.is_taken and name in region.stateful]
        return [
            f"{region.name}: rows in its state keep what they had of {name}; the newer input counts for new rows"
            for name in found
        ]

    def _look(self, step: str, frame: DataFrame, now: InputList) -> InputLook:
        was, fresh = self.pins.get(step), now.pin()
        if was is None or not was.digest:
            self.lists[step] = now
            return InputLook(step=step, pin=fresh, was=was)
        is_newer, is_wanted = fresh.digest != was.digest, step in self.taken
        earlier = earlier_left(was, self.committed)
        pinned: InputList | None = now
        if is_newer and is_wanted:
            earlier = {name: earlier_of(was, name, batch) for name, batch in self._waiting(step)}
        elif is_newer:
            pinned = kept(self.store, step, was.digest)
        lost = {name: self._lost(step, frame, now, one) for name, one in earlier.items()}
        changed = [*_changes(step, frame, now, pinned), *(line for lines in lost.values() for line in lines)]
        left = {name: one for name, one in earlier.items() if not (is_wanted and lost[name])}
        base = fresh if pinned is now else replace(was, loose=fresh.loose)
        self.lists[step] = pinned or InputList(())
        return InputLook(
            step=step,
            pin=replace(base, earlier=left),
            was=was,
            changed=() if is_wanted else tuple(dict.fromkeys(changed)),
            newer=fresh if is_newer and not is_wanted else None,
            is_taken=is_wanted and (is_newer or left != earlier),
            told=tuple(LOST.format(one.batch, name) for name, one in earlier.items() if name not in left),
        )

    def _waiting(self, step: str) -> Iterator[tuple[str, int]]:
        """The regions that read a step and have a batch that is planned and not committed."""
        for name in self.readers[step]:
            if self.planned[name] > self.committed[name]:
                yield name, self.planned[name]

    def _lost(self, step: str, frame: DataFrame, now: InputList, one: EarlierInput) -> list[str]:
        return _changes(step, frame, now, kept(self.store, step, one.digest))


def _changes(step: str, frame: DataFrame, now: InputList, pinned: InputList | None) -> list[str]:
    """What is not as it was pinned, a line each."""
    if pinned is None:
        return [LIST_GONE]
    return [*now.differences(pinned)] or changed_files(step, over(step, frame, pinned))
