"""The constants of a run that a step may ask for: when the run began, and its seed.

They are chosen once, kept in the journal, and the same in every attempt and driver. A clock or a random source read in
a step would give another answer each time it is built. They are known while a step is built and at no other time: not
when the module is imported, and not inside a Python function that Spark calls on its executors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from rekindle.errors import Refused

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeAndSeed:
    """What a run decided about time and chance."""

    run_time_ms: int
    seed: int


_KNOWN: ContextVar[TimeAndSeed | None] = ContextVar("rekindle_known", default=None)


@contextmanager
def known(constants: TimeAndSeed) -> Iterator[None]:
    """While a step is built, in the thread that builds it."""
    token = _KNOWN.set(constants)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def run_time() -> datetime:
    """Return the start time of the run in UTC. It is the same in every attempt and driver of the run."""
    return EPOCH + timedelta(milliseconds=_ask("run_time").run_time_ms)


def seed() -> int:
    """Return a random number below 2**63. It is the same in every attempt and driver of the run."""
    return _ask("seed").seed


def _ask(name: str) -> TimeAndSeed:
    found = _KNOWN.get()
    if found is None:
        raise Refused(
            f"rk.{name}() was called outside of a step: it works only while a step is built",
            hint=f"call it in the step itself, and give its value to the functions that Spark runs: t = rk.{name}()",
        )
    return found
