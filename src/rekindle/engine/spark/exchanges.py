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

    def is_as_before(self, earlier: MapOutputs) -> bool:
        """Spark's own record of changed checksums covers outputs that were gone when we first looked."""
        if self.mismatched or len(self.tasks) != len(earlier.tasks):
            return False
        return all(
            now < 0 or was == now or (new != 0 and (was < 0 or old == new))
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

    @property
    def shuffle_ids(self) -> tuple[int, ...]:
        return tuple(self._first)

    def is_as_before(self) -> bool:
        return all(look(self._spark, i).is_as_before(first) for i, first in self._first.items())

    def digest(self) -> str | None:
        """One name for the content of all exchanges, equal in another driver if the content is. None: not known."""
        sums = [look(self._spark, i).checksums for i in self._first]
        if any(0 in maps for maps in sums):
            return None
        return hashlib.sha256(repr(sums).encode()).hexdigest()
