"""Results of an earlier run: which are the same, how a run begins with them, and when they go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec import structs

from master.driving import AT_ONCE, Driven, start_of
from rekindle.master.decide import decide
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.events import PartitionsReleased
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import Fingerprint, RunSpec
from rekindle.master.rules.opening import IDENTITY
from rekindle.master.rules.reuse import reusable
from rekindle.master.state.apply import fold
from rekindle.master.state.commands import DeleteAttempt, StartAttempt
from rekindle.master.state.invariants import check_invariants
from rekindle.master.state.run_state import Phase
from rekindle.model.partitions import Partitions
from rekindle.model.reasons import KeptByRun
from rekindle.testing.drawing import draw

CHAIN = "a[2]@run_end =blocking=> b[2]@run_end =blocking=> c[2]@run_end"
KEPT = structs.replace(AT_ONCE, keep_ms=1000)
CODE: dict[str, Fingerprint] = {name: {IDENTITY: "1", "plan": name} for name in "abc"}


@dataclass
class Earlier:
    """A run that succeeded, and what the code is now."""

    drawing: str = CHAIN
    code: dict[str, Fingerprint] = field(default_factory=lambda: dict(CODE))
    run: Driven = field(init=False)

    def __post_init__(self) -> None:
        self.run = Driven(self.drawing, config=KEPT, sinks=("c",), fingerprints=CODE)
        for step in "abc":
            self.run.finish(step)
        self.run.publish()
        assert self.run.is_now(Phase.SUCCEEDED)

    def why(self, drawing: str = "", *, has_same_key: bool = False, **more: Any) -> list[str]:
        spec = RunSpec(graph=GraphSpec.of(draw(drawing or self.drawing)), fingerprints=self.code, **more)
        return list(reusable(spec, self.run.state, has_same_key=has_same_key).values())


def test_what_is_the_same_and_all_it_was_made_from() -> None:
    earlier = Earlier()
    assert earlier.why() == ["", "", ""]
    earlier.code["b"] = {IDENTITY: "1", "plan": "other"}
    assert earlier.why() == ["", "it differs: plan", "b is not reused"]
    del earlier.code["b"]
    assert earlier.why() == ["", "the run has no such step", "b is not reused"]


@pytest.mark.parametrize(
    ("drawing", "told"),
    [
        ("a[2]@run_end =blocking all=> b[3]@run_end =blocking all=> c[2]@run_end", "it lies in other partitions"),
        ("a[2]@run_end =blocking all=> b[2]@run_end =blocking=> c[2]@run_end", "it lies in other partitions"),
    ],
)
def test_what_lies_differently_is_computed(drawing: str, told: str) -> None:
    assert Earlier().why(drawing) == ["", told, "b is not reused"]


def test_steps_that_are_pipelined_belong_to_their_group() -> None:
    """A step that is not kept has no result of its own; one more in a group is another group."""
    assert Earlier().why("a[2]@run_end =blocking=> x[2] ~> b[2]@run_end =blocking=> c[2]@run_end") == [
        "",
        "it lies in other partitions",
        "b is not reused",
    ]


def test_what_would_not_come_out_equal_is_computed() -> None:
    drawing = "a[2]@run_end =blocking=> b[2]?@run_end =blocking=> c[2]@run_end"
    earlier = Earlier(drawing)
    assert earlier.why() == ["", "it is not determinate", "b is not reused"]
    assert earlier.why(has_same_key=True) == ["", "", ""], "as if the run had been resumed"
    assert earlier.why(reusable=("b",)) == ["", "", ""], "on the user's word"
    now = {"b": "its rows depend on the time"}
    assert earlier.why(has_same_key=True, reusable=("b",), of_its_run=now) == ["", now["b"], "b is not reused"]
    earlier = Earlier()
    earlier.code["a"] = earlier.run.state.spec.fingerprints["a"]
    loose = {**CODE["a"], "input": "unpinned: a clock"}
    earlier.run.maybe = structs.replace(
        earlier.run.state, spec=structs.replace(earlier.run.state.spec, fingerprints={**CODE, "a": loose})
    )
    earlier.code["a"] = loose
    assert earlier.why(has_same_key=True, reusable=("a",))[0] == "its input is not pinned"


def test_what_is_in_memory_or_not_whole_is_computed() -> None:
    drawing = "a[2]@run_end =memory=> b[2]@run_end =blocking=> c[2]@run_end"
    assert Earlier(drawing).why()[0] == "it is kept in memory"
    earlier = Earlier()
    earlier.run.lose("b", "1")
    assert earlier.why() == ["", "the run has not all of it", "b is not reused"]


def test_a_run_of_an_older_release_gives_nothing() -> None:
    earlier = Earlier()
    old = {name: {"plan": name} for name in "abc"}
    earlier.run.maybe = structs.replace(
        earlier.run.state, spec=structs.replace(earlier.run.state.spec, fingerprints=old)
    )
    assert earlier.why()[0] == "the run is of an older release"


def test_a_run_that_kept_nothing_or_goes_on_gives_nothing() -> None:
    nothing = ["the run kept nothing for others"] * 3
    earlier = Earlier()
    state = earlier.run.state
    earlier.run.maybe = structs.replace(state, config=AT_ONCE)
    assert earlier.why() == nothing
    earlier.run.maybe = structs.replace(state, phase=Phase.RUNNING)
    assert earlier.why() == nothing
    earlier.run.maybe = structs.replace(state, phase=Phase.FAILED)
    assert earlier.why() == ["", "", ""]


def test_a_run_begins_with_what_it_reuses() -> None:
    """Two steps count before anything is started, and the third is all that is left."""
    both = Partitions.parse("0-1")
    reused = tuple(
        st.ReusedResult(step=name, number=4, partitions=both, manifest=b"files", size_bytes=7) for name in "ab"
    )
    start = start_of(CHAIN, reused=reused, config=KEPT)
    events = decide(None, start, 5)
    state = fold(None, events)
    assert state is not None
    check_invariants(state)
    assert {name: str(step.committed) for name, step in state.steps.items()} == {"a": "0-1", "b": "0-1", "c": ""}
    assert [one.attempt.step for one in state.attempts.values()] == ["c"]
    assert state.stored_bytes == 14 and state.steps["a"].made == 0
    opened = [event for event in events if type(event).__name__ == "AttemptOpened"]
    assert [event.because for event in opened[:2]] == [((KeptByRun(4), both),)] * 2  # type: ignore[union-attr]


def test_results_stay_after_success_until_their_time_is_over() -> None:
    run = Driven(CHAIN, config=KEPT, sinks=("c",))
    for step in "abc":
        run.finish(step)
    run.publish()
    assert [str(step.committed) for step in run.state.steps.values()] == ["0-1"] * 3
    taken = st.TakeOver(application="gc", owner="gc", spec=run.state.spec)
    run.give(taken, after_ms=500)
    assert not any(isinstance(event, PartitionsReleased) for event in run.last)
    run.give(taken, after_ms=600)
    assert sorted(event.step for event in run.last if isinstance(event, PartitionsReleased)) == ["a", "b", "c"]
    assert sum(isinstance(command, DeleteAttempt) for command in run.out) == 3
    assert not any(isinstance(command, StartAttempt) for command in run.out)
    assert run.is_now(Phase.SUCCEEDED)
