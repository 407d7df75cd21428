"""The master of a stream: what it decides, stimulus by stimulus. Exact events, exact restart sets, exact numbers."""

from __future__ import annotations

from dataclasses import replace as changed
from typing import Any

import msgspec
import pytest

from rekindle.failover.backoff import Backoff, Exponential, FixedDelay, NoRestart
from rekindle.failover.restart import Strategy
from rekindle.master.facts.config import BackoffSpec
from rekindle.model.failures import Cause, FailureKind
from rekindle.model.machine import Stop, WakeAt
from rekindle.runtime.ownership import codec_of
from rekindle.streams.stream_commands import StartQuery, StopQuery, StreamCommand
from rekindle.streams.stream_events import (
    CheckpointReplaced,
    QueryEnd,
    QueryEnded,
    QueryStarted,
    RegionGivenUp,
    RegionsRestart,
    StopRequested,
    StreamClosed,
    StreamEnded,
    StreamOpened,
    StreamPhase,
    StreamStarted,
)
from rekindle.streams.stream_machine import STREAM
from rekindle.streams.stream_spec import AVAILABLE_NOW, BACKOFF, RegionSpec, SourceStart, StreamLimits, StreamSpec
from rekindle.streams.stream_state import StreamRecord, StreamState
from rekindle.streams.stream_stimuli import CloseStream, OpenStream, QueryReport, StopStream, StreamStimulus, StreamTick
from streams.specs import region_spec

OOPS = Cause(FailureKind.EXCEPTION, "ValueError: seven")
WRONG = Cause(FailureKind.USER_ERROR, "AnalysisException: no such column")
POLICY = FixedDelay(attempts_max=2, delay_ms=100)


def region(name: str, code: str = "1") -> RegionSpec:
    return region_spec(name, fingerprints={name: {"code": code}})


class StreamWorld:
    """A master with its journal, without a world: what it was told, what it decided, what it asks for."""

    def __init__(self, *names: str, backoff: Backoff = POLICY, ends: bool = False, strategy: str = "region") -> None:
        self.spec = StreamSpec(regions=tuple(region(name) for name in names))
        self.limits = StreamLimits(strategy=Strategy(strategy), backoff=BackoffSpec.of(backoff), is_ended_by_one=ends)
        self.state: StreamState | None = None
        self.now_ms = 1_000
        self.events: list[StreamRecord] = []

    def take(self, stimulus: StreamStimulus, at_ms: int | None = None) -> tuple[StreamRecord, ...]:
        self.now_ms = self.now_ms if at_ms is None else at_ms
        found = STREAM.decide(self.state, stimulus, self.now_ms)
        self.state = STREAM.fold(self.state, found)
        assert self.state is not None
        STREAM.invariants(self.state)
        self.events += found
        return found

    def open(
        self, strategy: Strategy | None = None, spec: StreamSpec | None = None, **new_checkpoints: SourceStart
    ) -> tuple[StreamRecord, ...]:
        self.spec = spec or self.spec
        return self.take(
            OpenStream(
                pipeline="shop",
                run="r",
                spec=self.spec,
                limits=self.limits,
                run_time_ms=5,
                seed=6,
                application="app",
                owner="me",
                strategy=strategy,
                new_checkpoints=new_checkpoints,
            )
        )

    def ends(self, name: str, end: QueryEnd, cause: Cause | None = None, **given: Any) -> tuple[StreamRecord, ...]:
        assert self.state is not None
        number = given.pop("number", 0) or self.state.regions[name].number
        at_ms = given.pop("at_ms", None)
        return self.take(QueryReport(region=name, number=number, end=end, cause=cause, **given), at_ms)

    def fails(self, name: str, cause: Cause = OOPS, **given: Any) -> tuple[StreamRecord, ...]:
        return self.ends(name, QueryEnd.FAILED, cause, **given)

    def commands(self) -> list[StreamCommand]:
        assert self.state is not None
        return list(STREAM.commands(self.state))

    @property
    def phase(self) -> StreamPhase:
        assert self.state is not None
        return self.state.phase


