"""A stream in words."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from msgspec.structs import replace as changed

from rekindle.failover.backoff import BackoffState
from rekindle.failover.restart import Strategy
from rekindle.model.failures import Cause, FailureKind
from rekindle.observe.stream_told import StreamPlan, health_lines, news, stream_summary
from rekindle.streams.region_changes import ChangeVerdict, RegionChange
from rekindle.streams.region_health import RegionHealth
from rekindle.streams.source_records import QuarantinedRecord, SourceRecord
from rekindle.streams.source_starts import StartRequest
from rekindle.streams.stream_events import (
    BatchesLost,
    BatchesReplayed,
    CheckpointReplaced,
    PoisonSuspected,
    QueryEnd,
    QueryEnded,
    QueryStarted,
    RecordsQuarantined,
    RegionGivenUp,
    RegionsRestart,
    StopRequested,
    StreamEnded,
    StreamOpened,
    StreamPhase,
    StreamStarted,
)
from rekindle.streams.stream_machine import STREAM
from rekindle.streams.stream_spec import Delivery, SourceStart, StreamLimits, StreamSpec
from rekindle.streams.stream_state import StreamState
from streams.specs import region_spec

SEVEN = Cause(FailureKind.EXCEPTION, "ValueError: seven")


SPEC = StreamSpec(
    regions=(region_spec("gold"), region_spec("once", stateful=("once",), shared=("clean",)), region_spec("late"))
)
STARTED = StreamStarted(
    pipeline="shop", run="r", limits=StreamLimits(strategy=Strategy.FULL), run_time_ms=1, seed=2, at_ms=1_000
)
OPENED = StreamOpened(application="app", owner="me", spec=SPEC, at_ms=1_000)
QUERIES = tuple(QueryStarted(name, 1, 1_000) for name in SPEC.names)
FAILED = QueryEnded(region="once", number=1, end=QueryEnd.FAILED, at_ms=2_000, batch=4)
RESTART = RegionsRestart(
    region="once", cause=SEVEN, regions=("once", "late"), due_ms=5_000, backoff=BackoffState(), at_ms=2_000
)
GAVE_UP = RegionGivenUp(region="gold", who="exponential delay", why="10 restarts", cause=SEVEN, at_ms=3_000)


def state(*events: object) -> StreamState:
    found = STREAM.fold(None, (STARTED, OPENED, *QUERIES, *events))  # type: ignore[arg-type]
    assert found is not None
    return found


def told(*events: object) -> list[str]:
    return list(news(events, state(*events), 2_000))  # type: ignore[arg-type]


def test_news_name_the_region_and_what_follows() -> None:
    assert list(news((STARTED, OPENED, *QUERIES), state(), 1_000)) == ["gold started", "once started", "late started"]
    assert told(FAILED, RESTART) == [
        "once failed: ValueError: seven",
        "once restarts from its checkpoint in 3.0 s, with late (strategy full)",
    ]
    ended = QueryEnded(region="gold", number=1, end=QueryEnd.FAILED, at_ms=3_000)
    assert told(ended, GAVE_UP) == [
        "gold gave up: exponential delay (10 restarts); last failure: ValueError: seven",
        "once, late go on without it",
    ]
    finished = [QueryEnded(region=name, number=1, end=QueryEnd.FINISHED, at_ms=3_000) for name in ("once", "gold")]
    assert told(*finished) == ["once has read all its input", "gold has read all its input"]
    assert told(*finished, QueryEnded(region="late", number=1, end=QueryEnd.FAILED, at_ms=4_000), GAVE_UP)[2:] == [
        "gold gave up: exponential delay (10 restarts); last failure: ValueError: seven"
    ]
    assert told(StopRequested("SIGTERM", 3_000))[-1] == "stopping after the batches that run: SIGTERM"
    stopped = [QueryEnded(region=name, number=1, end=QueryEnd.STOPPED, at_ms=3_000) for name in SPEC.names]
    assert told(*stopped, StreamEnded(StreamPhase.STOPPED, 3_000))[-2:] == ["late stopped", "stream stopped"]
    assert told(FAILED, QueryStarted("once", 2, 5_000)) == ["once started (query 2)"]
    replaced = CheckpointReplaced(region="once", generation=1, start=SourceStart.EARLIEST, at_ms=5_000)
    assert told(FAILED, replaced) == ["once has a new checkpoint, and reads its sources from earliest on"]


def test_the_plan_tells_what_a_new_checkpoint_reads_and_not_that_the_code_changed() -> None:
    changes = (RegionChange("once", ChangeVerdict.MIXES_STATE, ("once",), ("once: code",)),)
    plan = StreamPlan(pipeline="shop", run="r", spec=SPEC, known=state(), changes=changes, batches={"gold": 3})
    assert "  once: changes what the state means (once: code)" in plan.lines()
    anew = replace(plan, starts={"once": StartRequest(SourceStart.EARLIEST)}, begins={"once": ("kafka: all",)})
    where = "new checkpoint: reads from earliest on, and adds to the rows that are there"
    assert f"    exactly once to files once; trigger: 10 seconds; {where}" in anew.lines()
    assert "    begins with kafka: all" in anew.lines()
    assert "changes what the state means" not in str(anew)
    assert msgspec.json.decode(anew.to_json())["new_checkpoints"] == {"once": "earliest"}


def test_health_tells_each_region() -> None:
    ended = QueryEnded(region="gold", number=1, end=QueryEnd.FAILED, at_ms=3_000)
    now = state(FAILED, RESTART, ended, GAVE_UP)
    seen = RegionHealth(
        key="late#1",
        is_active=True,
        is_in_batch=False,
        batch=9,
        rows_per_second=1234.6,
        took_ms=80,
        state_rows=7,
        state_bytes=2048,
    )
    assert list(health_lines(now, {"late": seen}, 2_000)) == [
        "gold: gave up (exponential delay: 10 restarts)",
        "once: restarts in 3 s; 1 restart",
        "late: batch 9, 1,235 rows/s, 80 ms a batch, state 7 rows, 2.05 kB; 1 restart",
    ]
    finished = QueryEnded(region="late", number=1, end=QueryEnd.FINISHED, at_ms=3_000)
    *_, last = health_lines(state(finished), {}, 2_000)
    assert last == "late: finished" and next(health_lines(state(), {}, 2_000)) == "gold: starting"


def test_the_plan_tells_what_each_region_gives_and_where_it_goes_on() -> None:
    ended = QueryEnded(region="gold", number=1, end=QueryEnd.FAILED, at_ms=3_000)
    changes = (
        RegionChange("gold", ChangeVerdict.SAME),
        RegionChange("late", ChangeVerdict.COMPATIBLE, ("late",), ("late: code",)),
    )
    plan = StreamPlan(
        pipeline="shop",
        run="r",
        spec=SPEC,
        known=state(ended, GAVE_UP),
        changes=changes,
        batches={"once": 4},
        notes=("mind the gap",),
    )
    assert str(plan).splitlines() == [
        "stream r of shop: 3 regions, each fails and restarts alone",
        "  gold  orders -> gold",
        "    exactly once to files gold; trigger: 10 seconds; has no batch yet",
        "    no state",
        "    had given up (exponential delay: 10 restarts); is tried again",
        "  once  orders -> once",
        "    exactly once to files once; trigger: 10 seconds; goes on after batch 4",
        "    state at once, in RocksDB with checkpoint format 2; clean is computed in several regions",
        "  late  orders -> late",
        "    exactly once to files late; trigger: 10 seconds; has no batch yet",
        "    no state",
        "  late: compatible from the next batch on (late: code)",
        "  mind the gap",
    ]
    as_json = msgspec.json.decode(plan.to_json())
    assert [one["batch"] for one in as_json["regions"]] == [-1, 4, -1] and as_json["changes"][1]["region"] == "late"
    assert str(StreamPlan(pipeline="shop", run="r", spec=SPEC)).startswith("new stream of shop: 3 regions")


def test_the_summary_tells_the_last_batch_of_each_region() -> None:
    stopped = [QueryEnded(region=name, number=1, end=QueryEnd.STOPPED, at_ms=3_000) for name in SPEC.names]
    now = state(FAILED, RESTART, *stopped, StreamEnded(StreamPhase.STOPPED, 4_000))
    seen = RegionHealth(key="gold#1", is_active=False, is_in_batch=False, batch=6)
    summary = stream_summary(now, {"gold": seen}, was_resumed=True)
    assert list(summary.lines()) == [
        "stream r of shop stopped after 3 s",
        "  gold: batch 6; files gold",
        "  once: batch 4, 1 restart; files once",
        "  late: no batch yet, 1 restart; files late",
        "  the next start goes on from there",
    ]
    assert summary.was_resumed and summary.failures == 2


def test_a_delivery_that_is_not_exactly_once_is_told_with_its_reason() -> None:
    spec = StreamSpec(regions=(region_spec("sent", delivery=Delivery.AT_LEAST_ONCE, why="Kafka keeps what it has"),))
    lines = list(StreamPlan(pipeline="shop", run="r", spec=spec).lines())
    assert lines[2].startswith("    at least once to files sent; ")
    assert lines[3] == "    at least once: Kafka keeps what it has"
    opened = StreamOpened(application="app", owner="me", spec=spec, at_ms=1_000)
    ended = STREAM.fold(None, (STARTED, opened, QueryStarted("sent", 1, 1_000)))
    assert ended is not None
    summary = stream_summary(ended, {}, was_resumed=False)
    assert "    at least once: Kafka keeps what it has" in list(summary.lines())


LEFT = QuarantinedRecord(SourceRecord(source=0, place="in/a.parquet", number=7), SEVEN)
SUSPECTED = PoisonSuspected(region="once", batch=5, cause=SEVEN, at_ms=2_000)
QUARANTINED = RecordsQuarantined(region="once", batch=5, records=(LEFT,), at_ms=3_000, jobs=9)


def test_a_search_and_what_a_region_goes_on_without_are_told() -> None:
    assert told(FAILED, SUSPECTED) == [
        "once failed: ValueError: seven",
        "once seeks the records of batch 5 that fail",
    ]
    assert told(FAILED, SUSPECTED, QUARANTINED)[2:] == [
        "once goes on without row 7 of in/a.parquet: ValueError: seven",
        "once: found with 9 Spark jobs, kept in quarantine/once",
    ]
    seeking, without = state(FAILED, SUSPECTED), state(FAILED, SUSPECTED, QUARANTINED)
    assert "once: seeks the records of batch 5 that fail" in list(health_lines(seeking, {}, 3_000))
    assert "once: restarts in 0 s; without 1 record" in list(health_lines(without, {}, 3_000))
    lines = list(stream_summary(without, {}, was_resumed=False).lines())
    assert "    without row 7 of in/a.parquet: ValueError: seven" in lines
    spec = StreamSpec(regions=(region_spec("once", quarantine=2), region_spec("new", quarantine=1)))
    plan = str(StreamPlan(pipeline="shop", run="r", spec=spec, known=without))
    assert "may go on without 2 records; goes on without row 7 of in/a.parquet" in plan
    assert "may go on without 1 record; none is in quarantine" in plan


def test_news_of_batches_that_are_lost_and_made_again() -> None:
    lost = BatchesLost(region="gold", batches=(3, 4, 5, 6, 7, 8), reader="once", readers=("once",), at_ms=2_000)
    failed = FAILED, lost, changed(RESTART, regions=("once",))
    assert (
        told(*failed)[0]
        == "gold: batches 3, 4, 5, 6, 7 and 1 more of its result cannot be read by once, and made again"
    )
    made = BatchesReplayed(region="gold", batches=(3, 4, 5, 6, 7, 8), changed=(3,), at_ms=3_000)
    assert told(*failed, made)[-1] == (
        "gold: batches 3, 4, 5, 6, 7 and 1 more of its result can be read again, batch 3 with other rows, which "
        "nobody had read"
    )
    over = BatchesReplayed(region="gold", batches=(), why="its source is gone", at_ms=3_000)
    assert told(*failed, over)[-1] == "gold: its source is gone"
    assert told(FAILED, changed(lost, batches=()), changed(RESTART, regions=("once",)))[0].startswith("once failed")
    summary = stream_summary(state(*failed, made), {}, was_resumed=False)
    assert summary.regions["gold"].replayed == 6 and "    6 batches of its result made again" in list(summary.lines())
    doubtful = fold_of(StreamLimits(), FAILED, lost, RESTART)
    assert list(news((RESTART,), doubtful, 2_000))[-1] == (
        "once restarts from its checkpoint in 3.0 s, with late (they read rows that may come back as others)"
    )


def fold_of(limits: StreamLimits, *events: object) -> StreamState:
    found = STREAM.fold(None, (changed(STARTED, limits=limits), OPENED, *QUERIES, *events))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_the_plan_says_what_becomes_of_lost_batches() -> None:
    regions = (
        region_spec("a", result="memory", target="its memory result", doubts=("rand()",)),
        region_spec("b", result="caching", target="its caching result", unreplayable="it keeps state (Deduplicate)"),
    )
    made = StreamPlan(
        pipeline="shop",
        run="r",
        spec=StreamSpec(regions=(*regions, region_spec("c", reads=("a",)))),
        result_bytes={"a": 2_000_000},
    )
    plan = list(made.lines())
    assert (
        plan.pop(3)
        == "    each batch is kept once in memory of executors, and read by 1 region; a batch had 2 MB lately"
    )
    assert plan.pop(3) == "    each batch costs: as files 2 MB written and 2 MB read; in memory 2 MB of executors"
    assert plan.pop(3) == "    a reader that fails reads 2 MB again for each batch"
    assert "    each batch is kept once as files, and read by 0 regions" in plan
    assert plan[4] == "    a batch that is lost is made again from what the checkpoint recorded"
    assert plan[5].startswith("    it is not proved to have the same rows then (rand()): all who read it restart")
    assert plan[3] == "    batches vanish with executors, with the driver, and beyond stream.memory_bytes_max"
    assert "    a batch that is lost cannot be made again: it keeps state (Deduplicate)" in plan
