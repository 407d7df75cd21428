"""The thin line through the master: start, commit, fail, retry the missing set, take over, finish."""

from __future__ import annotations

from master.driving import Driven
from rekindle.master.facts.events import AttemptOpened, GenerationOpened, PartitionsCommitted, RunSucceeded
from rekindle.master.state.apply import fold
from rekindle.master.state.commands import DeleteAttempt, PublishSink, SealAttempt, StartAttempt, Stop
from rekindle.master.state.run_state import Phase


def test_a_run_without_a_fault_goes_from_source_to_sink() -> None:
    run = Driven("a[4] =blocking=> b[4] =blocking all=> c[3]", sinks=("c",))
    assert run.open() == {"a": "0-3"}
    assert [type(command) for command in run.out] == [StartAttempt]
    run.finish("a")
    assert run.open() == {"b": "0-3"}
    run.finish("b")
    run.finish("c")
    assert [command for command in run.out if isinstance(command, PublishSink)]
    run.publish()
    assert run.is_now(Phase.SUCCEEDED)
    assert any(isinstance(event, RunSucceeded) for event in run.last)


def test_a_consumer_waits_until_all_it_reads_is_committed() -> None:
    run = Driven("a[2] =blocking all=> b[2]")
    run.commit("a", "0")
    assert run.open() == {"a": "1"}
    run.commit("a", "1")
    assert run.open()["b"] == "0-1"


def test_after_a_failure_only_the_missing_set_runs() -> None:
    run = Driven("a[4]")
    run.commit("a", "0-2")
    run.fail("a", "3")
    assert run.open() == {"a": "3"}
    opened = [event for event in run.last if isinstance(event, AttemptOpened)]
    assert opened[0].attempt.number == 2


def test_a_takeover_seals_adopts_and_opens_anew() -> None:
    run = Driven("a[4]", sinks=("a",))
    first = run.attempt("a")
    run.commit("a", "0")
    run.take_over()
    assert run.out == [SealAttempt(first)]
    run.seal("a", "0-2")
    adopted = [event for event in run.last if isinstance(event, PartitionsCommitted)]
    assert str(adopted[0].partitions) == "1-2" and adopted[0].is_adopted
    assert run.open() == {"a": "3"}
    assert run.attempt("a").epoch == 2
    run.finish("a")
    run.publish()
    assert any(isinstance(command, Stop | DeleteAttempt) for command in run.out)


def test_a_takeover_starts_an_indeterminate_exchange_over() -> None:
    run = Driven("a[2] =blocking all!=> b[3]!", sinks=("b",))
    run.finish("a")
    run.commit("b", "0-1")
    run.take_over()
    run.seal("b", "2")
    opened = [event for event in run.last if isinstance(event, GenerationOpened)]
    assert [(one.step, str(one.dropped)) for one in opened] == [("b", "0-2")]
    assert run.open() == {"b": "0-2"}


def test_replay_gives_the_same_state_without_any_policy() -> None:
    run = Driven("a[4] =blocking=> b[4]", sinks=("b",))
    run.commit("a", "0-2")
    run.fail("a", "3")
    run.take_over()
    run.seal("a")
    run.finish("a")
    assert fold(None, run.journal) == run.state
