"""Schedules that once broke a rule, as they were found: each must stay right for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from world.scenario import Scenario
from world.world import World

FOUND = sorted((Path(__file__).parent / "found").glob("*.txt"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_it_stays_right(path: Path) -> None:
    World(Scenario.parse(path.read_text())).run()
