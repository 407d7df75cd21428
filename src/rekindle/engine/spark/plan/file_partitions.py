"""Partitions that are files of kept results, or splits of sources: which number each has, and which of them a coalesce
puts together.

Spark puts together what lies on one host, or what comes one after the other in an order that sizes decide. Here piece c
of n has the partitions from `c * count / n` up to `(c + 1) * count / n`, in their order: in every driver the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import result_calls
from rekindle.results import manifest
from rekindle.results.result_paths import step_of


def numbers(offsets: Mapping[str, int], lines: Iterable[str]) -> list[int]:
    """Our number of each Spark partition that reads one file of a kept result. `offsets` are those of the first
    partition of each of these results; a file of another one is an error: its number says nothing here."""
    return [_offset(offsets, line) + manifest.number_of(line) for line in lines]


def _offset(offsets: Mapping[str, int], line: str) -> int:
    step = step_of(line)
    if step not in offsets:
        raise RuntimeError(f"Spark reads {step} partition by partition, where {', '.join(offsets)} should be")
    return offsets[step]


def coalesced(session: SparkSession, plan: Any, offsets: Mapping[str, int], count: int, pieces: int) -> Any:
    """The rows of a plan with one coalesce, in `pieces` partitions made of `count`: of files if there are `offsets`,
    where one without rows has none, else of Spark's partitions as they are."""
    below = result_calls.below_coalesce(session, plan)
    found = int(below.getNumPartitions())
    if not offsets:
        numbered: Sequence[int] = range(found)
        if found not in (count, 0):  # A source without files has no splits, and no rows.
            raise RuntimeError(f"Spark reads {found} splits where {count} were planned")
    else:
        numbered = numbers(offsets, result_calls.splits(session, below))
        if len(numbered) != found:
            raise RuntimeError(f"Spark reads {len(numbered)} files of kept results in {found} tasks")
    groups: list[list[int]] = [[] for _ in range(pieces)]
    for number, index in sorted((number, index) for index, number in enumerate(numbered)):
        groups[((number + 1) * pieces - 1) // count].append(index)
    packed = result_calls.packed(one for group in groups for one in (len(group), *group))
    return result_calls.coalesced(session, plan, packed)
