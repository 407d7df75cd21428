"""A stream as somebody sees it who does not own it: the state of each region, and its story."""

from __future__ import annotations

import pytest

from rekindle.failover.backoff import BackoffState
from rekindle.failover.restart import Strategy
from rekindle.model.failures import Cause, FailureKind
from rekindle.observe.stream_story import region_story
from rekindle.observe.stream_view import CommittedBatch, RegionView, stream_line, stream_view
from rekindle.streams.planned_batch import PlannedBatch
from rekindle.streams.stream_events import (
    BatchesLost,
    BatchesReplayed,
    QueryEnd,
    QueryEnded,
    QueryStarted,
    RegionGivenUp,
    RegionsRestart,
    StopRequested,
    StreamEvent,
    StreamOpened,
    StreamStarted,
)
from rekindle.streams.stream_machine import STREAM
from rekindle.streams.stream_spec import StreamLimits, StreamSpec
from rekindle.streams.stream_state import StreamState
from streams.specs import region_spec

SEVEN = Cause(FailureKind.EXCEPTION, "ValueError: seven", at="shop.py:7 in cents")
SPEC = StreamSpec(regions=(region_spec("gold"), region_spec("late", sources=("orders", "clicks"))))
BEGUN: tuple[StreamEvent, ...] = (
    StreamStarted(
        pipeline="shop", run="r", limits=StreamLimits(strategy=Strategy.FULL), run_time_ms=1, seed=2, at_ms=1_000
    ),
    StreamOpened(application="app", owner="me", spec=SPEC, at_ms=1_000),
    *(QueryStarted(name, 1, 1_000) for name in SPEC.names),
)
FAILED = QueryEnded(region="gold", number=1, end=QueryEnd.FAILED, at_ms=2_000, batch=4)
RESTART = RegionsRestart(
    region="gold", cause=SEVEN, regions=("gold", "late"), due_ms=5_000, backoff=BackoffState(), at_ms=2_000
)
STUCK = QueryEnded(region="gold", number=1, end=QueryEnd.STUCK, at_ms=3_000)
GAVE_UP = RegionGivenUp(region="gold", who="its query does not stop", why="20 s", cause=SEVEN, at_ms=3_000)


def state(*events: StreamEvent) -> StreamState:
    found = STREAM.fold(None, (*BEGUN, *events))
    assert found is not None
    return found


def gold(*events: StreamEvent, is_alone: bool = False) -> RegionView:
    now = state(*events)
    line = stream_line(now, 3, None, driver="me", is_alone=is_alone)
    view = stream_view(now, line, {"gold": CommittedBatch(7)}, life="me", is_alone=is_alone)
    assert (view.number, view.run, view.regions[0].batch) == (3, "r", 7)
    return view.regions[0]


@pytest.mark.parametrize(
    ("events", "is_alone", "said"),
    [
        ((), False, "running"),
        ((), True, "interrupted"),
        ((FAILED, RESTART), False, "backoff"),
        ((FAILED, RESTART), True, "interrupted"),
        ((STUCK, GAVE_UP), False, "stuck"),
        ((FAILED, GAVE_UP), True, "gave up"),
        ((StopRequested("SIGTERM", 3_000),), False, "stopping"),
        ((StopRequested("SIGTERM", 3_000), FAILED), False, "failed"),
        ((QueryEnded(region="gold", number=1, end=QueryEnd.FINISHED, at_ms=3_000),), False, "finished"),
        ((QueryEnded(region="gold", number=1, end=QueryEnd.STOPPED, at_ms=3_000),), False, "stopped"),
        ((StreamOpened(application="b", owner="me", spec=StreamSpec(regions=()), at_ms=9),), False, "not in the code"),
    ],
)
def test_the_state_of_a_region(events: tuple[StreamEvent, ...], is_alone: bool, said: str) -> None:
    region = gold(*events, is_alone=is_alone)
    assert region.state == said
    assert (region.due_ms is None) is (said != "backoff"), "a time is told only where somebody keeps it"


def test_a_region_that_never_started() -> None:
    found = STREAM.fold(None, BEGUN[:2])
    assert found is not None
    line = stream_line(found, 1, None, driver="", is_alone=False)
    assert (line.failure, line.failed_ms, line.running, line.regions) == ("", None, 0, 2)
    (region, _) = stream_view(found, line, {}, life="", is_alone=False).regions
    assert (region.state, region.batch, region.failure) == ("not started", -1, "")


