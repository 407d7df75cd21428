"""Every sentence of the invariants can be heard: each row breaks a healthy state in one way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from master.driving import Driven
from rekindle.master.facts.events import Fence
from rekindle.master.state.invariants import check_invariants, violations
from rekindle.master.state.run_state import Phase, RunState, StepState, Superseded
from rekindle.model.partitions import EMPTY, Partitions

ONE = Partitions((0,))


def healthy() -> RunState:
    run = Driven("a[2] =blocking=> b[2]", sinks=("b",))
    run.finish("a")
    run.commit("b", "0")
    return run.state


def with_step(state: RunState, name: str, step: StepState) -> RunState:
    return replace(state, steps=state.steps | {name: step})


def step_a(**fields: object) -> Callable[[RunState], RunState]:
    return lambda state: with_step(state, "a", replace(state.steps["a"], **fields))


def step_b(**fields: object) -> Callable[[RunState], RunState]:
    return lambda state: with_step(state, "b", replace(state.steps["b"], **fields))


def first_attempt(**fields: object) -> Callable[[RunState], RunState]:
    def broken(state: RunState) -> RunState:
        key, one = next(iter(state.attempts.items()))
        attempt = replace(one.attempt, **{k: v for k, v in fields.items() if k == "epoch"})
        rest = {k: v for k, v in fields.items() if k != "epoch"}
        return replace(state, attempts={key: replace(one, attempt=attempt, **rest)})

    return broken


def second_attempt(state: RunState) -> RunState:
    key, one = next(iter(state.attempts.items()))
    other = replace(one.attempt, number=99)
    return replace(state, attempts={key: one, other: replace(one, attempt=other)})


def seen(state: RunState) -> RunState:
    step = state.steps["a"]
    return with_step(state, "a", replace(step, superseded=(Superseded(ONE, step.segments[0].digests, True),)))


def later_generation(state: RunState) -> RunState:
    step = state.steps["a"]
    segment = replace(step.segments[0], attempt=replace(step.segments[0].attempt, generation=9))
    undeleted = state.undeleted | {segment.attempt}
    return replace(with_step(state, "a", replace(step, segments=(segment,))), undeleted=undeleted)


def deleted_in_use(state: RunState) -> RunState:
    bare = with_step(state, "a", StepState(started=state.steps["a"].started))
    return replace(bare, undeleted=frozenset())


BROKEN: list[tuple[str, Callable[[RunState], RunState]]] = [
    ("committed by two attempts, or by none", step_a(segments=())),
    ("that the step does not have", step_a(committed=Partitions((0, 1, 7)))),
    ("that never began", step_a(started=EMPTY)),
    ("a released partition counts again", step_a(released=ONE)),
    ("counts and is remembered as gone", seen),
    ("compared with what nobody saw", step_a(must_recompare=ONE)),
    ("is left out that counts", step_a(holes=ONE)),
    ("may commit what was left out", step_b(holes=Partitions((1,)))),
    ("of a later generation counts", later_generation),
    ("files that count were deleted", lambda state: replace(state, undeleted=frozenset())),
    ("files were deleted that b/", deleted_in_use),
    ("two open attempts may commit the same", second_attempt),
    ("may commit what counts already", first_attempt(partitions=Partitions((0, 1)))),
    ("may commit what a new generation dropped", step_b(started=ONE)),
    ("of an older epoch is not being closed", lambda state: replace(state, epoch=2)),
    ("of a later epoch is open", first_attempt(epoch=5)),
    ("runs in a run that does not", lambda state: replace(state, phase=Phase.FAILING)),
    ("more attempts than allowed", step_b(attempts=101)),
    ("another master's fence", lambda state: replace(state, publication=Fence(7, 9, 1))),
    ("is being published and not complete", lambda state: replace(state, publication=Fence(7, 1, 1))),
    (
        "published while a changed result",
        lambda state: replace(step_a(must_recompare=ONE)(state), publication=Fence(7, 1, 1)),
    ),
]


@pytest.mark.parametrize(("sentence", "broken"), BROKEN, ids=[row[0] for row in BROKEN])
def test_a_broken_rule_is_heard(sentence: str, broken: Callable[[RunState], RunState]) -> None:
    state = healthy()
    check_invariants(state)
    said = list(violations(broken(state)))
    assert any(sentence in one for one in said)
    assert all(one.startswith("rule ") for one in said)
    with pytest.raises(AssertionError) as raised:
        check_invariants(broken(state))
    assert str(raised.value) == "; ".join(said)
