"""Rules that a long simulation found broken, in the fewest steps that show them."""

from __future__ import annotations

from master.driving import Driven
from rekindle.master.state.commands import StartAttempt
from rekindle.model.failures import FailureKind


def starts(run: Driven, step: str) -> list[StartAttempt]:
    return [one for one in run.out if isinstance(one, StartAttempt) and one.attempt.step == step]


def test_an_attempt_beside_one_of_an_older_generation_is_not_the_first() -> None:
    """The older one may still commit over constants of its own: the engine must compare."""
    run = Driven("a[2]?@forever =blocking=> b[2]!@constants")
    run.finish("a")
    run.lose("a", "0")
    run.commit("b", "0")
    run.fail("b", "1", FailureKind.NO_SPACE)
    run.commit("a", "0")
    (start,) = starts(run, "b")
    assert (str(start.partitions), start.attempt.generation) == ("0", 1)
    assert str(run.state.running("b")) == "0-1"
    assert not start.is_first


def test_an_input_that_changes_after_its_reader_was_dropped_makes_the_reader_another_version() -> None:
    """Without digests, on the user's word: the reader is made again from other inputs and must not count as equal."""
    run = Driven("a[2]?:caching =caching all.=> b[2]*@whole =blocking all?=> c[1]")
    run.finish("a")
    run.finish("b")
    run.lose("b", "1")
    run.lose("a", "0")
    run.fail("c", "0", FailureKind.RESULT_MISSING)
    run.finish("a")
    run.finish("b")
    assert run.state.steps["c"].generation == 1