def test_a_new_stream_starts_every_region() -> None:
    world = StreamWorld("a", "b")
    started, opened, *queries = world.open()
    assert isinstance(started, StreamStarted) and isinstance(opened, StreamOpened)
    assert queries == [QueryStarted("a", 1, 1_000), QueryStarted("b", 1, 1_000)]
    assert world.commands() == [StartQuery("a", 1), StartQuery("b", 1)]
    assert [one.key for one in world.commands()] == [("start", ("a", 1)), ("start", ("b", 1))]


def test_a_failed_region_restarts_alone_after_its_delay_with_two_records() -> None:
    world = StreamWorld("a", "b")
    world.open()
    ended, restart = world.fails("a", batch=7)
    assert ended == QueryEnded(region="a", number=1, end=QueryEnd.FAILED, at_ms=1_000, batch=7)
    assert isinstance(restart, RegionsRestart) and restart.regions == ("a",) and restart.due_ms == 1_100
    assert world.commands() == [StartQuery("b", 1), WakeAt(1_100)]
    assert world.take(StreamTick(), 1_099) == ()
    assert world.take(StreamTick(), 1_100) == (QueryStarted("a", 2, 1_100),)
    assert world.commands() == [StartQuery("a", 2), StartQuery("b", 1)]
    assert world.state is not None and world.state.regions["a"].restarts == 1 and world.state.regions["a"].batch == 7
    assert world.state.regions["b"].restarts == 0


def test_full_restarts_all_and_none_before_all_have_ended() -> None:
    world = StreamWorld("a", "b", "c", strategy="full")
    world.open()
    *_, restart = world.fails("a")
    assert isinstance(restart, RegionsRestart) and restart.regions == ("a", "b", "c")
    stops = [one for one in world.commands() if isinstance(one, StopQuery)]
    assert stops == [StopQuery("b", 1), StopQuery("c", 1)] and stops[0].key == ("stop query", ("b", 1))
    assert not any(isinstance(one, WakeAt) for one in world.commands()), "it would start before the others ended"
    assert world.take(StreamTick(), 2_000) == ()
    world.ends("b", QueryEnd.STOPPED)
    *_, a, b, c = world.fails("c")
    assert [a, b, c] == [QueryStarted(name, 2, 2_000) for name in "abc"], "a failure while it is stopped is no failure"


def test_individual_restarts_the_region_alone() -> None:
    world = StreamWorld("a", "b", strategy="individual")
    world.open()
    *_, restart = world.fails("a")
    assert isinstance(restart, RegionsRestart) and restart.regions == ("a",)


def test_limits_are_those_of_the_last_start() -> None:
    world = StreamWorld("a", "b")
    world.open()
    assert not any(isinstance(one, StreamOpened) and one.limits for one in world.open())
    world.limits = StreamLimits(backoff=BackoffSpec.of(NoRestart()))
    assert any(isinstance(one, StreamOpened) and one.limits == world.limits for one in world.open())
    *_, gave_up = world.fails("a")
    assert isinstance(gave_up, RegionGivenUp) and gave_up.who == "no restart"


def test_a_strategy_that_is_given_counts_from_then_on() -> None:
    world = StreamWorld("a", "b")
    world.open()
    world.open(Strategy.FULL)
    *_, restart = world.fails("a")
    assert isinstance(restart, RegionsRestart) and restart.regions == ("a", "b")


def test_a_region_that_gave_up_leaves_the_others_alone() -> None:
    world = StreamWorld("a", "b")
    world.open()
    for number in range(2):
        world.fails("a", at_ms=1_000 + 500 * number, signature=str(number))
        world.take(StreamTick(), 1_200 + 500 * number)
    *_, gave_up = world.fails("a", at_ms=3_000, signature="2")
    assert gave_up == RegionGivenUp(
        region="a", who="fixed delay", why="the limit of restarts is reached (2)", cause=OOPS, at_ms=3_000
    )
    assert world.phase is StreamPhase.RUNNING and world.commands() == [StartQuery("b", 1)]
    *_, end = world.ends("b", QueryEnd.FINISHED)
    assert end == StreamEnded(StreamPhase.FAILED, 3_000) and world.commands() == [Stop()]
    assert world.take(StopStream("late")) == ()


