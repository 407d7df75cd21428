"""The streaming queries of one driver: commands in, reports out.

Rules
- Each query has a session and a scheduler pool of its own, and is started in a thread of its own: a region that takes
  long to start holds up no other one.
- Before a query starts, its number is put into the fence of its region, with every number before it that is missing:
  whoever has a lower one ends at its next log entry (java/FencedCheckpoints).
- What a query is doing is looked at in one call for all. That look is the truth; nothing waits for a listener.
- A target is taken by its first query, for its stream alone: two streams on one target would add up.
- A query is stopped after the batch that it is in, if that ends in time. One that does not stop is reported as stuck.
- Poison is sought in a thread of its own, with jobs that are cancelled when the stream ends, or when one takes longer
  than a batch may.
- Batches of results that cannot be read any more are made again in the same way, while their region goes on.
- Small files of targets are made few in a thread of its own, whose failures are told and fail nothing.
- Nothing of ours in Python touches a row. A function of the user's that takes batches looks at the fence first.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec
from msgspec.structs import replace
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from rekindle.engine.adapter import PrepareRequest, Stores, StreamRequest
from rekindle.engine.spark.failures import cause_of, cause_of_ours, first_line, signature, text_of
from rekindle.engine.spark.jvm import driver_calls, stream_calls
from rekindle.engine.spark.jvm.access import CallFailed
from rekindle.engine.spark.publish.stream_result import result_path
from rekindle.engine.spark.publish.stream_target import CompactionReport
from rekindle.engine.spark.stream.background_compactor import BackgroundCompactor
from rekindle.engine.spark.stream.pinned_reader import PinnedReader
from rekindle.engine.spark.stream.poison_finder import Limited, PoisonFound
from rekindle.errors import Fenced, SparkDied, StoreFailed
from rekindle.model.failures import Cause, FailureKind
from rekindle.model.machine import Stop, WakeAt
from rekindle.publish.target import is_certainly_put
from rekindle.results.checkpoint_log import checkpoint_folder, frozen_region
from rekindle.streams.region_health import RegionHealth, RegionProgress, is_stalled, progressed
from rekindle.streams.shard_splits import FrozenRegion
from rekindle.streams.source_records import QuarantinedRecord
from rekindle.streams.stream_commands import FindPoison, ReplayBatches, StartQuery, StopQuery, StreamCommand
from rekindle.streams.stream_events import QueryEnd
from rekindle.streams.stream_spec import AVAILABLE_NOW
from rekindle.streams.stream_stimuli import PoisonReport, QueryReport, ReplayReport, StopStream, StreamStimulus

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STOP_SECONDS = 20
STOP_GRACE_SECONDS = 5.0
BATCH_END_SECONDS_MAX = 30.0
LOOK_SECONDS = 0.2
POOL = "spark.scheduler.pool"
OF_STATE = {
    "spark.sql.streaming.stateStore.providerClass": ROCKS,
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.minBatchesToRetain": "20",
}
SETTINGS = {
    "spark.sql.streaming.checkpointFileManagerClass": "rekindle.spark.FencedCheckpoints",
    "spark.sql.streaming.stopTimeout": f"{STOP_SECONDS}s",
    **OF_STATE,
}
# Batches of a memory result vanish, and what they were made of must be known until their readers have passed them.
LONG_RECORDS = {"spark.sql.streaming.minBatchesToRetain": "1000"}
# After every batch that there is.
LAST = 2**63 - 1
_LOOK = msgspec.json.Decoder(list[RegionHealth])


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStart:
    """What a query is started with: `settings` of its session, `look`, which raises if another driver has the region,
    `note`, which tells people something, the batch `inputs` that are pinned, and records `without` which it goes on."""

    spark: SparkSession
    wanted: PrepareRequest
    settings: Mapping[str, str]
    look: Callable[[], None]
    note: Callable[[str], None]
    inputs: PinnedReader
    without: Sequence[QuarantinedRecord] = ()


class RegionStarter(Protocol):
    """Starts the query of one region."""

    @property
    def trigger(self) -> str:
        """In words."""
        ...

    @property
    def checkpoints_before(self) -> int:
        """How many checkpoints came before the one that it has, whose batches are in its target."""
        ...

    def last(self, stores: Stores) -> int:
        """The last batch that its checkpoint has committed, -1 for none."""
        ...

    def compact(self, spark: SparkSession, stores: Stores, every: int) -> CompactionReport | None:
        """Make few files of those of many batches; None where its target has none."""
        ...

    def ready(self, start: QueryStart) -> Callable[[], StreamingQuery]:
        """All that comes before the start, and then the start."""
        ...

    def search(self, spark: SparkSession, request: StreamRequest, command: FindPoison, limited: Limited) -> PoisonFound:
        """The records of a batch that fail."""
        ...


class Replays(Protocol):
    """Finds batches of results that cannot be read any more, and makes them again."""

    def lost_by(self, reader: str, error: str = "") -> dict[str, tuple[int, ...]]:
        """Those that the next batch of a region reads, by their regions."""
        ...

    def replay(self, command: ReplayBatches, limited: Limited) -> ReplayReport:
        """Make batches again."""
        ...


# Given a function that tells whether a region has a query in this driver.
MakeReplays = Callable[[Callable[[str], bool]], Replays]


class RunningQuery:
    """One query of this driver. `is_ours_to_end` once somebody stops it: what it then looks like is no news. It is
    reported once; one that `is_abandoned` was reported before it had started, and is stopped as soon as it has."""

    def __init__(self, command: StartQuery, engine: str) -> None:
        self.region, self.number = command.region, command.number
        self.key = f"{self.region}#{self.number} {engine}"
        self.began = time.monotonic()
        self.is_abandoned = False
        self.is_reported = False
        self.query: StreamingQuery | None = None
        self.health: RegionHealth | None = None
        self.batch = -1
        self.progress: RegionProgress | None = None
        self.is_ours_to_end = False
        self.is_over = threading.Event()


class SparkStreamEngine:
    """The port of a stream's master."""

    def __init__(
        self,
        spark: SparkSession,
        request: StreamRequest,
        starters: Mapping[str, RegionStarter],
        replays: MakeReplays | None = None,
        in_memory: Sequence[str] = (),
    ) -> None:
        """`replays` is there where regions read results of others; those `in_memory` are memory results."""
        self._replays = None if replays is None else replays(self._is_running)
        self._in_memory = in_memory
        self._spark, self._request, self._starters = spark, request, starters
        self._root = request.wanted.root
        self._inputs = PinnedReader(request.pins, request.wanted.stores(self._root))
        self._reports: queue.SimpleQueue[StreamStimulus] = queue.SimpleQueue()
        self._notes: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._queries: dict[str, RunningQuery] = {}
        self._loader = driver_calls.class_loader(spark)
        self._lock = threading.Lock()
        self._name = uuid.uuid4().hex
        self._looked = 0.0
        self._is_closed = False
        self._has_asked = False
        self._jobs: set[str] = set()
        self._held: set[str] = set()
        self._compactor = BackgroundCompactor(
            spark,
            {name: partial(one.compact, stores=request.wanted.stores) for name, one in starters.items()},
            request.compact_batches,
            self._last_batch,
            [name for name, one in starters.items() if one.checkpoints_before],
        )

    @property
    def application(self) -> str:
        return str(self._spark.sparkContext.applicationId)

    def send(self, command: StreamCommand) -> None:
        match command:
            case StartQuery():
                running = RunningQuery(command, self._name)
                with self._lock:
                    self._queries[command.region] = running
                self._in_thread(self._start, running, command.without)
                self._compactor.begin(self._loader)
            case FindPoison():
                threading.Thread(target=self._search, args=(command,), daemon=True).start()
            case ReplayBatches():
                threading.Thread(target=self._replay, args=(command,), daemon=True).start()
            case StopQuery(region, number):
                held = self._queries.get(region)
                if held is not None and held.number == number and not held.is_ours_to_end:
                    held.is_ours_to_end = True
                    self._in_thread(self._end, held, None)
            case WakeAt() | Stop():
                raise AssertionError("the loop keeps these to itself")

    def poll(self, timeout_ms: int) -> Sequence[StreamStimulus]:
        if not self._has_asked and (why := self._request.is_asked_to_stop()):
            self._has_asked = True
            return [StopStream(why)]
        try:
            self._look()
        except (CallFailed, ConnectionError):
            if driver_calls.answers(self._spark):
                raise
            self._is_closed = True  # There is nothing left that could be stopped.
            raise SparkDied(SparkDied.told) from None
        found = self._taken()
        if not found:
            try:
                found = [self._reports.get(timeout=min(timeout_ms / 1000, LOOK_SECONDS))]
            except queue.Empty:
                return []
        return [*found, *self._taken()]

    def health(self) -> Mapping[str, RegionHealth]:
        return {name: one.health for name, one in self._queries.items() if one.health is not None}

    def notes(self) -> Sequence[str]:
        found = []
        while not self._notes.empty():
            found.append(self._notes.get())
        return [*found, *self._compactor.notes()]

    def freeze(self, region: str, number: int, generation: int) -> FrozenRegion:
        self._fence(region, number)
        return frozen_region(self._request.wanted.stores(self._root), checkpoint_folder(region, generation))

    def hold(self, region: str, is_held: bool) -> None:
        driver_calls.enter_thread(self._spark, self._loader)
        stream_calls.hold(self._spark, result_path(self._root, region), is_held=is_held)
        (self._held.add if is_held else self._held.discard)(region)

    def forget(self, region: str, through: int) -> None:
        if region in self._in_memory:
            driver_calls.enter_thread(self._spark, self._loader)
            stream_calls.release_blocks(self._spark, result_path(self._root, region), through)

    def close(self) -> None:
        """Stops every query, all at once, within the time that a stop may take."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            left = [one for one in self._queries.values() if not one.is_over.is_set()]
            jobs = tuple(self._jobs)
        self._compactor.close()
        for group in jobs:
            with contextlib.suppress(CallFailed, ConnectionError):
                self._spark.sparkContext.cancelJobGroup(group)
        for one in left:
            if not one.is_ours_to_end:
                one.is_ours_to_end = True
                self._in_thread(self._stop, one)
        until = time.monotonic() + STOP_SECONDS
        for one in left:
            one.is_over.wait(max(0.0, until - time.monotonic()))
        for region in self._in_memory:
            with contextlib.suppress(CallFailed, ConnectionError):
                self.forget(region, LAST)

    def _is_running(self, region: str) -> bool:
        held = self._queries.get(region)
        return held is not None and not held.is_over.is_set()

    def _last_batch(self, region: str) -> int:
        held = self._queries.get(region)
        return -1 if held is None else held.batch

    def _taken(self) -> list[StreamStimulus]:
        found = []
        while not self._reports.empty():
            found.append(self._reports.get())
        return found

    def _in_thread(self, work: Callable[..., object], running: RunningQuery, *given: object) -> None:
        def entered() -> None:
            """Whatever happens in it, also `sys.exit` in a function of the user's, is told: nobody else looks."""
            try:
                driver_calls.enter_thread(self._spark, self._loader)
                work(running, *given)
            except BaseException as error:
                running.is_over.set()
                self._report(running, QueryEnd.FAILED, cause_of_ours(error) or cause_of(text_of(error)))

        threading.Thread(target=entered, name=f"rekindle {running.key}", daemon=True).start()

    def _search(self, command: FindPoison) -> None:
        """The records that fail, or why none is named: whatever happens is told."""
        group = f"poison {command.region}#{command.number} {self._name}"
        report = PoisonReport(region=command.region, number=command.number)
        try:
            with self._beside(command.region, group, f"records of {command.region} that fail"):
                starter = self._starters[command.region]
                found = starter.search(self._spark, self._request, command, lambda: self._limited(group))
            report = replace(report, records=found.records, why=found.why, jobs=found.jobs)
        except BaseException as error:
            report = replace(report, why=first_line(error))
        self._tell(report)

    def _replay(self, command: ReplayBatches) -> None:
        """The batches again, or why they are not: whatever happens is told."""
        group = f"replay {command.region}#{command.number} {self._name}"
        try:
            assert self._replays is not None, "a result has readers"
            with self._beside(command.region, group, f"batches of {command.region} again"):
                report = self._replays.replay(command, lambda: self._limited(group))
        except BaseException as error:
            report = ReplayReport(region=command.region, number=command.number, why=first_line(error))
        self._tell(report)

    @contextlib.contextmanager
    def _beside(self, region: str, group: str, what: str) -> Iterator[None]:
        """Jobs for a region beside its query, which end with the stream."""
        with self._lock:
            self._jobs.add(group)
        try:
            driver_calls.enter_thread(self._spark, self._loader)
            self._spark.sparkContext.setJobGroup(group, what, True)
            self._spark.sparkContext.setLocalProperty(POOL, region)
            yield
        finally:
            with self._lock:
                self._jobs.discard(group)

    def _tell(self, report: PoisonReport | ReplayReport) -> None:
        with self._lock:
            is_news = not self._is_closed
        if is_news:
            self._reports.put(report)

    @contextlib.contextmanager
    def _limited(self, group: str) -> Iterator[None]:
        """A job that takes longer than a batch may is cancelled."""
        seconds = self._request.stall_ms / 1000
        timer = threading.Timer(seconds, self._spark.sparkContext.cancelJobGroup, (group,)) if seconds else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def _start(self, running: RunningQuery, without: Sequence[QuarantinedRecord]) -> None:
        self._fence(running.region, running.number)
        starter, wanted = self._starters[running.region], self._request.wanted
        # A query that fails in its first batch tells no progress: what it goes on after stands in its checkpoint.
        running.batch = starter.last(wanted.stores)
        query_of = starter.ready(
            QueryStart(
                spark=self._spark,
                wanted=wanted,
                settings=self._settings(running),
                look=partial(self._look_at_fence, running),
                note=self._notes.put,
                inputs=self._inputs,
                without=[one for one in without if one.batch < 0 or one.batch > running.batch],
            )
        )
        self._spark.sparkContext.setLocalProperty(POOL, running.region)
        with self._lock:
            if self._is_closed or running.is_abandoned:
                running.is_over.set()
                return
        query = query_of()
        stream_calls.watch(self._spark, running.key, query)
        with self._lock:
            running.query = query
            is_late = self._is_closed or running.is_abandoned
        if is_late:
            self._stop(running)

    def _settings(self, running: RunningQuery) -> dict[str, str]:
        return {
            **SETTINGS,
            "spark.rekindle.stream.fence": f"{self._root}/fence/{running.region}",
            "spark.rekindle.stream.epoch": str(running.number),
            "spark.rekindle.stream.root": self._root,
            "spark.rekindle.stream.owner": self._request.owner,
            **(LONG_RECORDS if running.region in self._in_memory else {}),
        }

    def _fence(self, region: str, number: int) -> None:
        """Put this number, and before it those that drivers died before they put: upwards, so that none is left out."""
        store = self._request.wanted.stores(self._root)
        lowest = number
        while lowest > 1 and store.get(f"fence/{region}/{lowest - 1}") is None:
            lowest -= 1
        for one in range(lowest, number + 1):
            if not is_certainly_put(store, f"fence/{region}/{one}", b""):
                raise StoreFailed(f"the fence of {region} was not certainly put")

    def _look_at_fence(self, running: RunningQuery) -> None:
        """As java/StreamFence does, for functions of the user's. Raises `Fenced`."""
        after = running.number + 1
        if self._request.wanted.stores(self._root).get(f"fence/{running.region}/{after}") is not None:
            raise Fenced(f"another driver took this region with epoch {after}, this one has epoch {running.number}")

    def _look(self) -> None:
        """At all queries, with one call, not more often than every fifth of a second."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for one in list(self._queries.values()):
            self._look_at_start(one, now)
        if not any(one.query is not None for one in self._queries.values()):
            return
        found = {health.key: health for health in _LOOK.decode(stream_calls.look(self._spark))}
        for one in list(self._queries.values()):
            health = found.get(one.key)
            if health is None or one.is_ours_to_end:
                continue
            one.batch = max(one.batch, health.batch)
            before = None if one.region in self._held else one.progress
            one.health, one.progress = health, progressed(before, health, round(now * 1000))
            if not health.is_active:
                self._ended(one, health)
            elif is_stalled(one.progress, round(now * 1000), self._request.stall_ms):
                one.is_ours_to_end = True
                text = f"batch {health.batch + 1} made no progress for {self._request.stall_ms // 1000} s"
                self._in_thread(self._end, one, Cause(FailureKind.TIMED_OUT, text))

    def _look_at_start(self, one: RunningQuery, now: float) -> None:
        """A start that never ends cannot be stopped: a function of the user's is called there."""
        if one.query is not None or one.is_ours_to_end or one.is_over.is_set():
            return
        stall_ms = self._request.stall_ms
        if stall_ms and (now - one.began) * 1000 >= stall_ms:
            one.is_ours_to_end = one.is_abandoned = True
            text = f"it did not start within {stall_ms // 1000} s: a function of it does not return"
            self._report(one, QueryEnd.STUCK, Cause(FailureKind.TIMED_OUT, text))

    def _ended(self, one: RunningQuery, health: RegionHealth) -> None:
        """By itself: it failed, or had read all that there is."""
        one.is_ours_to_end = True
        self._forget(one)
        if health.error and self._replays is not None:
            self._in_thread(self._failed, one, health.error)
        elif health.error:
            self._report(one, QueryEnd.FAILED, cause_of(health.error))
        elif self._starters[one.region].trigger == AVAILABLE_NOW:
            self._report(one, QueryEnd.FINISHED)
        else:
            self._report(one, QueryEnd.FAILED, Cause(FailureKind.CANCELLED, "somebody else stopped its query"))

    def _failed(self, running: RunningQuery, error: str) -> None:
        """With the batches of results that it was to read and that are gone. What cannot be looked at is found by the
        next query."""
        lost: dict[str, tuple[int, ...]] = {}
        assert self._replays is not None, "a result has readers"
        with contextlib.suppress(Exception):
            lost = self._replays.lost_by(running.region, error)
        self._report(running, QueryEnd.FAILED, cause_of(error), lost)

    def _end(self, running: RunningQuery, stalled: Cause | None) -> None:
        """Stop it, and say so. One that is stalled, or held, is not given the time to end its batch."""
        if stalled is None and running.region not in self._held:
            self._wait_for_batch(running)
        with self._lock:
            running.is_abandoned = running.query is None and not running.is_over.is_set()
        if running.is_abandoned or not self._stop(running):
            text = f"its query did not stop within {STOP_SECONDS} s: a function of it does not return"
            self._report(running, QueryEnd.STUCK, Cause(FailureKind.TIMED_OUT, text, stalled))
            self._fence(running.region, running.number + 1)
        elif stalled is not None:
            self._report(running, QueryEnd.FAILED, stalled)
        elif running.query is not None and (failed := running.query.exception()) is not None:
            self._report(running, QueryEnd.FAILED, cause_of(text_of(failed)))
        else:
            self._report(running, QueryEnd.STOPPED)

    def _wait_for_batch(self, running: RunningQuery) -> None:
        until = time.monotonic() + BATCH_END_SECONDS_MAX
        while running.query is None and not running.is_over.is_set() and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
        query = running.query
        if query is None:
            return
        first = _batch(query)
        while query.isActive and query.status["isTriggerActive"] and _batch(query) == first:
            if time.monotonic() > until:
                return
            time.sleep(LOOK_SECONDS / 4)

    def _stop(self, running: RunningQuery) -> bool:
        """Whether it is over."""
        query = running.query
        is_stopped = True
        if query is not None:
            is_stopped = _is_stopped(query)
            if is_stopped:
                running.batch = max(running.batch, _batch(query))
        if is_stopped:
            self._forget(running)
        running.is_over.set()
        return is_stopped

    def _forget(self, running: RunningQuery) -> None:
        running.is_over.set()
        with contextlib.suppress(CallFailed, ConnectionError):
            stream_calls.forget(self._spark, running.key)

    def _report(
        self,
        running: RunningQuery,
        end: QueryEnd,
        cause: Cause | None = None,
        lost: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        with self._lock:
            is_news = not self._is_closed and not running.is_reported
            running.is_reported = True
        if is_news:
            report = QueryReport(
                region=running.region,
                number=running.number,
                end=end,
                cause=cause,
                batch=running.batch,
                signature="" if cause is None else signature(cause),
                lost=dict(lost or {}),
            )
            self._reports.put(report)


def _is_stopped(query: StreamingQuery) -> bool:
    """Whether it stopped in time. How long Spark waits is up to the session, which may be a script's own."""
    answers: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def stop() -> None:
        try:
            query.stop()
            answers.put(True)
        except Exception:
            answers.put(False)

    threading.Thread(target=stop, daemon=True).start()
    try:
        return answers.get(timeout=STOP_SECONDS + STOP_GRACE_SECONDS)
    except queue.Empty:
        return False


def _batch(query: StreamingQuery) -> int:
    """The last one that it computed: while it waits for input, Spark tells the number of the next one."""
    progress = query.lastProgress
    if progress is None:
        return -1
    return int(progress["batchId"]) - (0 if "addBatch" in progress["durationMs"] else 1)
