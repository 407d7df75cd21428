"""Scenarios C: whether and when the run goes on after failures."""

from __future__ import annotations

import pytest

from master.driving import AT_ONCE, Driven
from rekindle.errors import Refused
from rekindle.failover.restart import Strategy
from rekindle.master.decide import decide, decision
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import (
    AttemptClosed,
    AttemptOpened,
    FailureHandled,
    GenerationOpened,
    Outcome,
    RunFailing,
    RunStopped,
)
from rekindle.master.state.commands import CancelAttempt, Stop, WakeAt
from rekindle.master.state.run_state import Phase
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.partitions import Partitions


def delayed(kind: str = "fixed", **values: int | float) -> MasterConfig:
    return MasterConfig(backoff=BackoffSpec(kind, values))


def handled(run: Driven) -> FailureHandled:
    return next(event for event in run.last if isinstance(event, FailureHandled))


def given_up(run: Driven) -> str:
    return next(event.gave_up for event in run.last if isinstance(event, RunFailing))


def test_an_accepted_restart_has_delay_set_cause_and_time() -> None:
    run = Driven("a[2]", config=delayed(attempts_max=3, delay_ms=50))
    run.commit("a", "0")
    run.fail("a", "1")
    event = handled(run)
    assert (event.due_ms - event.at_ms, str(event.failures[0].partitions)) == (50, "1")
    assert WakeAt(event.due_ms) in run.out
    assert run.open() == {}
    run.give(st.Tick(), after_ms=49)
    assert run.open() == {}
    run.give(st.Tick(), after_ms=1)
    assert run.open() == {"a": "1"}


def test_a_suppressed_restart_names_who_gave_up() -> None:
    run = Driven("a[2]", config=delayed(attempts_max=1, delay_ms=0))
    run.fail("a", "1", signature="one")
    run.fail("a", "0", signature="two")
    assert given_up(run) == "fixed delay: the limit of restarts is reached (1)"
    assert run.is_now(Phase.FAILED)
    assert run.out[-1] == Stop()


def test_an_unrecoverable_cause_is_never_retried_also_when_nested() -> None:
    run = Driven("a[2]")
    nested = Cause(FailureKind.EXCEPTION, "wrapped", Cause(FailureKind.USER_ERROR, "no such column"))
    run.give(st.AttemptEnded(attempt=run.attempt("a"), failures=(Failure("a", Partitions((0,)), nested, "x"),)))
    assert given_up(run).startswith("unrecoverable cause")


def test_several_failures_at_once_count_once() -> None:
    run = Driven("a[3]", config=delayed(attempts_max=1, delay_ms=10))
    cause = Cause(FailureKind.EXCEPTION)
    both = tuple(Failure("a", Partitions((at,)), cause, f"{at}") for at in (0, 1))
    run.give(st.AttemptEnded(attempt=run.attempt("a"), failures=both))
    assert handled(run).memory.attempts == 1


def test_a_failure_during_anothers_recovery_joins_it() -> None:
    run = Driven("a[2] =blocking=> c[2]\nb[2] =blocking=> d[2]", config=delayed(attempts_max=1, delay_ms=100))
    run.fail("a", "0")
    due = handled(run).due_ms
    run.fail("b", "1")
    assert handled(run).due_ms == due
    assert handled(run).memory.attempts == 1


def test_an_outdated_attempt_reporting_late_is_ignored() -> None:
    run = Driven("a[2]")
    old = run.attempt("a")
    run.fail("a", "0")
    assert run.give(st.CommitsSeen(attempt=old, partitions=Partitions((0,)))) == ()
    assert run.give(st.AttemptEnded(attempt=old)) == ()
    assert run.give(st.AttemptSealed(attempt=old, partitions=Partitions((0,)))) == ()
    assert run.give(st.DeletionDone(run.attempt("a"))) == ()


def test_suspects_run_alone_and_last() -> None:
    run = Driven("a[3]")
    run.fail("a", "1")
    assert run.open() == {"a": "0,2"}
    run.commit("a", "0")
    assert run.open() == {"a": "2"}
    run.finish("a")
    assert run.open() == {"a": "1"}


def test_a_committed_partition_did_not_fail() -> None:
    run = Driven("a[2]")
    run.commit("a", "1")
    run.fail("a", "1")
    assert handled(run).failures[0].partitions == Partitions()
    assert run.state.failed() == {}


def test_what_was_written_with_a_plan_that_loses_rows_counts_no_more() -> None:
    run = Driven("a[3]")
    run.commit("a", "1")
    cause = Cause(FailureKind.INVARIANT, "Spark writes 2 partitions where the layout has 3")
    failures = (Failure("a", Partitions(), cause, "s"),)
    run.give(st.AttemptEnded(attempt=run.attempt("a"), failures=failures, disproved=Partitions((1,))))
    assert not run.state.steps["a"].committed
    assert given_up(run) == "unrecoverable cause: invariant violated"


