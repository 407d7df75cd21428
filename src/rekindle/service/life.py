"""The life of a run's driver, in words."""

from __future__ import annotations

from rekindle.journal.lease import Liveness, LivenessState
from rekindle.observe.words import time_text


def life_text(sign: Liveness) -> str:
    """Whether the driver lives, in words."""
    who = str(sign.owner) if sign.owner is not None else "its driver"
    age = "" if sign.age_seconds is None else f" {time_text(round(sign.age_seconds * 1000))} ago"
    match sign.life:
        case LivenessState.LIVING:
            return f"{who}, alive{age}"
        case LivenessState.LEFT:
            return f"{who} has ended"
        case LivenessState.DEAD:
            return f"{who} is dead"
        case LivenessState.STALE:
            return f"{who}, last seen{age or ' long ago'}"
        case LivenessState.NOBODY:
            return "nobody"
