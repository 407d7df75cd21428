"""Engine-owned exchanges: did Spark recompute a map output behind our back, and did it come back equal?

Spark re-runs lost map tasks inside any later job on the same RDD, and reports success. So, each time commits were
drained and before any of them counts, the map outputs are looked at. An output that came back under another map
task counts as equal only with an equal, non-zero checksum. (A map task without rows has one, too: `Bridge.exchange`.)

What a shuffle manager other than Spark's own says of a map output, be it a checksum or that it is empty, is not known
to be about its rows: no checksum is believed there.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import driver_calls, result_calls


@dataclass(frozen=True, slots=True)
class MapOutputs:
    """The map outputs of one exchange at one moment. One that Spark does not know is never as it was."""

    tasks: tuple[int, ...]
    checksums: tuple[int, ...]
    mismatched: tuple[int, ...]
    is_known: bool = True

    def is_as_before(self, earlier: MapOutputs) -> bool:
        """Spark's own record of changed checksums covers outputs that were gone when we first looked."""
        if not (self.is_known and earlier.is_known) or self.mismatched or len(self.tasks) != len(earlier.tasks):
            return False
        return all(
            now < 0 or was == now or (new != 0 and (was < 0 or old == new))
            for was, now, old, new in zip(earlier.tasks, self.tasks, earlier.checksums, self.checksums, strict=True)
        )


def look(spark: SparkSession, shuffle_id: int, reducers: int) -> MapOutputs:
    packed = result_calls.map_outputs(spark, shuffle_id, reducers)
    longs = struct.unpack(f">{len(packed) // 8}q", packed)
    count = longs[0] if longs else 0
    pairs = longs[1 : 1 + 2 * count]
    checksums = (0,) * count if driver_calls.other_shuffle_manager(spark) else pairs[1::2]
    return MapOutputs(pairs[0::2], checksums, longs[1 + 2 * count :], is_known=bool(longs))


class ExchangeMonitor:
    """The exchanges under one held query execution. The first look is what later ones are compared with."""

    def __init__(self, spark: SparkSession, exchanges: Mapping[int, int]) -> None:
        """`exchanges` is the number of reduce partitions of each, by shuffle id."""
        self._spark = spark
        self._exchanges = dict(exchanges)
        self._first = self._look()

    def is_as_before(self) -> bool:
        return all(now.is_as_before(first) for now, first in zip(self._look(), self._first, strict=True))

    def digest(self) -> str | None:
        """One name for the content of all exchanges, equal in another driver if the content is. None: not known."""
        found = self._look()
        if any(0 in one.checksums or not one.is_known for one in found):
            return None
        return hashlib.sha256(repr([one.checksums for one in found]).encode()).hexdigest()

    def _look(self) -> list[MapOutputs]:
        return [look(self._spark, number, reducers) for number, reducers in self._exchanges.items()]
