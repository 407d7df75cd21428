"""Whether a failure is followed by a restart, and when.

Rules
- Pure: the time and the jitter arrive as arguments, the memory is a value that the caller folds.
- Failures that arrive together count once: at the same time as the last one, or before the restart it led to.
- An unrecoverable cause, however deep in the chain, is never retried, and costs no attempt.
- A clock that jumped back never makes failures "together": attempts stay bounded.
- Boundaries: quiet for exactly `reset_after_ms` resets; a failure exactly `interval_ms` old no longer counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from rekindle.model.failures import Cause


@dataclass(frozen=True, slots=True)
class NoRestart:
    """The first failure ends the run."""


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """At most `attempts_max` restarts, each after the same delay."""

    attempts_max: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class FailureRate:
    """At most `failures_max` failures within any `interval_ms`."""

    failures_max: int
    interval_ms: int
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """Delays grow by `factor` up to `delay_ms_max`; each is moved by up to `jitter` of itself; after
    `reset_after_ms` without a failure since the last restart, it all begins again."""

    initial_ms: int = 1_000
    factor: float = 2.0
    delay_ms_max: int = 300_000
    jitter: float = 0.1
    reset_after_ms: int = 3_600_000
    attempts_max: int = 10


_Retrying = FixedDelay | FailureRate | Exponential
Backoff = NoRestart | _Retrying


@dataclass(frozen=True, slots=True)
class BackoffState:
    """What of the past still matters. A new run begins with `BackoffState()`."""

    attempts: int = 0
    failed_at_ms: int | None = None
    restart_at_ms: int | None = None
    recent_ms: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Restart:
    """Accepted: restart at this time. `is_new_attempt` is false where the failure joined an earlier one."""

    at_ms: int
    attempt: int
    is_new_attempt: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Suppressed. `who` names the rule that gave up, `why` what it saw."""

    who: str
    why: str


Verdict = Restart | GiveUp


def on_failure(
    backoff: Backoff, state: BackoffState, cause: Cause, now_ms: int, jitter: float = 0.0
) -> tuple[BackoffState, Verdict]:
    """Count one failure (or one batch of them). `jitter` is drawn by the caller from [-1, 1]."""
    if not cause.is_recoverable:
        return state, GiveUp("unrecoverable cause", cause.root.kind.value)
    if isinstance(backoff, NoRestart):
        return state, GiveUp("no restart", "restarts are switched off")
    pending_ms = _joined_ms(state, now_ms)
    if pending_ms is not None:
        return state, Restart(pending_ms, state.attempts, is_new_attempt=False)
    counted = _count(backoff, state, now_ms)
    refusal = _refusal(backoff, counted)
    if refusal is not None:
        return counted, refusal
    at_ms = now_ms + _delay_ms(backoff, counted.attempts, jitter)
    return replace(counted, restart_at_ms=at_ms), Restart(at_ms, counted.attempts, is_new_attempt=True)


def _joined_ms(state: BackoffState, now_ms: int) -> int | None:
    """When the restart comes that this failure joins, if there is one."""
    match state:
        case BackoffState(failed_at_ms=int(failed_ms), restart_at_ms=int(restart_ms)):
            return restart_ms if failed_ms <= now_ms < max(restart_ms, failed_ms + 1) else None
    return None


def _count(backoff: _Retrying, state: BackoffState, now_ms: int) -> BackoffState:
    attempts, recent = state.attempts, state.recent_ms
    match backoff:
        case FailureRate(_, interval_ms, _):
            recent = (*(at for at in recent if now_ms - at < interval_ms), now_ms)
        case Exponential(reset_after_ms=reset_after_ms):
            if state.restart_at_ms is not None and now_ms - state.restart_at_ms >= reset_after_ms:
                attempts = 0
        case FixedDelay():
            pass
        case _:  # pragma: no cover
            assert_never(backoff)
    return BackoffState(attempts + 1, now_ms, None, recent)


def _refusal(backoff: _Retrying, counted: BackoffState) -> GiveUp | None:
    match backoff:
        case FixedDelay(attempts_max, _):
            if counted.attempts > attempts_max:
                return GiveUp("fixed delay", f"the limit of restarts is reached ({attempts_max})")
        case FailureRate(failures_max, interval_ms, _):
            if len(counted.recent_ms) > failures_max:
                return GiveUp("failure rate", f"more than {failures_max} failures within {interval_ms} ms")
        case Exponential(attempts_max=attempts_max):
            if counted.attempts > attempts_max:
                return GiveUp("exponential delay", f"the limit of restarts is reached ({attempts_max})")
        case _:  # pragma: no cover
            assert_never(backoff)
    return None


def _delay_ms(backoff: _Retrying, attempt: int, jitter: float) -> int:
    match backoff:
        case FixedDelay(_, delay_ms) | FailureRate(_, _, delay_ms):
            return delay_ms
        case Exponential(initial_ms=initial_ms, factor=factor, delay_ms_max=delay_ms_max, jitter=spread):
            grown = min(float(delay_ms_max), initial_ms * _power(factor, attempt - 1, delay_ms_max))
            return round(min(float(delay_ms_max), grown * (1 + spread * jitter)))
        case _:  # pragma: no cover
            assert_never(backoff)


def _power(factor: float, exponent: int, enough: int) -> float:
    """factor ** exponent, stopped once it is `enough`, so that thousands of attempts cannot overflow."""
    grown = 1.0
    for _ in range(exponent):
        grown *= factor
        if grown >= enough:
            break
    return grown
