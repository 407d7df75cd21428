"""The batch master as the value that the loop runs, and what a machine is that says nothing of pins and of cleaning."""

from __future__ import annotations

from master.driving import Driven
from rekindle.master.dispatch import deletable
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.events import PinNoticed
from rekindle.master.machine import BATCH
from rekindle.master.state.run_state import Phase
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.machine import Machine

ATTEMPT = AttemptId("a", Generation(0), Epoch(1), 1)


def test_what_a_storage_does_not_delete_is_left_to_gc() -> None:
    left = BATCH.given_up(st.DeletionFailed(ATTEMPT, "403 Forbidden"))
    assert left is not None and left.left == ATTEMPT and "403 Forbidden" in left.warning and "gc" in left.warning
    assert BATCH.given_up(st.DeletionDone(ATTEMPT)) is None


def test_a_run_that_succeeded_is_done_and_waits_for_its_waste() -> None:
    run = Driven("a[1] =blocking=> b[1]", sinks=("b",))
    assert not BATCH.is_done(run.state)
    run.finish("a")
    run.finish("b")
    run.publish()
    assert run.is_now(Phase.SUCCEEDED) and BATCH.is_done(run.state)
    assert BATCH.leftovers(run.state) == deletable(run.state) != set()
    BATCH.invariants(run.state)


def test_a_pin_is_a_fact() -> None:
    run = Driven("a[1] =blocking=> b[1]", sinks=("b",))
    pinned = BATCH.fold(run.state, (PinNoticed(True),))
    assert pinned is not None and BATCH.is_pinned(pinned) and not BATCH.is_pinned(run.state)


def test_a_machine_need_say_nothing_of_pins_and_of_cleaning() -> None:
    plain = Machine(
        decide=BATCH.decide,
        fold=BATCH.fold,
        commands=BATCH.commands,
        invariants=BATCH.invariants,
        tick=BATCH.tick,
        wire=BATCH.wire,
    )
    state = Driven("a[1]").state
    assert not plain.lets_go(()) and not plain.is_pinned(state) and not plain.is_done(state)
    assert plain.leftovers(state) == frozenset() and plain.given_up(st.DeletionFailed(ATTEMPT, "no")) is None
