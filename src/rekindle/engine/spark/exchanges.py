"""Engine-owned exchanges: did Spark recompute a map output behind our back, and did it come back equal?

Spark re-runs lost map tasks inside any later job on the same RDD, and reports success. So, each time commits were
drained and before any of them counts, the map outputs are looked at. An output that came back under another map
task counts as equal only with an equal, non-zero checksum.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from pyspark.sql import SparkSession

from rekindle.engine.spark.session import jvm


@dataclass(frozen=True, slots=True)
class MapOutputs:
    """The map outputs of one exchange at one moment."""

    tasks: tuple[int, ...]
    checksums: tuple[int, ...]
    mismatched: tuple[int, ...]

    def recomputed(self, earlier: MapOutputs) -> int:
        """How many maps have an output of another Spark task than before."""
        return sum(was != now for was, now in zip(earlier.tasks, self.tasks, strict=True) if was >= 0 and now >= 0)

    def is_as_before(self, earlier: MapOutputs) -> bool:
        return not self.mismatched and all(
            was < 0 or now < 0 or was == now or (old == new and new != 0)
            for was, now, old, new in zip(earlier.tasks, self.tasks, earlier.checksums, self.checksums, strict=True)
        )


def look(spark: SparkSession, shuffle_id: int) -> MapOutputs:
    packed = bytes(jvm(spark).rekindle.spark.Bridge.exchange(shuffle_id))
    longs = struct.unpack(f">{len(packed) // 8}q", packed)
    count = longs[0] if longs else 0
    pairs = longs[1 : 1 + 2 * count]
    return MapOutputs(pairs[0::2], pairs[1::2], longs[1 + 2 * count :])


class Watch:
    """The exchanges under one held query execution. The first look is what later ones are compared with."""

    def __init__(self, spark: SparkSession, shuffle_ids: tuple[int, ...]) -> None:
        self._spark = spark
        self._first = {shuffle_id: look(spark, shuffle_id) for shuffle_id in shuffle_ids}
        self.recomputed = 0

    def is_as_before(self) -> bool:
        now = {shuffle_id: look(self._spark, shuffle_id) for shuffle_id in self._first}
        self.recomputed = sum(now[i].recomputed(first) for i, first in self._first.items())
        return all(now[i].is_as_before(first) for i, first in self._first.items())

    def digest(self) -> str | None:
        """One name for the content of all exchanges, equal in another driver if the content is. None: not known."""
        sums = [look(self._spark, i).checksums for i in self._first]
        if any(0 in maps for maps in sums):
            return None
        return hashlib.sha256(repr(sums).encode()).hexdigest()
