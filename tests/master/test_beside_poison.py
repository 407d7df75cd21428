"""Poison is not tried again; all that does not need it is made; then the run ends, and says what was poisoned."""

from __future__ import annotations

from msgspec.structs import replace

from given import sets
from master.driving import AT_ONCE, Driven
from rekindle.failover.restart import Strategy
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import RunFailing
from rekindle.master.rules.poison_beside import blocked, failures, poisoned, sentence
from rekindle.master.state.commands import Stop
from rekindle.master.state.run_state import Phase
from rekindle.model.failures import FailureKind
from rekindle.model.partitions import Partitions


def delayed(**values: int | float) -> MasterConfig:
    return MasterConfig(backoff=BackoffSpec("fixed", values))


def given_up(run: Driven) -> str:
    return next(event.gave_up for event in run.last if isinstance(event, RunFailing))


def poison(run: Driven, step: str, at: str) -> None:
    """Fail one partition until it is poison; the others of the step finish in between."""
    for _ in range(3):
        run.fail(step, at)
        if run.open().get(step, at) != at:
            run.finish(step)


def test_poison_stops_the_step_and_everything_healthy_is_kept() -> None:
    run = Driven("a[3]")
    run.fail("a", "1")
    run.finish("a")
    run.fail("a", "1")
    run.fail("a", "1")
    assert given_up(run).startswith("poison: a[1] failed 3 times")
    assert str(run.state.steps["a"].committed) == "0,2"


def test_beside_poison_other_steps_finish_before_the_run_is_given_up() -> None:
    run = Driven("a[3]\nb[2] =blocking=> c[2]")
    poison(run, "a", "1")
    assert run.is_now(Phase.RUNNING) and run.open() == {"b": "0-1"}
    run.finish("b")
    assert run.open() == {"c": "0-1"}
    run.finish("c")
    assert given_up(run) == "poison: a[1] failed 3 times in the same way: exception"
    assert run.is_now(Phase.FAILED) and run.out[-1] == Stop()
    assert run.state.failing is not None and run.state.failing.failures[0].partitions == Partitions((1,))


def test_beside_poison_single_partitions_of_its_readers_finish() -> None:
    run = Driven("a[3] =blocking=> b[3] =blocking all=> c[2]")
    poison(run, "a", "1")
    assert run.open() == {"b": "0,2"}
    run.finish("b")
    assert given_up(run).startswith("poison: a[1]")
    assert str(run.state.steps["b"].committed) == "0,2"


def test_beside_poison_a_reader_that_waits_for_its_backoff_is_waited_for() -> None:
    run = Driven("a[3] =blocking=> b[3]", config=delayed(attempts_max=9, delay_ms=50))
    for _ in range(3):
        run.give(st.Tick(), after_ms=60)
        run.fail("a", "1")
        run.give(st.Tick(), after_ms=60)
        if run.open().get("a", "1") != "1":
            run.finish("a")
    run.give(st.Tick(), after_ms=60)
    run.fail("b", "0", FailureKind.NO_SPACE)
    assert run.is_now(Phase.RUNNING) and run.open() == {}
    run.give(st.Tick(), after_ms=60)
    assert run.open() == {"b": "0,2"}


def test_beside_poison_a_step_that_must_start_over_as_a_whole_is_waited_for() -> None:
    run = Driven("a[1]\nb[2]@whole", config=delayed(attempts_max=9, delay_ms=50))
    run.commit("b", "1")
    for _ in range(3):
        run.give(st.Tick(), after_ms=60)
        run.fail("a", "0")
    run.fail("b", "0", FailureKind.NO_SPACE)
    assert run.is_now(Phase.RUNNING) and run.open() == {}
    run.give(st.Tick(), after_ms=60)
    assert run.open() == {"b": "0-1"}
    run.finish("b")
    assert given_up(run).startswith("poison: a[0]")


def test_a_signature_seen_too_often_stops_the_whole_step() -> None:
    config = MasterConfig(backoff=AT_ONCE.backoff, poison_step_max=4)
    run = Driven("a[6] =blocking=> b[6]", config=config)
    run.commit("a", "5")
    run.fail("a", "0-3")
    assert run.open() == {"b": "5"}
    run.finish("b")
    assert given_up(run).startswith("poison: a[0-3] failed once")


def test_a_failure_that_names_no_partition_stops_the_step_when_it_comes_again() -> None:
    run = Driven("a[2]\nb[1]")
    run.fail("a", "")
    assert run.open() == {"a": "0-1", "b": "0"}
    run.fail("a", "")
    run.fail("a", "")
    run.finish("b")
    assert given_up(run) == "poison: a failed 3 times in the same way: exception"


