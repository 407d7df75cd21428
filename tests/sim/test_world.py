"""The simulated world in CI: some thousands of schedules, and the simulator's own promises."""

from __future__ import annotations

import pytest

from world.campaign import run_seeds
from world.faults import CELLS, Fault
from world.scenario import Scenario, scenario_of
from world.values import Values
from world.world import World

pytestmark = pytest.mark.slow

SLICE = 500
SLICES = 10


@pytest.mark.parametrize("at", range(SLICES))
def test_no_rule_is_violated(at: int) -> None:
    tally = run_seeds(range(at * SLICE, (at + 1) * SLICE))
    assert not tally.broken
    assert tally.median_faults >= 3


def test_one_seed_is_one_story() -> None:
    first, second = World(scenario_of(77)), World(scenario_of(77))
    assert first.run().fired == second.run().fired
    assert first.ledger.events() == second.ledger.events()


@pytest.mark.parametrize("seed", range(20))
def test_a_scenario_prints_and_is_read_back(seed: int) -> None:
    scenario = scenario_of(seed)
    again = Scenario.parse(str(scenario))
    assert again == scenario
    assert World(again).run().acts == World(scenario).run().acts


def test_the_matrix_has_every_kind_and_phase() -> None:
    assert len(CELLS) > 300
    fault = Fault(*CELLS[0], 7)
    assert Fault.parse(str(fault)) == fault


def test_a_mixed_output_shows() -> None:
    values = Values()
    one, other = (values.make("a", 0, 0, values.fresh_draw(), ()) for _ in range(2))
    left, right = values.make("b", 0, 0, 0, (one,)), values.make("c", 0, 0, 0, (other,))
    assert values.mixed([left]) == []
    assert values.mixed([left, right]) == ["a[0]"]
