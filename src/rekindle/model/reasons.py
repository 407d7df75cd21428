"""Why a vertex runs: a closed union of values, each with one plain sentence.

A restart set gives every vertex exactly one of these. Where several are true, the one found first on the way
from the failure is kept: it is the one that forced the vertex in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import msgspec

from rekindle.model.ids import ExchangeId


class Reason(msgspec.Struct, frozen=True, tag=True):
    """Base of all reasons."""


class Failed(Reason, frozen=True, tag=True):
    """The vertex itself failed, or a step fused into its task did."""


class ResultLost(Reason, frozen=True, tag=True):
    """It had finished, but its result is gone and somebody must still have it."""


class NotYetRun(Reason, frozen=True, tag=True):
    """It has no result yet. This is progress, not recovery."""


class NeededBy(Reason, frozen=True, tag=True):
    """A vertex of `consumer` runs and reads it, and its result is not available."""

    consumer: str


class FusedInto(Reason, frozen=True, tag=True):
    """Its result is pipelined: it is computed as part of `consumer`, each time that runs."""

    consumer: str


class InputDiffers(Reason, frozen=True, tag="InputChanged"):
    """It read `producer`, which is recomputed and not proved to come out equal."""

    producer: str


class ExchangeChanged(Reason, frozen=True, tag=True):
    """It read an exchange that the engine must recompute and that is not proved to come out equal."""

    exchange: ExchangeId


class WholeStep(Reason, frozen=True, tag=True):
    """Its step can only restart whole, and another of its vertices restarts."""


class CodeChanged(Reason, frozen=True, tag=True):
    """The step's code or parameters changed since its results were written."""


class KeptByRun(Reason, frozen=True, tag=True):
    """It was not computed: an earlier run kept the same result."""

    number: int


class EverythingRestarts(Reason, frozen=True, tag=True):
    """The failover strategy is `full`."""


AnyReason = (
    Failed
    | ResultLost
    | NotYetRun
    | NeededBy
    | FusedInto
    | InputDiffers
    | ExchangeChanged
    | WholeStep
    | CodeChanged
    | KeptByRun
    | EverythingRestarts
)


def taken_from(reasons: Iterable[tuple[AnyReason, object]]) -> int:
    """The number of the run that a result is taken from; 0 if it is computed."""
    return next((reason.number for reason, _ in reasons if isinstance(reason, KeptByRun)), 0)


def sentence(reason: AnyReason) -> str:
    """The reason as a user reads it behind the partition numbers."""
    match reason:
        case Failed():
            return "failed"
        case ResultLost():
            return "result lost"
        case NotYetRun():
            return "not yet run"
        case NeededBy(consumer):
            return f"needed by {consumer} and not available"
        case FusedInto(consumer):
            return f"pipelined into {consumer}"
        case InputDiffers(producer):
            return f"its input {producer} is recomputed and may differ"
        case ExchangeChanged(exchange):
            return f"its exchange {exchange} is recomputed and may differ"
        case WholeStep():
            return "its step restarts as a whole"
        case CodeChanged():
            return "its code changed"
        case KeptByRun(number):
            return f"taken from run {number}, which kept the same result"
        case EverythingRestarts():
            return "the failover strategy is full"
        case _:  # pragma: no cover
            assert_never(reason)