def test_a_batch_that_fails_in_the_same_way_is_poison() -> None:
    world = StreamWorld("a", "b", backoff=Exponential(initial_ms=5, jitter=0.0, attempts_max=99))
    world.open()

    def again(signature: str, batch: int) -> StreamRecord:
        *_, last = world.fails("a", at_ms=world.now_ms + 9, signature=signature, batch=batch)
        if isinstance(last, RegionsRestart):
            world.take(StreamTick(), last.due_ms)
        return last

    for signature, batch, alike in [("x", 4, 1), ("x", 4, 2), ("y", 4, 1), ("y", -1, 2), ("y", 5, 1), ("y", 5, 2)]:
        restart = again(signature, batch)
        assert isinstance(restart, RegionsRestart) and restart.alike == alike, "another failure, or a batch in between"
    gave_up = again("y", 5)
    assert isinstance(gave_up, RegionGivenUp)
    assert (gave_up.who, gave_up.why) == ("poison", "batch 6 failed 3 times in the same way")
    world.take(StopStream("SIGTERM"))
    world.ends("b", QueryEnd.STOPPED)
    world.open()
    assert isinstance(again("y", 5), RegionsRestart), "tried again by the next start"


def test_what_is_not_the_fault_of_a_batch_is_no_poison() -> None:
    world = StreamWorld("a", backoff=Exponential(initial_ms=5, jitter=0.0, attempts_max=99))
    world.open()
    for number in range(5):
        *_, restart = world.fails(
            "a", Cause(FailureKind.EXECUTOR_LOST, "lost"), signature="x", at_ms=2_000 + 1_000 * number
        )
        assert isinstance(restart, RegionsRestart)
        world.take(StreamTick(), restart.due_ms)


def test_an_error_that_comes_back_is_not_tried_again() -> None:
    world = StreamWorld("a", "b", backoff=BACKOFF)
    world.open()
    *_, gave_up = world.fails("a", WRONG)
    assert isinstance(gave_up, RegionGivenUp) and gave_up.who == "unrecoverable cause"


def test_a_stream_that_ends_with_one_region_stops_the_others() -> None:
    world = StreamWorld("a", "b", backoff=NoRestart(), ends=True)
    world.open()
    *_, stop = world.fails("a")
    assert stop == StopRequested("a gave up", 1_000) and StopQuery("b", 1) in world.commands()
    *_, end = world.ends("b", QueryEnd.STOPPED)
    assert end == StreamEnded(StreamPhase.FAILED, 1_000)


def test_a_stop_ends_each_region_and_starts_none() -> None:
    world = StreamWorld("a", "b", "c")
    world.open()
    world.fails("a")
    assert world.take(StopStream("SIGTERM")) == (StopRequested("SIGTERM", 1_000),)
    assert world.take(StopStream("again")) == () and world.take(StreamTick(), 9_000) == ()
    assert world.commands() == [StartQuery("b", 1), StopQuery("b", 1), StartQuery("c", 1), StopQuery("c", 1)]
    assert world.ends("b", QueryEnd.STOPPED) == (QueryEnded(region="b", number=1, end=QueryEnd.STOPPED, at_ms=9_000),)
    *_, end = world.ends("c", QueryEnd.STOPPED)
    assert end == StreamEnded(StreamPhase.FAILED, 9_000), "a had failed, and was not started again"
    *_, a, b, c = world.open()
    assert [a, b, c] == [QueryStarted("a", 2, 9_000), QueryStarted("b", 2, 9_000), QueryStarted("c", 2, 9_000)]


def test_a_stop_while_all_restart_ends_the_stream() -> None:
    world = StreamWorld("a", "b", strategy="full")
    world.open()
    world.fails("a")
    world.take(StopStream("SIGTERM"))
    *_, end = world.ends("b", QueryEnd.STOPPED)
    assert end == StreamEnded(StreamPhase.FAILED, 1_000)


