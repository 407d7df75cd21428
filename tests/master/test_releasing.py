"""Scenarios D: what is released, what is deleted, and what never is."""

from __future__ import annotations

import pytest

from master.driving import AT_ONCE, Driven
from rekindle.errors import StoreFailed
from rekindle.failover.budget import BudgetChoice
from rekindle.master.decide import decide
from rekindle.master.dispatch import commands, deletable
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import MasterConfig
from rekindle.master.facts.events import GenerationOpened, PartitionsReleased, PinNoticed, TombstoneWritten
from rekindle.master.machine import BATCH
from rekindle.master.rules.releasing import kept_bytes, over_budget
from rekindle.master.state.apply import fold
from rekindle.master.state.commands import DeleteAttempt, ReleaseExchanges, Stop
from rekindle.master.state.run_state import Phase
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.kinds import Proof
from rekindle.model.partitions import Partitions
from rekindle.runtime.loop import decide_asking


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
    run.give(st.AttemptEnded(attempt=run.attempt("b"), was_cancelled=True))
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
    run.give(st.AttemptSealed(attempt=second, partitions=run.state.attempts[second].partitions))
    assert not run.state.steps["b"].committed
    assert deletions(run) == [first, second]
    run.give(st.DeletionDone(first))
    run.give(st.CloseRun("gc2", "gc2"))
    run.give(st.DeletionDone(second))
    assert isinstance(run.last[-1], TombstoneWritten)
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


def test_what_is_read_and_published_stays_until_it_is_published() -> None:
    run = Driven("a[1] =blocking=> b[1]", sinks=("a", "b"))
    run.finish("a")
    run.commit("b", "0")
    assert released(run) == []
    run.end("b")
    run.publish()
    assert run.is_now(Phase.SUCCEEDED) and sorted(released(run)) == ["a", "b"]


def budgeted(drawing: str, budget_bytes: int, *, sinks: tuple[str, ...] = ()) -> Driven:
    config = MasterConfig(backoff=AT_ONCE.backoff, budget_bytes=budget_bytes)
    return Driven(drawing, config=config, sinks=sinks)


THREE = "a[1]@run_end =blocking=> b[1]@run_end =blocking=> c[1]@run_end =blocking=> d[1]"


def test_over_the_budget_the_cheapest_spare_goes() -> None:
    run = budgeted(THREE, 35, sinks=("d",))
    for step, cost_ms in (("a", 50), ("b", 5), ("c", 50)):
        run.commit(step, "0", size_bytes=10, after_ms=cost_ms)
        run.end(step)
    assert run.state.stored_bytes == 30
    run.commit("d", "0", size_bytes=10)
    assert released(run) == ["b"]
    assert [event.is_for_budget for event in run.last if isinstance(event, PartitionsReleased)] == [True]
    assert run.state.steps["a"].committed


@pytest.mark.parametrize(("is_adopted", "gone"), [(False, "a"), (True, "b")], ids=["timed", "nobody timed it"])
def test_what_nobody_knows_the_time_of_is_dearer_than_what_was_timed(is_adopted: bool, gone: str) -> None:
    """`a` took a millisecond. What a dead driver made and nobody recorded took an unknown time."""
    run = budgeted(THREE, 35, sinks=("d",))
    old = run.attempt("a")
    if is_adopted:
        run.take_over()
        run.give(
            st.AttemptSealed(
                attempt=old, partitions=run.graph.whole["a"], manifest=b"files", exchange_version=0, size_bytes=10
            )
        )
    else:
        run.commit("a", "0", size_bytes=10, after_ms=1)
        run.end("a")
    for step in "bc":
        run.commit(step, "0", size_bytes=10, after_ms=50)
        run.end(step)
    run.commit("d", "0", size_bytes=10)
    assert [event for event in run.last if isinstance(event, PartitionsReleased)] == [
        PartitionsReleased(gone, Partitions((0,)), is_for_budget=True)
    ]


def test_of_a_step_only_the_attempts_go_that_there_is_no_room_for() -> None:
    run = budgeted("a[2]@run_end =blocking=> b[2]@run_end =blocking=> c[2]", 35)
    run.commit("a", "0", size_bytes=10)
    run.fail("a", "1")
    second = run.attempt("a")
    run.commit("a", "1", size_bytes=20)
    run.end("a")
    run.commit("b", "0-1", size_bytes=10)
    run.end("b")
    assert [event for event in run.last if isinstance(event, PartitionsReleased)] == [
        PartitionsReleased("a", Partitions((1,)), is_for_budget=True)
    ]
    assert deletions(run) == [second] and str(run.state.steps["a"].committed) == "0"


