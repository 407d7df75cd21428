"""How the query of a region is now, as Spark tells it, and whether it is stalled. Nothing of it is a fact."""

from __future__ import annotations

import msgspec


class RegionHealth(msgspec.Struct, frozen=True, kw_only=True):
    """One query, by one look at it. `batch` is the last one of which Spark told a progress, -1 before the first; `at`
    is when that was, by Spark's clock; `is_in_batch`: a batch is being planned or computed."""

    key: str
    is_active: bool
    is_in_batch: bool
    message: str = ""
    error: str = ""
    batch: int = -1
    at: str = ""
    rows: int = 0
    rows_per_second: float = 0.0
    took_ms: int = 0
    state_rows: int = 0
    state_bytes: int = 0


class RegionProgress(msgspec.Struct, frozen=True):
    """Since when a query shows the same: what it showed, and when that was first seen."""

    seen: tuple[int, str, bool] = (-1, "", False)
    since_ms: int = 0


def progressed(before: RegionProgress | None, health: RegionHealth, now_ms: int) -> RegionProgress:
    """The progress after one more look."""
    seen = health.batch, health.at, health.is_in_batch
    return before if before is not None and before.seen == seen else RegionProgress(seen, now_ms)


def is_stalled(progress: RegionProgress, now_ms: int, stall_ms: int) -> bool:
    """A batch has run for so long without an end. A query that waits for input is in no batch, and is healthy."""
    _, _, is_in_batch = progress.seen
    return stall_ms > 0 and is_in_batch and now_ms - progress.since_ms >= stall_ms
