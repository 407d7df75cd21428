"""The limits and policies of one run, as recorded at its start. Everything has a bound and every bound is here."""

from __future__ import annotations

from dataclasses import asdict

import msgspec

from rekindle.failover.backoff import Backoff, Exponential, FailureRate, FixedDelay, NoRestart
from rekindle.failover.poison import PoisonLimits
from rekindle.failover.restart import Strategy

_BACKOFFS: dict[str, type[NoRestart | FixedDelay | FailureRate | Exponential]] = {
    "none": NoRestart,
    "fixed": FixedDelay,
    "rate": FailureRate,
    "exponential": Exponential,
}


class BackoffSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A restart backoff as it stands in the journal: its kind and its numbers."""

    kind: str = "exponential"
    values: dict[str, int | float] = {}

    @classmethod
    def of(cls, backoff: Backoff) -> BackoffSpec:
        kind = next(word for word, made in _BACKOFFS.items() if isinstance(backoff, made))
        return cls(kind, asdict(backoff))

    def policy(self) -> Backoff:
        return _BACKOFFS[self.kind](**self.values)  # type: ignore[arg-type]


class MasterConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the master may do, and how often. `budget_bytes` is what the results of the run may take; 0 is no limit.
    `keep_ms` is how long results stay after the run succeeded, so that later runs can use them."""

    strategy: Strategy = Strategy.REGION
    backoff: BackoffSpec = BackoffSpec()
    poison_tries_max: int = 3
    poison_step_max: int = 20
    attempts_per_step_max: int = 100
    is_released_early: bool = True
    budget_bytes: int = 0
    keep_ms: int = 0

    @property
    def poison(self) -> PoisonLimits:
        return PoisonLimits(self.poison_tries_max, self.poison_step_max)