def told(name: str, *events: StreamEvent, batch: PlannedBatch | None = None) -> list[str]:
    now = state(*events)
    line = stream_line(now, 1, None, driver="me", is_alone=False)
    view = stream_view(now, line, {}, life="me", is_alone=False)
    (region,) = (one for one in view.regions if one.name == name)
    story = region_story([(1, 1, BEGUN), (2, 1, events)], region, now, batch)
    return [*(one.text for one in story.lines), *story.outlook]


def test_the_story_of_a_region_that_restarts_with_another() -> None:
    assert told("late", FAILED, RESTART) == [
        "the stream started",
        "me took the stream",
        "query 1 started",
        "restarts because gold failed (strategy full)",
        "late is running; last batch none, 1 restart",
        "batch 0 is not planned yet: the checkpoint has no positions for it",
    ]


def test_the_story_of_a_region_that_waits_names_both_positions() -> None:
    batch = PlannedBatch(number=5, before=('{"t":{"0":7}}', "-"), upto=('{"t":{"0":9}}', "3", "-"))
    assert told("gold", FAILED, RESTART, batch=batch)[3:] == [
        "query 1 failed after batch 4",
        "ValueError: seven; restarts at 1970-01-01 00:00:05",
        "gold restarts at 1970-01-01 00:00:05; last batch 4, 1 restart",
        "batch 5 is the one that failed; it reads",
        '  stream 0: after {"t":{"0":7}} up to {"t":{"0":9}}',
        "  stream 1: from the beginning up to 3",
        "  stream 2: nothing",
        "last failure, 1970-01-01 00:00:02: ValueError: seven, at shop.py:7 in cents",
    ]


def test_the_story_of_a_stuck_region_and_of_many_files() -> None:
    batch = PlannedBatch(number=0, upto=('{"logOffset":0}',), files=("a.json",), file_count=3)
    found = told("gold", STUCK, GAVE_UP, batch=batch)
    assert "query 1 did not stop, and was fenced, before its first batch was committed" in found
    assert found[-6].startswith("gold is stuck (its query does not stop: 20 s): only another driver can start it")
    assert found[-4:-1] == ['  orders: from the beginning up to {"logOffset":0}', "  a.json", "  and 2 files more"]


def test_the_story_of_batches_that_are_lost_and_made_again() -> None:
    lost = BatchesLost(region="gold", batches=(3, 4), reader="late", readers=("late", "other"), at_ms=2_000)
    upwards = BatchesLost(region="late", batches=(1,), reader="gold", at_ms=2_000)
    joined = BatchesLost(region="gold", batches=(), reader="late", readers=("late",), at_ms=2_000)
    made = BatchesReplayed(region="gold", batches=(3, 4), changed=(4,), at_ms=3_000)
    failed = BatchesReplayed(region="gold", batches=(3,), at_ms=3_000, why="its source is gone", unmade=(4,))
    nothing = BatchesReplayed(region="gold", batches=(), at_ms=3_000, why="its source is gone", unmade=(3, 4))

    def said(name: str, *events: StreamEvent) -> list[str]:
        line = stream_line(state(), 1, None, driver="me", is_alone=False)
        view = stream_view(state(), line, {}, life="me", is_alone=False)
        (region,) = (one for one in view.regions if one.name == name)
        story = region_story([(1, 1, events)], region, state(), None)
        return [one.text for one in story.lines]

    assert said("gold", lost, joined, upwards, made, failed, nothing) == [
        "late found batches 3, 4 of its result gone; they are made again",
        "late needs them, too; they are made again",
        "needs, to make its own batches again, batches of late that are gone, and waits for them",
        "made batches 3, 4 of its result again, batch 4 with other rows, which nobody had read",
        "made batch 3 of its result again; could not make batch 4 of its result again: its source is gone",
        "could not make batches 3, 4 of its result again: its source is gone",
    ]
    assert said("late", lost, made) == ["needs batches of gold that are gone, and waits for them"]
    other = BatchesLost(region="gold", batches=(3,), reader="x", readers=("x", "late"), at_ms=2_000)
    alone = BatchesLost(region="gold", batches=(3,), reader="x", readers=("x",), at_ms=2_000)
    assert said("late", other, alone) == ["waits for batches of gold, whose rows may come back as others"]
