"""Rule 7: published together, fenced, idempotent."""

from __future__ import annotations

import pytest

from given import sets
from master.driving import Driven
from rekindle.errors import Refused
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.events import Fence, RunFailing
from rekindle.master.state.commands import PublishSink
from rekindle.master.state.run_state import Phase
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.kinds import FailureDomain
from rekindle.model.partitions import EMPTY
from rekindle.model.parts import Parts

TWO = "a[1] =blocking=> b[1]\na =blocking=> c[1]"


def published(run: Driven) -> list[str]:
    return [command.sink for command in run.out if isinstance(command, PublishSink)]


def test_all_sinks_are_committed_before_the_first_is_published() -> None:
    run = Driven(TWO, sinks=("b", "c"))
    run.finish("a")
    run.finish("b")
    assert published(run) == []
    run.finish("c")
    assert published(run) == ["b", "c"]
    assert run.state.publication == Fence(7, 1, 1)


def test_a_new_master_publishes_what_is_left_with_a_later_fence() -> None:
    run = Driven(TWO, sinks=("b", "c"))
    for step in "abc":
        run.finish(step)
    old = run.state.publication
    assert old is not None
    run.give(st.SinkDone("b", old))
    run.take_over()
    assert published(run) == ["c"]
    assert run.state.publication is not None and run.state.publication > old
    assert run.give(st.SinkDone("c", old)) == ()
    assert run.give(st.SinkFenced("c", old, Fence(8, 1, 1))) == ()
    failure = Failure("c", EMPTY, Cause(FailureKind.TIMED_OUT))
    assert run.give(st.SinkFailed(failure, old)) == ()
    run.publish()
    assert run.is_now(Phase.SUCCEEDED)


def test_a_publication_that_failed_is_tried_again_with_a_later_fence() -> None:
    run = Driven(
        "a[1]", sinks=("a",), config=MasterConfig(backoff=BackoffSpec("fixed", {"attempts_max": 1, "delay_ms": 9}))
    )
    run.finish("a")
    first = run.state.publication
    assert first is not None
    failure = Failure("a", EMPTY, Cause(FailureKind.TIMED_OUT), "slow target")
    run.give(st.SinkFailed(failure, first))
    assert run.state.publication is None
    run.give(st.Tick(), after_ms=9)
    assert run.state.publication == Fence(7, 1, 2)
    run.give(st.SinkFailed(failure, Fence(7, 1, 2)))
    assert run.is_now(Phase.FAILED)


def test_a_later_run_wins_for_ever() -> None:
    run = Driven("a[1]", sinks=("a",))
    run.finish("a")
    fence = run.state.publication
    assert fence is not None
    run.give(st.SinkFenced("a", fence, Fence(8, 1, 1)))
    with pytest.raises(Refused, match="cannot be resumed") as refused:
        run.take_over()
    assert refused.value.hint == "start a new run: rk.RunOptions(new=True)"
    failing = next(event for event in run.last if isinstance(event, RunFailing))
    assert not failing.is_resumable and "run 8" in failing.gave_up
    assert not run.state.is_resumable and run.state.gave_up_for_good == failing.gave_up


def test_a_published_sink_whose_inputs_changed_is_published_again_when_the_user_says_so() -> None:
    run = Driven("a[1]? =blocking=> b[1]@run_end\na =blocking=> c[1]@run_end", sinks=("b", "c"))
    for step in "abc":
        run.finish(step)
    fence = run.state.publication
    assert fence is not None
    run.give(st.SinkDone("b", fence))
    run.lose("c", "0")
    run.lose("a", "0") if run.state.steps["a"].committed else None
    run.commit("a", "0")
    run.end_cancelled()
    assert run.is_now(Phase.FAILED) and set(run.state.published) == {"b"}
    run.take_over(republish=True)
    run.finish("a")
    assert run.state.published == {}
    run.finish("b")
    run.finish("c")
    run.publish()
    assert run.is_now(Phase.SUCCEEDED)


def test_a_run_without_sinks_succeeds_when_all_is_committed() -> None:
    run = Driven("a[1]@forever")
    run.finish("a")
    assert run.is_now(Phase.SUCCEEDED)
    assert run.give(st.SinkDone("a", Fence(7, 1, 1))) == ()


def test_a_published_result_that_others_read_is_made_again_if_it_is_lost_before() -> None:
    run = Driven("a[1] =blocking=> b[1]", sinks=("a", "b"))
    run.finish("a")
    run.commit("b", "0")
    run.lose("a", "0")
    run.end("b")
    assert run.open() == {"a": "0"}
    run.finish("a")
    run.publish()
    assert run.is_now(Phase.SUCCEEDED)


def test_what_was_published_and_came_back_different_is_published_again_when_the_user_says_so() -> None:
    run = Driven("a[1]?:caching =caching=> b[1]\na =caching=> c[1]", sinks=("a", "b", "c"))
    for step in "abc":
        run.finish(step)
    fence = run.state.publication
    assert fence is not None
    run.give(st.SinkDone("a", fence))
    run.give(st.PartsLost(Parts(sets("a:0 c:0")), FailureDomain.STORAGE))
    assert run.open() == {"a": "0"} and "a" in run.state.published
    run.commit("a", "0")
    run.end_cancelled()
    assert run.is_now(Phase.FAILED) and "a" in run.state.published
    run.take_over(republish=True)
    run.finish("a")
    assert "a" not in run.state.published
    run.finish("b")
    run.finish("c")
    run.publish()
    assert run.is_now(Phase.SUCCEEDED)
