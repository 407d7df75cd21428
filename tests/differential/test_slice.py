"""A slice of the differential tester: a fixed set of random programs and a few new ones, against bare Spark."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from differential.crew import Crew
from differential.drawing import draw
from differential.judge import Outcome, play
from differential.report import script_text
from differential.values import Mode

# An order, one partition, a hint with a layout, changed code, a read in a step, an alias, a dotted key; four of them go
# on in a new driver. A seed is another program after a change of the grammar: choose them anew then.
FIXED = (72, 89, 1648, 32, 218, 74, 170, 70, 489, 8, 21, 947, 307, 496, 481, 27)
NEW_DRIVERS_MIN = 4
RANDOM = 4


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    with Crew(tmp_path_factory.mktemp("crew")) as working:
        yield working


def test_some_of_the_fixed_ones_go_on_in_a_new_driver() -> None:
    assert sum(draw(seed).mode is Mode.NEW_DRIVER for seed in FIXED) >= NEW_DRIVERS_MIN


@pytest.mark.parametrize("seed", FIXED)
def test_a_fixed_program_is_equal_to_bare_spark(seed: int, crew: Crew, tmp_path: Path) -> None:
    program = draw(seed)
    verdict = play(program, crew, tmp_path / "work")
    assert verdict.outcome is Outcome.EQUAL, script_text(program, verdict)


def of_this_commit(number: int) -> random.Random:
    """Other programs with every commit, and the same ones for whoever runs the tests of one again."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    return random.Random(f"{done.stdout.strip()} {number}")


@pytest.mark.parametrize("number", range(RANDOM))
def test_a_new_program_is_equal_to_bare_spark_or_refused_by_name(number: int, crew: Crew, tmp_path: Path) -> None:
    """One that bare Spark does not run says nothing, and another one is drawn."""
    drawn = of_this_commit(number)
    while True:
        program = draw(drawn.randrange(1_000_000, 1_000_000_000))
        verdict = play(program, crew, tmp_path / "work")
        if verdict.outcome is not Outcome.DISCARDED:
            break
    print(f"seed {program.seed}: make differential ARGS='--seed {program.seed}'")
    assert not verdict.is_bad, script_text(program, verdict)
