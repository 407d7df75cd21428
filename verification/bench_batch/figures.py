"""From what was measured to figures: paired ratios with an interval, and what the driver did while no Spark job ran."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench_batch.driver import BARE, OURS
from bench_batch.meter import Measured
from bench_batch.pipelines import WRITES
from support.eventlog import EventLog, SparkJob

RESAMPLES = 10_000
DESCRIBES = "rekindle-only-describes"


@dataclass(frozen=True, slots=True)
class Estimate:
    """The median of paired values with a bootstrap interval of 95 %."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class Window:
    """What Spark did on one side. `idle_s`: no Spark job ran. `other_s`: only jobs ran that write no result."""

    write_jobs: int
    write_tasks: int
    other_jobs: int
    other_tasks: int
    idle_s: float
    other_s: float


@dataclass(frozen=True, slots=True)
class Pair:
    """Both sides of one round."""

    bare: Measured
    ours: Measured
    bare_window: Window
    ours_window: Window

    @property
    def own_s(self) -> float:
        """Rekindle's own driver time: seconds without any Spark job, less those of bare Spark."""
        return self.ours_window.idle_s - self.bare_window.idle_s

    @property
    def more_jobs_s(self) -> float:
        """Seconds in which only Spark jobs ran that write no result (schemas, publication), less those of bare."""
        return self.ours_window.other_s - self.bare_window.other_s


def estimate(values: Sequence[float]) -> Estimate:
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    cut = RESAMPLES // 40
    return Estimate(statistics.median(values), medians[cut], medians[-cut - 1])


def pairs(sides: Iterable[Measured], log: EventLog) -> list[Pair]:
    by_round: dict[int, dict[str, Measured]] = {}
    for side in sides:
        by_round.setdefault(side.number, {})[side.side] = side
    return [
        Pair(both[BARE], both[OURS], window(log, both[BARE]), window(log, both[OURS])) for both in by_round.values()
    ]


def window(log: EventLog, side: Measured) -> Window:
    jobs = [job for job in log.jobs if side.began_ms <= job.submitted_ms <= side.ended_ms]
    writes = [job for job in jobs if is_write(job)]
    others = [job for job in jobs if not is_write(job)]
    in_writes, in_any = _seconds(writes), _seconds(jobs)
    return Window(
        len(writes), _tasks(log, writes), len(others), _tasks(log, others), side.wall_s - in_any, in_any - in_writes
    )


def is_write(job: SparkJob) -> bool:
    """Bare Spark's writes have a tag of ours, Rekindle's the tag of their attempt."""
    return any(tag == WRITES or (tag.startswith("rekindle-") and DESCRIBES not in tag) for tag in job.tags)


def _tasks(log: EventLog, jobs: Iterable[SparkJob]) -> int:
    return len(log.launched(stages=log.stage_ids(jobs))) if jobs else 0


def _seconds(jobs: Iterable[SparkJob]) -> float:
    """Seconds in which at least one of them ran."""
    total, until = 0, 0
    for job in sorted(jobs, key=lambda job: job.submitted_ms):
        end = job.ended_ms or job.submitted_ms
        total += max(0, end - max(until, job.submitted_ms))
        until = max(until, end)
    return total / 1000