def test_a_healthy_stream_stops() -> None:
    world = StreamWorld("a", "b")
    world.open()
    world.fails("a")
    world.take(StreamTick(), 1_100)
    world.take(StopStream("SIGTERM"))
    world.ends("a", QueryEnd.STOPPED)
    *_, end = world.ends("b", QueryEnd.STOPPED)
    assert end == StreamEnded(StreamPhase.STOPPED, 1_100), "what failed before runs again"


def test_a_stop_with_nothing_running_ends_at_once() -> None:
    world = StreamWorld("a")
    world.open()
    world.fails("a")
    assert world.take(StopStream("SIGTERM")) == (
        StopRequested("SIGTERM", 1_000),
        StreamEnded(StreamPhase.FAILED, 1_000),
    )


def test_a_stream_that_is_closed_is_over_whatever_was_open() -> None:
    world = StreamWorld("a", "b")
    world.open()
    world.fails("a")
    closed = world.take(CloseStream("rekindle results release"), 2_000)
    assert closed == (StreamClosed("rekindle results release", 2_000),)
    assert world.phase is StreamPhase.CLOSED and world.phase.is_over and codec_of(STREAM).closes(closed)
    assert world.state is not None and world.state.ended_ms == 2_000
    assert not any(one.is_open or one.due_ms is not None for one in world.state.regions.values())
    assert world.take(StopStream("late")) == () and world.take(StreamTick(), 9_000) == ()


def test_all_input_read_is_the_end_and_the_next_start_goes_on() -> None:
    world = StreamWorld("a", "b")
    world.open()
    world.ends("a", QueryEnd.FINISHED, batch=3)
    *_, end = world.ends("b", QueryEnd.FINISHED, batch=4)
    assert end == StreamEnded(StreamPhase.FINISHED, 1_000) and world.commands() == [Stop()]
    *_, first, second = world.open()
    assert [first, second] == [QueryStarted("a", 2, 1_000), QueryStarted("b", 2, 1_000)]
    assert world.state is not None and world.state.regions["b"].batch == 4 and world.phase is StreamPhase.RUNNING


def test_a_stuck_query_waits_for_another_driver_and_the_others_go_on() -> None:
    world = StreamWorld("a", "b")
    world.open()
    *_, gave_up = world.ends("a", QueryEnd.STUCK, Cause(FailureKind.TIMED_OUT, "does not return"))
    assert isinstance(gave_up, RegionGivenUp) and gave_up.who == "its query does not stop"
    assert world.take(StreamTick(), 99_000) == () and world.commands() == [StartQuery("b", 1)]
    *_, a, b = world.open()
    assert [a, b] == [QueryStarted("a", 2, 99_000), QueryStarted("b", 2, 99_000)]


def test_a_new_driver_starts_what_ran_and_leaves_the_others_where_they_were() -> None:
    world = StreamWorld("a", "b", "c")
    world.open()
    world.fails("a", at_ms=2_000)
    world.fails("b", WRONG)
    *_, b, c = world.open()
    assert [b, c] == [QueryStarted("b", 2, 2_000), QueryStarted("c", 2, 2_000)], "one that gave up is tried again"
    assert world.commands() == [StartQuery("b", 2), StartQuery("c", 2), WakeAt(2_100)]
    assert world.take(StreamTick(), 2_100) == (QueryStarted("a", 2, 2_100),)


def test_a_region_that_gave_up_is_tried_again_after_an_end_or_with_other_code() -> None:
    world = StreamWorld("a", "b")
    world.open()
    world.fails("a", WRONG)
    fixed = StreamSpec(regions=(region("a", code="2"), region("b")))
    _, a, b = world.open(spec=fixed)
    assert [a, b] == [QueryStarted("a", 2, 1_000), QueryStarted("b", 2, 1_000)]
    world.fails("a", WRONG)
    world.take(StopStream("SIGTERM"))
    world.ends("b", QueryEnd.STOPPED)
    assert world.phase is StreamPhase.FAILED
    opened, a, b = world.open()
    assert isinstance(opened, StreamOpened) and opened.again == ("a", "b")
    assert [a, b] == [QueryStarted("a", 3, 1_000), QueryStarted("b", 3, 1_000)]


