"""Scenarios D: what is released, what is deleted, and what never is."""

from __future__ import annotations

from master.driving import AT_ONCE, Driven
from rekindle.master import stimuli as st
from rekindle.master.commands import DeleteAttempt, Stop
from rekindle.master.config import MasterConfig
from rekindle.master.events import GenerationOpened, PartitionsReleased, RunClosed
from rekindle.master.state import Phase
from rekindle.model.ids import AttemptId
from rekindle.model.kinds import Proof


def released(run: Driven) -> list[str]:
    return [event.step for event in run.last if isinstance(event, PartitionsReleased)]


def deletions(run: Driven) -> list[AttemptId]:
    return [command.attempt for command in run.out if isinstance(command, DeleteAttempt)]


def test_a_result_is_released_after_both_consumers_and_not_before() -> None:
    run = Driven("a[1] =blocking=> b[1]\na =blocking=> c[1]", sinks=("b", "c"))
    run.finish("a")
    run.commit("b", "0")
    assert released(run) == []
    run.end("b")
    run.commit("c", "0")
    assert released(run) == ["a"]


def test_keep_until_run_end_and_for_ever() -> None:
    run = Driven("a[1]@run_end =blocking=> b[1]@forever =blocking=> c[1]", sinks=("c",))
    for step in "abc":
        run.finish(step)
    assert run.state.steps["a"].committed
    run.publish()
    assert sorted(released(run)) == ["a", "c"]
    assert run.state.steps["b"].committed


def test_nothing_is_released_early_if_told_so() -> None:
    run = Driven("a[1] =blocking=> b[1]", config=MasterConfig(backoff=AT_ONCE.backoff, is_released_early=False))
    run.finish("a")
    run.commit("b", "0")
    assert released(run) == []


def test_files_are_deleted_when_nothing_counts_and_nobody_reads_them() -> None:
    run = Driven("a[1] =blocking=> b[1]\na =blocking=> c[1]", sinks=("b", "c"))
    first = run.attempt("a")
    run.finish("a")
    run.finish("b")
    run.commit("c", "0")
    assert deletions(run) == []
    run.end("c")
    assert deletions(run) == [first]
    run.give(st.DeletionDone(first))
    assert run.give(st.DeletionDone(first)) == ()


def test_released_is_final_a_new_generation_is_opened_when_it_is_needed_again() -> None:
    run = Driven("a[2] =blocking=> b[2]@run_end =blocking=> c[2]", sinks=("c",))
    run.finish("a")
    run.commit("b", "0-1")
    assert released(run) == ["a"]
    run.lose("b", "0")
    run.end("b")
    run.fail("c", "0")
    opened = [event for event in run.last if isinstance(event, GenerationOpened)]
    assert [(event.step, str(event.dropped)) for event in opened] == [("a", "0")]
    assert run.open()["a"] == "0"


def test_a_failed_run_keeps_everything() -> None:
    run = Driven("a[1] =blocking=> b[1]")
    run.finish("a")
    run.give(st.CancelRun())
    run.give(st.AttemptEnded(run.attempt("b"), was_cancelled=True))
    assert run.is_now(Phase.FAILED)
    assert run.out == [Stop()] and run.state.steps["a"].committed


def test_gc_takes_over_seals_releases_deletes_and_closes() -> None:
    run = Driven("a[1] =blocking=> b[1]@forever")
    first = run.attempt("a")
    run.finish("a")
    second = run.attempt("b")
    run.give(st.CloseRun("gc", "gc"))
    assert run.state.epoch == 2 and released(run) == ["a"]
    assert deletions(run) == []
    run.give(st.AttemptSealed(second, run.state.attempts[second].partitions))
    assert not run.state.steps["b"].committed
    assert deletions(run) == [first, second]
    run.give(st.DeletionDone(first))
    run.give(st.CloseRun("gc2", "gc2"))
    run.give(st.DeletionDone(second))
    assert isinstance(run.last[-1], RunClosed)
    assert run.out == [Stop()]


def test_what_is_needed_again_beside_what_still_counts_is_carried_by_proof() -> None:
    run = Driven("a[2] =blocking=> b[2]@run_end =blocking=> c[2]\na =blocking=> d[2]\ne[1]", sinks=("c", "d"))
    run.finish("a")
    run.commit("b", "0-1")
    run.commit("d", "0")
    run.finish("e")
    assert str(run.state.steps["a"].released) == "0" and str(run.state.steps["a"].committed) == "1"
    run.lose("b", "0")
    run.end("b")
    run.fail("c", "0")
    opened = [event for event in run.last if isinstance(event, GenerationOpened)]
    assert [(one.step, str(one.dropped), str(one.carried)) for one in opened] == [("a", "0", "1")]
    assert opened[0].proof is Proof.NARROW


def test_a_published_output_is_not_released_while_the_run_goes_on() -> None:
    run = Driven("b[1]\nc[1]\nd[1]", sinks=("b", "c"))
    for step in "bcd":
        run.finish(step)
    fence = run.state.publication
    assert fence is not None
    run.give(st.SinkDone("b", fence))
    run.lose("c", "0")
    run.commit("c", "0")
    assert released(run) == [] and run.state.steps["b"].committed
