"""Reports of an engine, waited for."""

from __future__ import annotations

import time

from rekindle.engine.port import Engine
from rekindle.master.facts.stimuli import Stimulus

# Far more than any of them takes: under load nothing here may fail by the clock.
SECONDS_MAX = 500.0


def until(engine: Engine, kind: type[Stimulus]) -> list[Stimulus]:
    """What is reported up to and with the first report of a kind."""
    found: list[Stimulus] = []
    deadline = time.monotonic() + SECONDS_MAX
    while not any(isinstance(one, kind) for one in found):
        assert time.monotonic() < deadline, f"no {kind.__name__}: {found}"
        found += engine.poll(200)
    return found