def test_poison_in_a_step_that_restarts_whole_blocks_all_of_it() -> None:
    run = Driven("a[3]@whole =blocking=> b[3]\nd[1]")
    for _ in range(3):
        run.fail("a", "1")
    run.finish("d")
    assert given_up(run).startswith("poison: a[1]")


def test_under_restart_all_poison_is_not_restarted() -> None:
    run = Driven("a[2]\nb[1]", config=MasterConfig(strategy=Strategy.FULL, backoff=AT_ONCE.backoff))
    for _ in range(2):
        run.fail("a", "1")
        run.end_cancelled()
        run.finish("b")
        run.finish("a")
    run.fail("a", "1")
    assert given_up(run).startswith("poison: a[1]")
    assert str(run.state.steps["b"].committed) == "0"


def test_what_cannot_finish_are_the_poisoned_and_all_their_readers() -> None:
    drawing = "h[1]\na[3] =blocking=> b[3] =blocking=> c[3]\nx[3] =blocking=> c\nc =blocking all=> d[1]"
    config = MasterConfig(backoff=AT_ONCE.backoff, poison_tries_max=1)
    run = Driven(drawing, config=config)
    run.fail("a", "1", signature="one")
    run.fail("x", "2", signature="two")
    assert blocked(run.state) == sets("a:1 b:1 c:1-2 x:2 d:0")
    assert sentence(run.state) == ("poison: a[1] failed once: exception; x[2] failed once: exception")


def test_poison_is_named_by_its_signature_where_its_failure_is_not_known() -> None:
    run = Driven("a[1]\nb[1]", config=MasterConfig(backoff=AT_ONCE.backoff, poison_tries_max=1))
    run.fail("a", "0", signature="division by zero")
    bare = replace(
        run.state, steps=run.state.steps | {"a": replace(run.state.steps["a"], last_failure_by_signature={})}
    )
    assert sentence(bare) == "poison: a[0] failed once: division by zero"
    assert failures(bare) == ()


def test_beside_poison_other_partitions_of_its_own_step_are_made() -> None:
    run = Driven("a[3]", config=MasterConfig(backoff=AT_ONCE.backoff, poison_tries_max=1))
    run.fail("a", "1")
    assert poisoned(run.state, "a") == Partitions((1,))
    assert run.open() == {"a": "0,2"}


def test_beside_poison_readers_of_readers_follow_when_their_input_is_there() -> None:
    run = Driven("a[3] =blocking=> b[3] =blocking=> c[3]")
    poison(run, "a", "1")
    assert run.open() == {"b": "0,2"}
    run.finish("b")
    assert run.open() == {"c": "0,2"}
    run.finish("c")
    assert given_up(run).startswith("poison: a[1]")


def test_beside_poison_a_reader_that_is_due_at_once_runs_at_once() -> None:
    run = Driven("a[3] =blocking=> b[3]")
    poison(run, "a", "1")
    run.fail("b", "0", FailureKind.NO_SPACE)
    assert run.open() == {"b": "0,2"}


def test_poison_that_blocks_everything_is_not_waited_for() -> None:
    run = Driven("a[1]", config=delayed(attempts_max=9, delay_ms=50))
    for _ in range(3):
        run.give(st.Tick(), after_ms=60)
        run.fail("a", "0")
    assert run.is_now(Phase.FAILED) and run.state.steps["a"].due_ms > run.now


def test_beside_poison_what_cannot_stand_beside_a_new_exchange_does_not_run() -> None:
    run = Driven("a[3] =blocking=> b[3]!@constants", config=MasterConfig(backoff=AT_ONCE.backoff))
    poison(run, "a", "1")
    assert run.open() == {"b": "0,2"}
    run.commit("b", "0")
    run.take_over()
    run.seal("b")
    assert given_up(run).startswith("poison: a[1]")
    assert str(run.state.steps["b"].committed) == "0"


def test_beside_poison_what_was_released_is_not_made_in_the_same_generation() -> None:
    run = Driven("a[3] =blocking=> b[3] =blocking=> c[3]@forever\nd[1]")
    for step in "abc":
        run.finish(step)
    assert str(run.state.steps["b"].released) == "0-2"
    run.lose("c", "0-1")
    assert run.open() == {"a": "0-1", "d": "0"}
    run.finish("d")
    poison(run, "a", "1")
    assert given_up(run).startswith("poison: a[1]")
    assert str(run.state.steps["c"].committed) == "2"
