"""Which sinks a run has, and where each goes: what somebody may have read stays where it is."""

from __future__ import annotations

import pytest

from master.driving import Driven
from rekindle.errors import Refused
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.events import EpochOpened
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.partitions import EMPTY

TWO = "a[2] =blocking=> b[2]@run_end\na =blocking=> c[2]@run_end"
HERE = {"b": "b to files /b", "c": "c to files /c"}


def published(targets: dict[str, str], sinks: tuple[str, ...] = ("b", "c")) -> Driven:
    """Everything is committed, `b` is published, and nothing of `c` was written."""
    run = Driven(TWO, sinks=sinks, targets=targets)
    for step in "abc":
        run.finish(step)
    fence = run.state.publication
    assert fence is not None
    run.give(st.SinkDone("b", fence))
    if "c" in sinks:
        run.give(st.SinkUnchanged("c", fence))
        run.give(st.SinkFailed(Failure("c", EMPTY, Cause(FailureKind.USER_ERROR, "no"), "no"), fence))
    return run


def resume(run: Driven, targets: dict[str, str]) -> EpochOpened:
    events = run.give(
        st.TakeOver(application="app2", owner="me again", spec=RunSpec(graph=GraphSpec.of(run.graph), targets=targets))
    )
    return next(event for event in events if isinstance(event, EpochOpened))


def test_what_is_published_stays_where_it_is() -> None:
    run = published(HERE)
    with pytest.raises(Refused, match="b to files /b is published, but in the code it is now b to table gold"):
        resume(run, HERE | {"b": "b to table gold"})


def test_what_may_be_published_stays_too() -> None:
    run = Driven(TWO, sinks=("b", "c"), targets=HERE)
    for step in "abc":
        run.finish(step)
    assert run.state.publication is not None
    with pytest.raises(Refused, match="b to files /b may be published"):
        resume(run, HERE | {"b": "b to files /elsewhere"})


def test_what_nobody_can_have_read_goes_elsewhere_and_it_is_noted() -> None:
    run = published(HERE)
    moved = HERE | {"c": "c to files /corrected"}
    assert resume(run, moved).targets == moved == run.state.spec.targets
    assert resume(run, moved).targets is None, "only what changed is noted"


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({"b": HERE["b"]}, "c to files /c is gone"),
        (HERE | {"a": "a to files /a"}, "a to files /a is new"),
    ],
)
def test_a_run_has_the_sinks_that_it_started_with(now: dict[str, str], told: str) -> None:
    run = published(HERE)
    with pytest.raises(Refused, match=f"other sinks: {told}"):
        resume(run, now)


def test_a_journal_that_notes_no_targets_is_not_held_to_them() -> None:
    run = published({})
    assert resume(run, HERE).targets == HERE