def test_attempts_of_a_step_are_bounded() -> None:
    config = MasterConfig(backoff=AT_ONCE.backoff, attempts_per_step_max=2)
    run = Driven("a[1]", config=config)
    run.fail("a", "0", FailureKind.NO_SPACE)
    run.fail("a", "0", FailureKind.NO_SPACE)
    assert given_up(run) == "a reached the limit of attempts (2)"


def test_running_attempts_are_cancelled_and_what_they_still_commit_is_kept() -> None:
    run = Driven("a[1]\nb[2]", config=delayed("none"))
    run.fail("a", "0")
    other = run.attempt("b")
    assert run.is_now(Phase.FAILING)
    assert CancelAttempt(other) in run.out
    run.commit("b", "0")
    run.give(st.AttemptEnded(attempt=other, was_cancelled=True))
    assert [type(event) for event in run.last] == [AttemptClosed, RunStopped]
    assert str(run.state.steps["b"].committed) == "0"
    assert run.give(st.CancelRun()) == ()


def test_failures_of_a_cancelled_attempt_do_not_count() -> None:
    run = Driven("a[1]\nb[2]", config=delayed("none"))
    run.fail("a", "0")
    run.fail("b", "0")
    closed = next(event for event in run.last if isinstance(event, AttemptClosed))
    assert closed.outcome is Outcome.CANCELLED


def test_strategy_full_restarts_all_that_ever_started() -> None:
    config = MasterConfig(strategy=Strategy.FULL, backoff=AT_ONCE.backoff)
    run = Driven("a[2] =blocking=> b[2] =blocking=> c[2]", config=config)
    run.finish("a")
    run.fail("b", "0")
    opened = [event for event in run.last if isinstance(event, GenerationOpened)]
    assert {event.step: str(event.dropped) for event in opened} == {"a": "0-1", "b": "0-1"}
    assert run.open() == {"a": "0-1"}


FULL = MasterConfig(strategy=Strategy.FULL, backoff=AT_ONCE.backoff)
CHAIN = "a[2] =blocking=> b[2] =blocking=> c[2]"


def dropped(run: Driven) -> dict[str, str]:
    return {event.step: str(event.dropped) for event in run.last if isinstance(event, GenerationOpened)}


def test_strategy_full_restarts_everything_when_a_driver_died() -> None:
    run = Driven(CHAIN, config=FULL)
    run.finish("a")
    run.commit("b", "0")
    run.take_over()
    assert dropped(run) == {"a": "0-1", "b": "0-1"}
    run.seal("b", "0")
    assert run.open() == {"a": "0-1"}, "what the dead driver had finished is not adopted"


def test_strategy_full_restarts_everything_when_a_result_that_is_needed_is_lost() -> None:
    run = Driven("a[2] =blocking=> b[2] =blocking=> c[2]\nother[2] =blocking=> c", config=FULL)
    run.finish("a")
    run.finish("b")
    run.lose("a", "0")
    assert dropped(run) == {}, "nobody reads it any more"
    run.lose("b", "1")
    assert dropped(run) == {"a": "0-1", "b": "0-1", "other": "0-1"}


def test_strategy_full_restarts_nothing_that_may_be_published() -> None:
    run = Driven("a[2] =blocking=> b[2]\na =blocking=> c[2]", sinks=("b", "c"), config=FULL)
    for step in "abc":
        run.finish(step)
    run.take_over()
    assert dropped(run) == {}, "it is being published"


def test_a_strategy_given_on_resume_is_the_one_of_the_run_from_then_on() -> None:
    run = Driven(CHAIN)
    run.finish("a")
    run.commit("b", "0")
    given = (None, Strategy.FULL, Strategy.INDIVIDUAL)
    found = []
    for strategy in given:
        run.take_over(strategy=strategy)
        found.append((run.state.config.strategy.value, dropped(run)))
    assert found == [("region", {}), ("full", {"a": "0-1", "b": "0-1"}), ("individual", {})]


def test_a_strategy_that_would_be_wrong_is_refused_on_resume() -> None:
    run = Driven("a[1] ~> b[1]")
    with pytest.raises(Refused, match="strategy individual: a -> b is pipelined"):
        run.take_over(strategy=Strategy.INDIVIDUAL)