def test_nothing_that_is_needed_goes_for_the_budget() -> None:
    run = budgeted(THREE, 5)
    run.commit("a", "0", size_bytes=10)
    run.end("a")
    assert released(run) == [] and over_budget(run.state) == BudgetChoice((), 5)
    run.commit("b", "0", size_bytes=10)
    assert released(run) == [], "the attempt at b still reads it"
    run.end("b")
    assert released(run) == ["a"] and over_budget(run.state) == BudgetChoice((), 5)


def test_what_is_being_deleted_counts_no_more_against_the_budget() -> None:
    run = budgeted(THREE, 15, sinks=("d",))
    first = run.attempt("a")
    run.commit("a", "0", size_bytes=10)
    run.end("a")
    run.commit("b", "0", size_bytes=10)
    run.end("b")
    assert (
        released(run) == ["a"]
        and deletions(run) == [first]
        and run.state.stored_bytes == 20
        and kept_bytes(run.state) == 10
    )
    run.give(st.DeletionDone(first))
    assert run.state.stored_bytes == 10


def test_what_was_adopted_is_weighed_once() -> None:
    run = budgeted("a[2] =blocking=> b[2]", 1000)
    old = run.attempt("a")
    run.commit("a", "0", size_bytes=7)
    run.take_over()
    run.give(
        st.AttemptSealed(
            attempt=old,
            partitions=run.graph.whole["a"],
            manifest=b"files",
            digests=None,
            exchange_version=0,
            size_bytes=15,
        )
    )
    assert run.state.sizes[old] == 15


def test_a_pinned_run_releases_nothing() -> None:
    run = Driven("a[1] =blocking=> b[1]", sinks=("b",))
    run.finish("a")
    seen = st.CommitsSeen(attempt=run.attempt("b"), partitions=run.graph.whole["b"], manifest=b"files")
    told = decide(run.state, seen, 9, 0.0, is_pinned=True)
    assert isinstance(told[0], PinNoticed) and not any(isinstance(one, PartitionsReleased) for one in told)
    again = fold(run.state, told)
    assert again is not None and again.is_pinned and again.steps["a"].committed
    back = decide(run.state, seen, 9, 0.0, is_pinned=False)
    assert any(isinstance(one, PartitionsReleased) for one in back)


def test_exchanges_under_blocks_go_once_the_blocks_are_released() -> None:
    """Until then what is lost of the blocks is made again from them; after it they would stay until the run ends."""
    run = Driven("s[4] =blocking all=> a[4]\na =caching=> x[4]\nx =blocking all=> y[2]")
    run.finish("s")
    run.finish("a")
    assert run.state.steps["a"].held
    run.finish("x")
    assert run.state.is_released("a") and not run.state.steps["a"].held
    assert ReleaseExchanges("a", 0, 4) in commands(run.state)


def test_a_pin_that_is_taken_back_is_noticed_with_the_next_decision() -> None:
    run, pins = Driven("a[2] =blocking=> b[2] =blocking=> c[2]"), iter([True, True, False, False, False])
    for step in "abc":
        for stimulus in (
            st.CommitsSeen(attempt=run.attempt(step), partitions=Partitions.first(2)),
            st.AttemptEnded(attempt=run.attempt(step)),
        ):
            run.now += 1
            events = decide_asking(BATCH, run.state, stimulus, run.now, 0.0, lambda: next(pins))
            run.maybe = fold(run.state, events)
    assert not run.state.is_pinned and not run.state.steps["b"].committed


def test_a_store_that_does_not_say_whether_a_run_is_pinned_ends_it_only_where_something_would_go() -> None:
    run = Driven("a[2] =blocking=> b[2] =blocking=> c[2]")
    run.give(st.CommitsSeen(attempt=run.attempt("a"), partitions=Partitions.first(2)))

    def ask() -> bool:
        raise StoreFailed("no answer")

    commits = st.CommitsSeen(attempt=run.attempt("b"), partitions=Partitions.first(2))
    with pytest.raises(StoreFailed):
        decide_asking(BATCH, run.state, commits, 9, 0.0, ask)
    pinned = fold(run.state, (PinNoticed(True),))
    assert decide_asking(BATCH, pinned, commits, 9, 0.0, ask) == decide(pinned, commits, 9, 0.0)


def test_a_run_that_succeeded_does_not_wait_for_what_cannot_be_deleted() -> None:
    run = Driven("a[1] =blocking=> b[1]", sinks=("b",))
    run.finish("a")
    run.finish("b")
    run.publish()
    assert run.is_now(Phase.SUCCEEDED) and Stop() not in commands(run.state)
    assert Stop() in commands(run.state, left=frozenset(deletable(run.state)))
    assert decide(run.state, st.DeletionFailed(AttemptId("a", Generation(0), Epoch(1), 1), "no"), run.now) == ()
