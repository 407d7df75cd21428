"""The fold refuses an event that contradicts the state, with its own sentence; and keeps or forgets what it should."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from master.driving import AT_ONCE, Driven, start_of
from rekindle.failover.poison import FailureCounts
from rekindle.master.facts import events as ev
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.rules.opening import start_run
from rekindle.master.state.apply import apply
from rekindle.master.state.run_state import AttemptStatus, Phase, RunState, StepState
from rekindle.model.failures import FailureKind
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.kinds import FailureDomain, Proof
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.reasons import AnyReason, CodeChanged, EverythingRestarts, InputDiffers, WholeStep
from rekindle.testing.drawing import draw

ONE, BOTH = Partitions((0,)), Partitions((0, 1))
FENCE = ev.Fence(7, 1, 1)
Broken = tuple[RunState | None, ev.Event]


def halfway() -> RunState:
    """a is complete, of b partition 0 counts and partition 1 is in flight; c did not begin."""
    run = Driven("a[2] =blocking=> b[2] =blocking all=> c[3]", sinks=("c",))
    run.finish("a")
    run.commit("b", "0")
    return run.state


def number(step: str, at: int, *, epoch: int = 1, generation: int = 0) -> AttemptId:
    return AttemptId(step, Generation(generation), Epoch(epoch), at)


def opened(attempt: AttemptId, partitions: Partitions) -> ev.Event:
    return ev.AttemptOpened(attempt, partitions, ((WholeStep(), partitions),), 5)


def committed(partitions: Partitions, **fields: object) -> ev.Event:
    return replace(
        ev.PartitionsCommitted(
            attempt=number("b", 2), partitions=partitions, of=partitions, manifest=b"files", at_ms=5
        ),
        **fields,
    )


def renewed(generation: int, dropped: Partitions, **fields: object) -> ev.Event:
    return replace(
        ev.GenerationOpened(step="b", generation=generation, dropped=dropped, because=((WholeStep(), dropped),)),
        **fields,
    )


def with_step(name: str, **fields: object) -> RunState:
    state = halfway()
    return replace(state, steps=state.steps | {name: replace(state.steps[name], **fields)})


def quiet(phase: Phase, **fields: object) -> RunState:
    return replace(halfway(), phase=phase, attempts={}, **fields)


def started_again() -> Broken:
    again = start_of("a[1]")
    return halfway(), start_run(again, 0)[0]


CONTRADICTIONS: list[tuple[str, str, Callable[[], Broken]]] = [
    ("a run starts once", "", started_again),
    ("a run starts with RunStarted", "", lambda: (None, ev.RunStopped(5))),
    ("nothing follows the tombstone", "", lambda: (quiet(Phase.CLOSED), ev.RunStopped(5))),
    ("a change has a name", "", lambda: (halfway(), ev.ChangeAccepted("a", (), {}))),
    ("deleted what was not there to delete", "", lambda: (halfway(), ev.AttemptDeleted(number("c", 9)))),
    ("publish together", "", lambda: (halfway(), ev.PublicationOpened(FENCE, 5))),
    ("published under another fence", "", lambda: (halfway(), ev.SinkPublished("c", FENCE))),
    ("failed while something runs", "attempts", lambda: (replace(halfway(), phase=Phase.FAILING), ev.RunStopped(5))),
    ("failed while something runs", "phase", lambda: (quiet(Phase.RUNNING), ev.RunStopped(5))),
    ("succeeded before it was published", "", lambda: (quiet(Phase.RUNNING), ev.RunSucceeded(5))),
    ("closing while something runs", "", lambda: (halfway(), ev.RunClosing(5))),
    ("closed with files left", "files", lambda: (quiet(Phase.CLOSING), ev.TombstoneWritten(5))),
    ("closed with files left", "phase", lambda: (quiet(Phase.FAILED, undeleted=frozenset()), ev.TombstoneWritten(5))),
    ("epochs only grow", "", lambda: (halfway(), ev.EpochOpened(epoch=1, application="app", owner="me", at_ms=5))),
    ("generations grow by one", "", lambda: (halfway(), renewed(2, BOTH))),
    ("carried without being named", "", lambda: (halfway(), renewed(1, EMPTY))),
    ("carried without a proof", "", lambda: (halfway(), renewed(1, EMPTY, carried=ONE))),
    ("only a running run starts attempts", "", lambda: (quiet(Phase.FAILING), opened(number("c", 3), ONE))),
    ("of another time", "epoch", lambda: (halfway(), opened(number("c", 3, epoch=2), ONE))),
    ("of another time", "generation", lambda: (halfway(), opened(number("c", 3, generation=1), ONE))),
    ("attempt numbers grow by one", "", lambda: (halfway(), opened(number("c", 4), ONE))),
    ("computes what counts already", "", lambda: (halfway(), opened(number("a", 3), ONE))),
    ("computes what counts already", "nothing", lambda: (halfway(), opened(number("c", 3), EMPTY))),
    (
        "computes what was released in this generation",
        "",
        lambda: (with_step("c", released=ONE), opened(number("c", 3), ONE)),
    ),
    ("computes what is in flight", "", lambda: (halfway(), opened(number("b", 3), Partitions((1,))))),
    ("committed what was not its own", "", lambda: (halfway(), committed(Partitions((1, 2))))),
    ("committed what was not its own", "nothing", lambda: (halfway(), committed(EMPTY))),
    ("committed twice", "", lambda: (with_step("b", committed=BOTH), committed(Partitions((1,))))),
    ("changed without being committed", "", lambda: (halfway(), committed(Partitions((1,)), changed=ONE))),
    ("committed over another exchange", "", lambda: (halfway(), committed(Partitions((1,)), exchange_version=1))),
    ("exchange versions only grow", "", lambda: (halfway(), ev.ExchangeCarried("b", 0, Proof.NARROW))),
    ("closed twice", "", lambda: (halfway(), ev.AttemptClosed(number("a", 1), ev.Outcome.SUCCEEDED, 5))),
    ("lost what did not count", "", lambda: (halfway(), ev.PartitionsLost("b", BOTH, FailureDomain.STORAGE))),
    ("released what did not count", "", lambda: (halfway(), ev.PartitionsReleased("b", BOTH))),
    ("gives up once", "", lambda: (quiet(Phase.FAILING), ev.RunFailing("enough", (), True, 5))),
]


@pytest.mark.parametrize(
    ("sentence", "broken"),
    [(row[0], row[2]) for row in CONTRADICTIONS],
    ids=[" ".join(filter(None, row[:2])) for row in CONTRADICTIONS],
)
def test_an_event_that_contradicts_the_state_is_refused(sentence: str, broken: Callable[[], Broken]) -> None:
    state, event = broken()
    with pytest.raises(AssertionError) as raised:
        apply(state, event)
    assert str(raised.value) == sentence


WITHDRAWN: list[tuple[str, Callable[[RunState], RunState], ev.Event]] = [
    (
        "a step starts a new generation",
        lambda state: state,
        ev.GenerationOpened(step="a", generation=1, dropped=BOTH, because=((WholeStep(), BOTH),)),
    ),
    ("the master gives up", lambda state: state, ev.RunFailing("enough", (), True, 5)),
    ("gc takes the run", lambda state: state, ev.RunClosing(5)),
    ("the run succeeds", lambda state: replace(state, published={"b": FENCE}), ev.RunSucceeded(5)),
    (
        "another master takes the run",
        lambda state: state,
        ev.EpochOpened(epoch=2, application="app2", owner="you", at_ms=5),
    ),
]


@pytest.mark.parametrize(("before", "event"), [row[1:] for row in WITHDRAWN], ids=[row[0] for row in WITHDRAWN])
def test_an_open_publication_is_withdrawn_when(before: Callable[[RunState], RunState], event: ev.Event) -> None:
    run = Driven("a[2]@run_end =blocking=> b[2]", sinks=("b",))
    run.finish("a")
    run.finish("b")
    assert run.state.publication == FENCE
    assert apply(before(run.state), event).publication is None


def test_settings_and_owner_are_those_of_the_events() -> None:
    start = st.StartRun(
        run="r",
        pipeline="p",
        order=1,
        spec=RunSpec(graph=GraphSpec.of(draw("a[1]")), sinks=()),
        config=AT_ONCE,
        run_time_ms=0,
        seed=0,
        application="app",
        owner="me",
        settings={"shuffle": "8"},
    )
    first, second = start_run(start, 3)
    state = apply(apply(None, first), second)
    assert state.settings == {"shuffle": "8"}
    assert (state.owner, state.application, state.epoch) == ("me", "app", 1)
    assert apply(state, ev.EpochOpened(epoch=2, application="app2", owner="you", at_ms=9)).owner == "you"


def troubled() -> Driven:
    """Partition 1 of a failed once by its own fault; the retry waits for its backoff."""
    run = Driven("a[2]", config=MasterConfig(backoff=BackoffSpec("fixed", {"attempts_max": 5, "delay_ms": 500})))
    run.fail("a", "1")
    return run


def test_a_takeover_of_a_running_run_remembers_failures_and_counts_and_does_not_wait() -> None:
    run = troubled()
    before = run.state.steps["a"]
    run.take_over()
    after = run.state.steps["a"]
    assert (after.suspects, after.last_failure_by_signature) == (before.suspects, before.last_failure_by_signature)
    assert before.last_failure_by_signature["boom"].partitions == Partitions((1,))
    assert run.state.memory.attempts == 1
    assert after.due_ms == 0 and run.open() == {"a": "0"}
    assert (before.attempts, after.attempts) == (1, 2)


def test_a_resume_of_a_failed_run_forgets_failures_and_counts() -> None:
    run = troubled()
    run.give(st.CancelRun())
    assert run.is_now(Phase.FAILED) and run.state.failing is not None
    run.take_over()
    after = run.state.steps["a"]
    assert (after.suspects, after.last_failure_by_signature, after.attempts) == (FailureCounts(), {}, 1)
    assert run.state.failing is None and run.state.memory.attempts == 0


@pytest.mark.parametrize("application", ["app1", "app2"])
def test_exchanges_live_as_long_as_their_master(application: str) -> None:
    """Also in the same application: a second run in a notebook's session has plans of its own. It took exchanges for
    held that it did not have, and what they were made from was never made again."""
    run = Driven("a[2] =blocking all.=> b[2]")
    run.finish("a")
    run.commit("b", "0")
    assert [str(parts) for parts in run.state.steps["b"].held.values()] == ["0-1"]
    run.give(st.TakeOver(application=application, owner="me again", spec=RunSpec(graph=GraphSpec.of(run.graph))))
    assert run.state.steps["b"].held == {}
    run.seal("b", "1")
    assert str(run.state.steps["b"].committed) == "0-1"
    assert run.state.steps["b"].held == {}, "what is adopted was written over exchanges that are gone"


def test_what_is_lost_after_a_takeover_in_the_same_application_is_made_again() -> None:
    run = Driven("a[2] =blocking all.=> b[2]")
    run.finish("a")
    run.commit("b", "0")
    run.give(st.TakeOver(application="app1", owner="me again", spec=RunSpec(graph=GraphSpec.of(run.graph))))
    run.seal("b", "")
    run.lose("a", "1")
    run.fail("b", "1", FailureKind.RESULT_MISSING)
    assert run.open() == {"a": "1"}


def test_a_carried_exchange_has_its_new_version_and_no_known_checksum() -> None:
    run = Driven("a[2] =blocking all.=> b[3]!")
    run.finish("a")
    run.commit("b", "0", checksum="old")
    assert run.state.steps["b"].exchange_checksum == "old"
    run.commit("b", "1", version=4)
    step = run.state.steps["b"]
    assert (step.exchange_version, step.exchange_checksum) == (4, None)


def test_only_what_came_back_is_no_longer_remembered_as_seen() -> None:
    run = Driven("a[2] =blocking=> b[2]")
    run.finish("a")
    run.lose("a", "0-1")
    run.fail("b", "0-1", FailureKind.RESULT_MISSING)
    run.commit("a", "0")
    assert str(run.state.steps["a"].superseded_partitions()) == "1"


def test_what_the_world_did_is_not_blamed_on_a_partition() -> None:
    run = Driven("a[2]")
    run.fail("a", "1", FailureKind.NO_SPACE)
    assert run.state.steps["a"].last_failure_by_signature == {}


def test_a_released_partition_would_be_made_again_from_equal_inputs() -> None:
    run = Driven("a[1] =blocking=> b[1]", sinks=("b",))
    run.finish("a")
    run.finish("b")
    (seen,) = run.state.steps["a"].superseded
    assert run.state.steps["a"].released == ONE and seen.are_inputs_equal is True


def test_giving_up_leaves_attempts_that_are_being_sealed_to_their_seal() -> None:
    run = Driven("a[1]\nb[1]")
    run.take_over()
    run.seal("b")
    run.give(st.CancelRun())
    found = {one.attempt.step: one.status for one in run.state.attempts.values()}
    assert found == {"a": AttemptStatus.SEALING, "b": AttemptStatus.CANCELLING}


def test_a_failure_elsewhere_does_not_disturb_a_publication() -> None:
    run = Driven("a[1] =blocking=> b[1]\nc[2]@forever", sinks=("b",))
    for step in "abc":
        run.finish(step)
    fence = run.state.publication
    assert fence is not None
    run.lose("c", "1")
    run.fail("c", "1", FailureKind.NO_SPACE)
    assert run.state.publication == fence


def test_only_a_sink_that_starts_over_is_published_again() -> None:
    code = {"b": {"code": "1"}, "c": {"code": "1"}}
    run = Driven("b[1]\nc[1]\nd[1]", sinks=("b", "c", "d"), fingerprints=code)
    for step in "bcd":
        run.finish(step)
    fence = run.state.publication
    assert fence is not None
    run.give(st.SinkDone("b", fence))
    run.give(st.SinkDone("c", fence))
    run.take_over(fingerprints=code | {"b": {"code": "2"}}, republish=True)
    assert run.state.published == {"c": fence}


def test_losing_a_middle_segment_keeps_those_before_and_behind_it() -> None:
    run = Driven("a[3] =blocking=> b[3]")
    for at in "012":
        run.commit("a", at)
    run.lose("a", "1")
    step = run.state.steps["a"]
    assert [str(segment.partitions) for segment in step.segments] == ["0", "2"]
    assert [str(seen.partitions) for seen in step.superseded] == ["1"]


def dropped_by(reason: AnyReason, dropped: Partitions) -> StepState:
    run = Driven("a[2]? =blocking all?=> b[3]?@unordered")
    run.finish("a")
    run.commit("b", "0", checksum="sum")
    run.commit("b", "1")
    carried = BOTH - dropped
    event = ev.GenerationOpened(
        step="b",
        generation=1,
        dropped=dropped,
        because=((reason, dropped),),
        carried=carried,
        proof=Proof.NARROW if carried else None,
        exchange_version=6,
    )
    return apply(run.state, event).steps["b"]


def test_a_dropped_vertex_has_not_begun_and_the_exchange_has_the_version_told() -> None:
    step = dropped_by(WholeStep(), ONE)
    assert (str(step.started), str(step.committed), str(step.must_recompare)) == ("1-2", "1", "0")
    assert step.exchange_version == 6


def test_the_checksum_is_kept_as_long_as_something_written_over_it_counts() -> None:
    assert dropped_by(WholeStep(), ONE).exchange_checksum == "sum"
    assert dropped_by(WholeStep(), Partitions((0, 1, 2))).exchange_checksum is None


@pytest.mark.parametrize(
    ("reason", "are_equal"),
    [(WholeStep(), True), (InputDiffers("a"), False), (CodeChanged(), False), (EverythingRestarts(), False)],
    ids=["the step is a whole", "an input changed", "the code changed", "everything restarts"],
)
def test_what_is_dropped_had_equal_inputs_unless_they_are_why(reason: AnyReason, are_equal: bool) -> None:
    step = dropped_by(reason, BOTH)
    assert [seen.are_inputs_equal for seen in step.superseded] == [are_equal, are_equal]


def test_what_was_lost_before_it_was_dropped_has_other_inputs_then_too() -> None:
    run = Driven("a[2]? =blocking=> b[2]")
    run.finish("a")
    run.commit("b", "0-1")
    run.lose("b", "0")
    event = ev.GenerationOpened(
        step="b",
        generation=1,
        dropped=ONE,
        because=((InputDiffers("a"), ONE),),
        carried=Partitions((1,)),
        proof=Proof.NARROW,
    )
    (seen,) = apply(run.state, event).steps["b"].superseded
    assert seen.partitions == ONE and seen.are_inputs_equal is False
