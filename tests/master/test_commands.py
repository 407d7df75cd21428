"""What a command carries: the files that count, what the engine may trust, and when the master is done."""

from __future__ import annotations

from master.driving import Driven
from rekindle.master.facts import stimuli as st
from rekindle.master.state.commands import Input, PublishSink, StartAttempt, Stop
from rekindle.master.state.run_state import Phase
from rekindle.model.partitions import Partitions


def start(run: Driven, step: str) -> StartAttempt:
    return next(one for one in run.out if isinstance(one, StartAttempt) and one.attempt.step == step)


def test_an_attempt_is_told_what_to_make_and_which_files_count() -> None:
    run = Driven("a[3] =blocking=> b[3]! =blocking all?=> c[2]?")
    first = start(run, "a")
    assert (first.attempt, first.partitions, first.inputs) == (run.attempt("a"), Partitions((0, 1, 2)), ())
    assert first.is_repeatable and first.is_first
    run.commit("a", "0")
    run.commit("a", "1")
    run.fail("a", "2")
    run.commit("a", "2")
    second = start(run, "b")
    assert second.inputs == (Input("a", run.state.steps["a"].segments),)
    assert len(run.state.steps["a"].segments) == 3
    assert not second.is_repeatable and second.is_first
    assert (second.exchange_version, second.exchange_checksum) == (0, None)


def test_an_attempt_is_given_only_the_segments_it_reads() -> None:
    run = Driven("a[2] =blocking=> b[2]")
    run.commit("a", "0")
    run.commit("a", "1")
    run.end("a")
    run.commit("b", "0")
    run.fail("b", "1")
    (read,) = start(run, "b").inputs
    assert read == Input("a", run.state.steps["a"].segments[1:])
    assert read.partitions == Partitions((1,))
    assert Input("a", read.segments, holes=Partitions((0,))).partitions == Partitions((0, 1))


def test_a_retry_knows_the_exchange_its_step_was_written_over() -> None:
    run = Driven("a[2] =blocking all.=> b[3]")
    run.finish("a")
    run.commit("b", "0", version=3)
    run.commit("b", "1", version=3, checksum="sum")
    run.fail("b", "2")
    again = start(run, "b")
    assert (again.exchange_version, again.exchange_checksum, again.is_first) == (3, "sum", False)


def test_a_publication_carries_its_fence_and_the_committed_files() -> None:
    run = Driven("a[2]", sinks=("a",))
    run.commit("a", "0")
    run.finish("a")
    (command,) = (one for one in run.out if isinstance(one, PublishSink))
    assert command.fence == run.state.publication
    assert command.segments == run.state.steps["a"].segments and len(command.segments) == 2


def test_a_master_that_succeeded_stops_when_its_waste_is_deleted() -> None:
    run = Driven("a[1]", sinks=("a",))
    attempt = run.attempt("a")
    run.finish("a")
    run.publish()
    assert run.is_now(Phase.SUCCEEDED) and Stop() not in run.out
    run.give(st.DeletionDone(attempt))
    assert run.out == [Stop()]