def test_a_region_that_the_code_no_longer_has_is_not_started_and_keeps_its_number() -> None:
    world = StreamWorld("a", "b")
    world.open()
    *_, last = world.open(spec=StreamSpec(regions=(region("b"),)))
    assert last == QueryStarted("b", 2, 1_000) and world.commands() == [StartQuery("b", 2)]
    *_, a, b = world.open(spec=StreamSpec(regions=(region("a"), region("b"))))
    assert [a, b] == [QueryStarted("a", 2, 1_000), QueryStarted("b", 3, 1_000)]
    assert world.ends("gone", QueryEnd.FINISHED, number=1) == ()


def test_a_region_that_is_gone_waits_for_nothing_and_keeps_no_other_one_waiting() -> None:
    """Found by the simulated world: its alarm, long over, stood before that of the others."""
    world = StreamWorld("a", "b")
    world.open()
    world.fails("a")
    world.open(spec=StreamSpec(regions=(region("b"),)))
    *_, restart = world.fails("b", at_ms=5_000)
    assert isinstance(restart, RegionsRestart) and world.commands() == [WakeAt(restart.due_ms)]


def test_a_new_checkpoint_begins_anew_with_one_region_and_leaves_the_others() -> None:
    world = StreamWorld("a", "b")
    world.open()
    world.fails("a", signature="x", batch=4)
    world.take(StreamTick(), 2_000)
    world.fails("a", signature="x", batch=4)
    world.ends("b", QueryEnd.STOPPED, batch=7)
    assert world.state is not None
    before = world.state.regions
    assert (before["a"].batch, before["a"].alike) == (4, 2)
    _, replaced, *queries = world.open(a=SourceStart.EARLIEST)
    assert replaced == CheckpointReplaced(region="a", generation=1, start=SourceStart.EARLIEST, at_ms=world.now_ms)
    after = world.state.regions
    assert (after["a"].generation, after["a"].batch, after["a"].alike, after["a"].gave_up) == (1, -1, 0, "")
    assert after["a"].number == before["a"].number + 1, "its number fences whoever has the old checkpoint"
    assert (after["b"].generation, after["b"].batch) == (0, 7)
    assert [one.region for one in queries if isinstance(one, QueryStarted)] == ["a", "b"]
    world.open(a=SourceStart.LATEST)
    assert world.state.regions["a"].generation == 2
    world.open()
    assert world.state.regions["a"].generation == 2, "the next start goes on with it"


@pytest.mark.parametrize("number", [1, 3])
def test_a_report_of_another_query_changes_nothing(number: int) -> None:
    world = StreamWorld("a", "b")
    world.open()
    world.open()
    assert world.fails("a", number=number) == ()


def test_delays_grow_and_begin_again_after_a_healthy_while() -> None:
    world = StreamWorld("a", "b", backoff=changed(BACKOFF, jitter=0.0, attempts_max=3))
    world.open()
    delays: list[int] = []
    for _ in range(3):
        *_, restart = world.fails("a", signature=str(len(delays)))
        assert isinstance(restart, RegionsRestart)
        delays.append(restart.due_ms - world.now_ms)
        world.take(StreamTick(), restart.due_ms)
    *_, restart = world.fails("a", at_ms=world.now_ms + BACKOFF.reset_after_ms, signature="last")
    assert isinstance(restart, RegionsRestart) and restart.due_ms - world.now_ms == delays[0]
    assert delays == [1_000, 2_000, 4_000]


def test_the_state_is_the_fold_of_what_is_stored() -> None:
    world = StreamWorld("a", "b", backoff=Exponential(attempts_max=1))
    world.open()
    world.fails("a")
    world.take(StreamTick(), 60_000)
    world.fails("a")
    world.take(StopStream("SIGTERM"))
    world.ends("b", QueryEnd.STOPPED)
    stored = [msgspec.json.decode(msgspec.json.encode(event), type=StreamRecord) for event in world.events]
    assert stored == world.events
    again = STREAM.fold(None, stored)
    assert again == world.state
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(world.state), type=StreamState) == world.state


