"""Whether a figure grows: a line through what was measured, with an interval."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

RISE_MAX, T_95 = 0.01, 1.99


@dataclass(frozen=True, slots=True)
class Slope:
    """What a figure gains in an hour, with the lower end of its 95 % interval, and its mean."""

    per_hour: float
    low: float
    mean: float
    hours: float

    @property
    def is_flat(self) -> bool:
        return self.low <= 0 or self.per_hour * self.hours <= RISE_MAX * self.mean


def slope_of(found: list[dict[str, float]], name: str) -> Slope:
    hours = [one["at_s"] / 3600 for one in found]
    values = [one[name] for one in found]
    middle, mean = statistics.fmean(hours), statistics.fmean(values)
    spread = sum((hour - middle) ** 2 for hour in hours)
    pairs = list(zip(hours, values, strict=True))
    slope = sum((hour - middle) * (value - mean) for hour, value in pairs) / spread
    left = sum((value - mean - slope * (hour - middle)) ** 2 for hour, value in pairs)
    error = math.sqrt(left / max(1, len(pairs) - 2) / spread)
    return Slope(slope, slope - T_95 * error, mean, hours[-1] - hours[0])