def test_the_user_cancels_and_resumes() -> None:
    run = Driven("a[2]")
    run.commit("a", "0")
    run.give(st.CancelRun("anna"))
    assert given_up(run) == "cancelled by anna"
    run.give(st.AttemptEnded(attempt=run.attempt("a"), was_cancelled=True))
    assert run.is_now(Phase.FAILED)
    run.take_over()
    assert run.is_now(Phase.RUNNING)
    assert run.open() == {"a": "1"}


def test_a_resume_begins_a_new_count() -> None:
    run = Driven("a[1]", config=delayed(attempts_max=1, delay_ms=0))
    run.fail("a", "0", signature="one")
    run.fail("a", "0", signature="two")
    run.take_over()
    assert run.state.memory.attempts == 0
    assert not run.state.steps["a"].suspects.partitions


@pytest.mark.parametrize("kind", ["none", "fixed", "rate", "exponential"])
def test_every_backoff_is_journaled_and_read_back(kind: str) -> None:
    values: dict[str, dict[str, int | float]] = {
        "none": {},
        "fixed": {"attempts_max": 1, "delay_ms": 2},
        "rate": {"failures_max": 1, "interval_ms": 2, "delay_ms": 3},
        "exponential": {"initial_ms": 5},
    }
    policy = BackoffSpec(kind, values[kind]).policy()
    assert BackoffSpec.of(policy).policy() == policy


def test_a_partition_reported_done_by_none_is_started_again() -> None:
    run = Driven("a[2]")
    run.commit("a", "0")
    run.end("a")
    assert run.open() == {"a": "1"}


def exponential(run_jitter: float | None) -> int:
    """The delay after a first failure, with this draw; None calls without one."""
    config = delayed("exponential", initial_ms=1000, jitter=0.5)
    run = Driven("a[1]", config=config)
    failure = Failure("a", Partitions((0,)), Cause(FailureKind.EXCEPTION), "boom")
    stimulus = st.AttemptEnded(attempt=run.attempt("a"), failures=(failure,))
    events = decide(run.state, stimulus, 10) if run_jitter is None else decide(run.state, stimulus, 10, run_jitter)
    event = next(event for event in events if isinstance(event, FailureHandled))
    return event.due_ms - event.at_ms


def test_the_delay_is_moved_by_the_jitter_that_was_drawn() -> None:
    assert [exponential(drawn) for drawn in (None, 0.0, 1.0, -1.0)] == [1000, 1000, 1500, 500]
    run = Driven("a[1]", config=delayed("exponential", initial_ms=1000, jitter=0.5))
    failure = Failure("a", Partitions((0,)), Cause(FailureKind.EXCEPTION), "boom")
    events, _ = decision(run.state, st.AttemptEnded(attempt=run.attempt("a"), failures=(failure,)), 10)
    event = next(event for event in events if isinstance(event, FailureHandled))
    assert event.due_ms - event.at_ms == 1000


def test_of_several_failures_the_unrecoverable_one_decides() -> None:
    run = Driven("a[2]")
    kinds = (FailureKind.EXCEPTION, FailureKind.USER_ERROR)
    both = tuple(Failure("a", Partitions((at,)), Cause(kind), f"{at}") for at, kind in enumerate(kinds))
    run.give(st.AttemptEnded(attempt=run.attempt("a"), failures=both))
    assert given_up(run).startswith("unrecoverable cause")
    assert run.state.failing is not None and run.state.failing.failures == both


def test_a_failure_of_a_fused_step_is_one_of_the_step_that_is_kept() -> None:
    run = Driven("a[2] ~> b[2]")
    failure = Failure("a", Partitions((1,)), Cause(FailureKind.EXCEPTION), "boom")
    run.give(st.AttemptEnded(attempt=run.attempt("b"), failures=(failure,)))
    assert [(one.step, str(one.partitions)) for one in handled(run).failures] == [("b", "1")]
    assert run.state.failed() == {"b": Partitions((1,))}


def test_of_a_failure_only_what_is_not_committed_is_suspected() -> None:
    run = Driven("a[3]")
    run.commit("a", "0")
    run.fail("a", "0-1")
    assert run.state.steps["a"].suspects.partitions == Partitions((1,))


def test_the_reasons_of_an_attempt_are_those_of_its_own_partitions() -> None:
    """Beside poison, a reader is only a part of what has to run."""
    run = Driven("a[4] =blocking=> b[4]", config=MasterConfig(backoff=AT_ONCE.backoff, poison_tries_max=2))
    run.commit("a", "0,2-3")
    for _ in range(2):
        run.fail("a", "1", signature="one")
    (opened,) = (event for event in run.last if isinstance(event, AttemptOpened))
    assert (opened.attempt.step, str(opened.partitions)) == ("b", "0,2-3")
    assert [str(at) for _, at in opened.because] == ["0,2-3"]