def test_a_base_is_the_whole_state_in_one_event() -> None:
    world = StreamWorld("a", "b", backoff=Exponential(attempts_max=1))
    world.open()
    world.fails("a")
    assert STREAM.base is not None and world.state is not None
    codec = codec_of(STREAM)
    base = codec.decode(*codec.encode(STREAM.base(world.state)))
    assert codec.is_base((base,)) and not codec.is_base((base, base))
    assert STREAM.fold(None, (base,)) == world.state


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"is_open": True, "number": 0}, "has no number"),
        ({"is_open": True, "number": 1, "gave_up": "x"}, "gave up and is tried again"),
        ({"is_stuck": True, "due_ms": 5}, "stuck and is tried again"),
        ({"due_ms": 5}, "waits, and the code has no such region"),
        ({"awaits": ("a",)}, "waits for batches, and is not to start"),
        ({"needs": {"a": (1,)}}, "needs batches that it does not wait for"),
        ({"lost": (1,)}, "are lost, and nobody makes them again"),
        ({"lost": (1,), "replaying": (1,)}, "is made again twice"),
        ({"replay_needs": ("a",)}, "a replay of gone waits, and there is none"),
        ({"awaits": ("a",), "due_ms": 5}, "waits for batches of a, which nobody makes"),
    ],
)
def test_a_state_that_breaks_a_rule_is_refused(broken: dict[str, Any], said: str) -> None:
    world = StreamWorld("a")
    world.open()
    assert world.state is not None
    one = msgspec.structs.replace(world.state.regions["a"], **{"is_open": False, **broken})
    with pytest.raises(AssertionError, match=said):
        STREAM.invariants(msgspec.structs.replace(world.state, regions={**world.state.regions, "gone": one}))


def test_a_stream_that_is_over_has_no_query_and_the_code_has_every_region() -> None:
    world = StreamWorld("a")
    world.open()
    assert world.state is not None
    over = msgspec.structs.replace(world.state, phase=StreamPhase.STOPPED)
    with pytest.raises(AssertionError, match="the stream is over"):
        STREAM.invariants(over)
    with pytest.raises(AssertionError, match="no such region"):
        STREAM.invariants(msgspec.structs.replace(world.state, spec=StreamSpec(regions=())))
    with pytest.raises(AssertionError, match="has no state"):
        STREAM.invariants(msgspec.structs.replace(world.state, regions={}))


def test_a_stream_that_was_to_end_by_itself() -> None:
    now, later = region_spec("gold", trigger=AVAILABLE_NOW), region_spec("late")
    assert StreamSpec(regions=(now,)).is_available_now
    assert not StreamSpec(regions=(now, later)).is_available_now and not StreamSpec(regions=()).is_available_now


def test_a_region_that_ends_by_itself_starts_when_those_that_it_reads_have_ended() -> None:
    made, read = region_spec("made", trigger=AVAILABLE_NOW), region_spec("read", trigger=AVAILABLE_NOW, reads=("made",))
    world = StreamWorld("made", "read")
    *_, only = world.open(spec=StreamSpec(regions=(made, read)))
    assert only == QueryStarted("made", 1, 1_000)
    assert world.commands() == [StartQuery("made", 1)], "nothing wakes up for one that waits for another"
    *_, restart = world.fails("made")
    assert isinstance(restart, RegionsRestart) and restart.regions == ("made",)
    world.take(StreamTick(), 1_100)
    finished, started = world.ends("made", QueryEnd.FINISHED, at_ms=1_200)
    assert isinstance(finished, QueryEnded) and started == QueryStarted("read", 1, 1_200)
    *_, over = world.ends("read", QueryEnd.FINISHED, at_ms=1_300)
    assert isinstance(over, StreamEnded) and over.phase is StreamPhase.FINISHED


def test_a_reader_of_a_stream_without_end_starts_at_once() -> None:
    world = StreamWorld("made", "read")
    spec = StreamSpec(regions=(region_spec("made"), region_spec("read", reads=("made",))))
    *_, first, second = world.open(spec=spec)
    assert (first, second) == (QueryStarted("made", 1, 1_000), QueryStarted("read", 1, 1_000))
