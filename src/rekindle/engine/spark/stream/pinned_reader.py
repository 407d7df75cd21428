"""The frames of steps over the batch inputs that were pinned: what every query of a stream is built with.

- The function of a step is called anew for each query, and Spark lists its files anew. The list that was pinned takes
  their place in the plan (java/PinnedFiles): files that came later are not read.
- Whatever is not as it was pinned is refused by name, before the query starts. Batches look again (java/PinnedFiles).
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from rekindle.engine.spark.jvm import stream_calls
from rekindle.engine.spark.plan.looking import changed_input
from rekindle.engine.spark.stream.input_lists import InputList, decoded, kept
from rekindle.publish.target import PointerStore
from rekindle.streams.pinned_inputs import PinnedInput

LIST_GONE = "the list of what was pinned is gone"
NO_EARLIER = ("", -1)


class PinnedReader:
    """The pins of a stream; their lists lie below its `store`."""

    def __init__(self, pins: Mapping[str, PinnedInput], store: PointerStore) -> None:
        self._pins, self._store = pins, store
        self._lists: dict[tuple[str, str], InputList] = {}

    def read(self, region: str, step: str, frame: DataFrame) -> DataFrame:
        """The frame of a step for a query of a region. Raises `InputChanged`."""
        pin = self._pins.get(step, PinnedInput())
        held = pin.earlier.get(region)
        return self._over(step, frame, pin.digest, (held.digest, held.batch) if held is not None else NO_EARLIER)

    def read_for(self, region: str, batch: int, step: str, frame: DataFrame) -> DataFrame:
        """The frame of a step as one batch of a region read it, or will. What was never pinned is read as it is."""
        pin = self._pins.get(step)
        return frame if pin is None else self._over(step, frame, pin.list_of(region, batch), NO_EARLIER)

    def _over(self, step: str, frame: DataFrame, digest: str, earlier: tuple[str, int]) -> DataFrame:
        now = decoded(stream_calls.batch_inputs(frame))
        before = self._list(step, earlier[0]) if earlier[0] else None
        pinned = self._list(step, digest)
        wrong = [*now.differences(pinned), *(now.differences(before) if before is not None else ())]
        if wrong:
            raise changed_input(step, wrong)
        made = over(step, frame, pinned, before, earlier[1])
        if found := changed_files(step, made):
            raise changed_input(step, found)
        return made

    def _list(self, step: str, digest: str) -> InputList:
        if not digest:
            return InputList(())
        if (step, digest) not in self._lists:
            found = kept(self._store, step, digest)
            if found is None:
                raise changed_input(step, [LIST_GONE])
            self._lists[step, digest] = found
        return self._lists[step, digest]


def over(step: str, frame: DataFrame, pinned: InputList, before: InputList | None = None, until: int = -1) -> DataFrame:
    """The frame over these files in place of its own; batches up to `until` read those of `before`."""
    if not pinned.leaves:
        return frame
    earlier = ("" if before is None else before.body.decode(), until)
    return stream_calls.pinned(frame.sparkSession, frame, step, pinned.body.decode(), earlier)


def changed_files(step: str, frame: DataFrame) -> list[str]:
    """The pinned files that a step reads and that are not what they were, in words."""
    return [" ".join(line.split("\t")) for line in stream_calls.changed_inputs(frame, step)]
