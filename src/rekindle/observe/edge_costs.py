"""What the result of a region costs for each batch, and what it would cost as another kind. Values in, lines out.

Rules
- Only what was measured is said: the bytes of its batches, and how long they took, both lately.
- The time of a batch is that of the region as it is: it has the writing of the result in it, so that the time of
  computing alone is at most that.
- A kind that this step cannot have is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rekindle.observe.words import bytes_text, count_text, time_text
from rekindle.streams.stream_spec import RegionSpec

OF_RECORDS = ("value", "key", "headers")
TENTHS_BELOW_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeCost:
    """Of the result of a region that so many others read: the bytes of a batch and its time, None where there was
    none lately, and the room that memory results have."""

    region: RegionSpec
    readers: int
    bytes: int | None = None
    batch_ms: int | None = None
    memory_bytes: int = 0

    def lines(self) -> Iterator[str]:
        """Nothing before it had a batch."""
        if self.bytes is None:
            return
        size, all_read = bytes_text(self.bytes), bytes_text(self.bytes * self.readers)
        kinds = [f"as files {size} written and {all_read} read"]
        if not self.region.unreplayable:
            kinds.append(f"in memory {size} of executors{self._room()}")
        if self.region.columns and set(self.region.columns) <= set(OF_RECORDS):
            kinds.append(f"in a topic {size} sent and {all_read} read")
        if self.batch_ms is not None and not self.region.doubts:
            each = f" in each of {self.readers} regions" if self.readers > 1 else ""
            kinds.append(f"fused at most {took_text(self.batch_ms)} of computing{each}")
        yield f"each batch costs: {'; '.join(kinds)}"
        again = (
            "" if self.batch_ms is None else f"; fused it would compute it again, at most {took_text(self.batch_ms)}"
        )
        yield f"a reader that fails reads {size} again for each batch{again}"

    def _room(self) -> str:
        if not self.memory_bytes or not self.bytes:
            return ""
        count = max(1, self.memory_bytes // self.bytes)
        return f" ({bytes_text(self.memory_bytes)} hold {count_text(count, 'batch', 'batches')})"


def took_text(ms: int) -> str:
    """The time of a batch, with tenths of a second while these are much of it."""
    return f"{ms / 1000:.1f} s" if ms < TENTHS_BELOW_MS else time_text(ms)
