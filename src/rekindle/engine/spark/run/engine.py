"""The engine port on a classic Spark session: commands in, stimuli out, one thread per running attempt.

`send` never waits for Spark. `poll` drains what has happened; it is called by the one loop. What is done in a thread of
its own and fails is an answer as well: the loop must not wait for a report that cannot come. What only cleans up is
tried again, and then left to gc.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.failures import first_line
from rekindle.engine.spark.jvm import driver_calls, file_calls, plan_calls, result_calls
from rekindle.engine.spark.jvm.access import CallFailed
from rekindle.engine.spark.plan import kept_frames, plans
from rekindle.engine.spark.plan.group import GroupSpec
from rekindle.engine.spark.plan.layout import PlannedQuery, hold
from rekindle.engine.spark.plan.looking import changed_input, source_files
from rekindle.engine.spark.plan.sources import pin
from rekindle.engine.spark.run import digests, results
from rekindle.engine.spark.run.attempts import Attempt, HeldPlan
from rekindle.engine.spark.run.blocks import Blocks, InputBlocksLost
from rekindle.engine.spark.session import attach, group_session, without_checksums
from rekindle.errors import RunFailed, SparkDied
from rekindle.master.facts.stimuli import (
    AttemptEnded,
    AttemptSealed,
    DeletionDone,
    DeletionFailed,
    PartsLost,
    SinkFailed,
    Stimulus,
)
from rekindle.master.state.commands import (
    CancelAttempt,
    Command,
    DeleteAttempt,
    Input,
    PublishSink,
    ReleaseExchanges,
    SealAttempt,
    StartAttempt,
)
from rekindle.master.state.run_state import Segment
from rekindle.model.ids import AttemptId
from rekindle.model.kinds import FailureDomain
from rekindle.model.partitions import Partitions
from rekindle.remedies import CommandRemedy, StartKind, StartRemedy
from rekindle.results import manifest
from rekindle.results.result_paths import LEVELS, directory_of

PUBLISH_SECONDS_MAX = 20.0
POLL_MS_MAX = 200
CLEANING_PAUSES_SECONDS = (1.0, 5.0, 0.0)

# Puts a committed result into its target and reports what came of it. Called in a thread of its own.
Publish = Callable[[PublishSink], tuple[Stimulus, ...]]


def committed_files(segments: Iterable[Segment]) -> list[tuple[int, str, int]]:
    """(partition, path below the run, bytes) of everything that counts and has rows."""
    return [
        (commit.partition, f"{directory_of(segment.attempt)}/{commit.name}", commit.bytes)
        for segment in segments
        for commit in manifest.with_rows(segment.manifest, segment.partitions)
    ]


def read_committed(
    session: SparkSession,
    root: str,
    group: GroupSpec,
    segments: Sequence[Segment],
    *,
    is_by_file: bool = False,
    is_source: bool = False,
) -> DataFrame:
    """What these segments make count of one kept step, with the schema it was written with."""
    files, schema = _files_and_schema(session, group, segments)
    return kept_frames.read(
        session, root, files, schema, group.lies, outline=group.outline, is_by_file=is_by_file, is_source=is_source
    )


def _files_and_schema(
    session: SparkSession, group: GroupSpec, segments: Sequence[Segment]
) -> tuple[list[tuple[str, int]], Any]:
    """No segments: nothing of it is read, or all that is was left out. Then it has the schema that the code gives it
    now."""
    if not segments:
        assert group.planned is not None, f"{group.step} was never planned"
        return [], group.planned.schema
    files = [(path, length) for _, path, length in committed_files(segments)]
    return files, plan_calls.schema_of(session, manifest.schema_of(segments[0].manifest))


TRY_STORAGE = (
    CommandRemedy("doctor", "try the storage"),
    StartRemedy(to="then go on with what is kept", kind=StartKind.RESUME),
)


def _is_failure(told: Stimulus) -> bool:
    match told:
        case AttemptEnded(failures=failures):
            return bool(failures)
        case SinkFailed():
            return True
        case _:
            return False


class SparkEngine:
    """Runs the attempts of one run in one Spark application."""

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        groups: Mapping[str, GroupSpec],
        settings: Mapping[str, str] | None = None,
        publish: Publish | None = None,
    ) -> None:
        attach(spark)
        self._settings = dict(settings or {})
        self._publish = publish
        self._publishing: list[threading.Thread] = []
        self._spark = spark
        self._loader = driver_calls.class_loader(spark)
        self._root = root.rstrip("/")
        self._groups = dict(groups)
        self._planned = {name: group.planned for name, group in groups.items() if group.planned and not group.inputs}
        self._generations: dict[tuple[str, int], HeldPlan] = {}
        self._replaced: list[tuple[tuple[str, int], HeldPlan]] = []
        self._planning = threading.Lock()
        self._shapes: dict[str, plans.Shape] = {}
        self._listener: Any = None
        self._blocks = Blocks(spark, self._root, {name: group.kind for name, group in groups.items()})
        # A loss that is found and a commit that comes in are told in the order in which they are known here.
        self._telling = threading.Lock()
        self._running: dict[AttemptId, Attempt] = {}
        self._reports: queue.SimpleQueue[Stimulus] = queue.SimpleQueue()
        self._troubles: queue.SimpleQueue[RunFailed] = queue.SimpleQueue()
        self._has_died = False

    @property
    def application(self) -> str:
        return str(self._spark.sparkContext.applicationId)

    def send(self, command: Command) -> None:
        match command:
            case StartAttempt():
                self._start(command)
            case CancelAttempt():
                running = self._running.get(command.attempt)
                if running is not None:
                    running.cancel(self._spark)
            case SealAttempt():
                self._apart(f"list what {command.attempt} committed", lambda: self._seal(command.attempt))
            case DeleteAttempt(attempt):
                self._in_time(
                    f"delete {attempt}",
                    lambda: self._delete(attempt),
                    lambda why: self._tell(DeletionFailed(attempt, why)),
                )
            case ReleaseExchanges(step, generation):
                self._let_go(lambda key: key[0] == step and key[1] <= generation)
            case PublishSink():
                assert self._publish is not None, "a run with sinks has somebody to publish them"
                publish = self._publish
                thread = self._apart(f"publish {command.sink}", lambda: self._tell(*publish(command)))
                self._publishing = [*(one for one in self._publishing if one.is_alive()), thread]
            case _:
                raise AssertionError(f"not a command for the engine: {command}")

    def poll(self, timeout_ms: int) -> list[Stimulus]:
        """Everything reported since the last call; waits a little for the first report. Raises what could not be done:
        a later driver finds it still to do."""
        try:
            self._look_at_attempts()
        except (CallFailed, ConnectionError):
            if not self._is_dead():
                raise
        found = []
        with contextlib.suppress(queue.Empty):
            found.append(self._reports.get(timeout=min(timeout_ms, POLL_MS_MAX) / 1000))
            while True:
                found.append(self._reports.get_nowait())
        if self._has_died:
            raise SparkDied(SparkDied.told)
        if not self._troubles.empty():
            raise self._troubles.get()
        return found

    def _look_at_attempts(self) -> None:
        for attempt, running in list(self._running.items()):
            running.drain()
            if running.is_over():
                del self._running[attempt]
            elif running.is_cancelled:
                running.cancel(self._spark)
        self._tell_lost_blocks()

    def close(self) -> None:
        """Nothing this process started may go on, and nothing that was held for it is held any more. A publication is
        waited for: one that was overtaken takes its files away at its end. Where the JVM is gone, all of it is."""
        if self._has_died:
            return
        if self._listener is not None:
            driver_calls.unlisten(self._spark, self._listener)
            self._listener = None
        self._blocks.close()
        for running in list(self._running.values()):
            running.cancel(self._spark)
        until = time.monotonic() + PUBLISH_SECONDS_MAX
        for thread in self._publishing:
            thread.join(max(0.0, until - time.monotonic()))
        self._let_go(lambda key: True)

    def tasks(self, command: StartAttempt) -> int | None:
        """How many Spark tasks of all stages an attempt would take that is the first of its generation here, if that
        can be known before it starts: what reads results that are not made yet is known only if it is pointwise. A plan
        of its own is made for the answer; nothing is executed."""
        group = self._groups[command.attempt.step]
        if group.is_eager or group.lies.is_bound:
            return None
        if not all(segment.manifest for one in command.inputs for segment in one.segments):
            is_pointwise = group.lies.keys and group.planned is not None and group.planned.shape.is_narrow
            return len(command.partitions) if is_pointwise else None
        held = self._plan(command)
        if group.lies.is_by_file:
            return len(results.tasks_of(held, held.rdd(), command.partitions)) if held.shape.is_narrow else None
        below = plans.map_tasks(held.frame)
        return None if below is None else below + len(command.partitions)

    def exchanges(self, step: str) -> int:
        """How many exchanges and broadcasts the newest plan of a step has; -1 if it was not planned here."""
        shape = self._shapes.get(step)
        return -1 if shape is None else shape.exchanges + shape.broadcasts

    def read(
        self, one: Input, session: SparkSession, *, is_by_file: bool = False, is_source: bool = False
    ) -> DataFrame:
        """The committed files of a kept step, whatever attempts they come from."""
        group = self._groups[one.step]
        return read_committed(session, self._root, group, one.segments, is_by_file=is_by_file, is_source=is_source)

    def _tell(self, *told: Stimulus) -> None:
        """What fails because the JVM is gone is no news of the run: an attempt that ended so may have committed more
        than was seen, and whoever takes the run over looks for that only if the attempt is open."""
        if any(_is_failure(one) for one in told) and self._is_dead():
            return
        with self._telling:
            for stimulus in told:
                self._blocks.note(stimulus)
                self._reports.put(stimulus)

    def _is_dead(self) -> bool:
        if not driver_calls.answers(self._spark):
            self._has_died = True
        return self._has_died

    def _tell_lost_blocks(self) -> None:
        with self._telling:
            lost = self._blocks.lost()
            if lost:
                self._reports.put(PartsLost(lost, FailureDomain.EXECUTOR))

    def _listen(self) -> None:
        """Not before there is something to hear: a run that is refused leaves nothing behind."""
        if self._listener is None:
            self._listener = driver_calls.listen_to_tasks(self._spark)
            self._blocks.listen()

    def _let_go(self, is_meant: Callable[[tuple[str, int]], bool]) -> None:
        """All that was held for these steps and generations, also plans that others took the place of."""
        with self._planning:
            known = [*self._generations.items(), *self._replaced]
            self._generations = {key: held for key, held in self._generations.items() if not is_meant(key)}
            self._replaced = [(key, held) for key, held in self._replaced if not is_meant(key)]
        for key, held in known:
            if is_meant(key) and held.has_run:
                self._in_time(f"release the exchanges of {key[0]}", held.let_go, lambda why: None)

    def _start(self, command: StartAttempt) -> None:
        self._listen()
        group = self._groups[command.attempt.step]
        with self._telling:
            storing = self._blocks.storing(command, group.replicas)
        attempt = Attempt(
            command,
            self._root,
            directory_of(command.attempt),
            self._tag(command.attempt),
            lambda: self._generation(command),
            self._tell,
            is_digested=group.is_digested,
            storing=storing,
        )
        self._running[command.attempt] = attempt
        attempt.start()

    def _generation(self, command: StartAttempt) -> HeldPlan:
        """Called in the attempt's own thread, first of all."""
        driver_calls.enter_thread(self._spark, self._loader)
        if missing := self._blocks.missing(command.inputs):
            raise InputBlocksLost(missing)
        key = command.attempt.step, command.attempt.generation
        known = self._generations.get(key)
        if known is None or known.is_stuck or not known.reads(command):
            if absent := {one.step: one.absent for one in command.inputs if one.absent}:
                raise InputBlocksLost({}, absent)
            held = self._planned.pop(command.attempt.step, None)
            if held is None:
                held = self._plan(command)
            else:
                refuse_other_listing(self._groups[key[0]], held.frame)
            sources = source_files(key[0], held.frame, self._enter)
            group = self._groups[key[0]]
            made = HeldPlan(
                held,
                command,
                is_eager=group.is_eager,
                # Where there are checksums they are taken all the same: they also hold when the code has changed.
                has_equal_exchanges=group.has_equal_exchanges and bool(without_checksums(self._spark)),
                sources=sources,
            )
            with self._planning:
                if known is not None:
                    self._replaced.append((key, known))
                self._generations[key] = made
            self._shapes[command.attempt.step] = held.shape
            return made
        return known

    def _plan(self, command: StartAttempt) -> PlannedQuery:
        session = group_session(self._spark, self._settings)
        group = self._groups[command.attempt.step]
        frame = self._over_files(group, session, command.inputs)
        if frame is None:
            by_file = group.lies.is_by_file
            frame = group.frame(
                session, {one.step: self.read(one, session, is_by_file=by_file) for one in command.inputs}
            )
        refuse_change(group, frame)
        held = hold(frame, session, group.lies, like=group.planned)
        if group.planned is not None and group.planned.is_read_apart and not held.is_read_apart:
            raise AssertionError(f"Spark plans an exchange for {group.step}, which was drawn without one")
        if group.has_equal_exchanges and not held.has_equal_exchanges:
            raise AssertionError(f"Spark plans {group.step} with work below an exchange that was drawn above it")
        if result_calls.reads_stand_in(session, held.plan):
            raise AssertionError(f"the plan of {group.step} reads the stand-in of a kept step, which has no rows")
        return held

    def _over_files(self, group: GroupSpec, session: SparkSession, inputs: Iterable[Input]) -> DataFrame | None:
        """What was built over stand-ins, over these files. None where the group must be built again: an eager step acts
        on the rows themselves, and one that asked for files or sizes while it was built may build something else, as
        may one that leaves a view for the whole application."""
        if group.is_eager or group.built is None or group.built.needs_files:
            return None
        scans: dict[str, DataFrame] = {}
        for one in inputs:
            below = self._groups[one.step]
            files, schema = _files_and_schema(session, below, one.segments)
            scans[one.step] = kept_frames.scan(
                session,
                self._root,
                files,
                schema,
                below.lies,
                outline=below.outline,
                is_by_file=group.lies.is_by_file,
            )
        return kept_frames.over_files(group.built.stored, session, scans)

    def _seal(self, attempt: AttemptId) -> None:
        """Names are unique per attempt and only what is listed here will be journaled: that is the seal."""
        directory = f"{self._root}/{directory_of(attempt)}"
        packed = file_calls.get_file(self._spark, f"{directory}/{manifest.LABEL}")
        if not packed:
            self._tell(AttemptSealed(attempt=attempt))
            return
        try:
            label = msgspec.json.decode(packed, type=manifest.Label)
        except msgspec.DecodeError:  # The disk was full, and the attempt wrote nothing behind its label.
            self._tell(AttemptSealed(attempt=attempt))
            return
        listing = file_calls.list_files(self._spark, directory)
        commits = manifest.from_listing(listing)
        if commits and self._reads_changed_sources(attempt):
            self._tell(AttemptSealed(attempt=attempt))
            return
        found = Partitions(commit.partition for commit in commits)
        known = self._digests(attempt, commits, label.schema)
        self._tell(
            AttemptSealed(
                attempt=attempt,
                partitions=found,
                manifest=manifest.pack(commits, label.schema),
                digests=known,
                size_bytes=manifest.size_of(commits),
                rows=manifest.rows_of(commits),
            )
        )

    def _reads_changed_sources(self, attempt: AttemptId) -> bool:
        """Looked at after the files that would be adopted were found: whatever their tasks read is older than that."""
        group = self._groups.get(attempt.step)
        planned = group.planned if group is not None else None
        sources = source_files(attempt.step, planned.frame, self._enter) if planned is not None else None
        found = sources.changed() if sources is not None else []
        if found:
            told = f"partitions of {attempt.step} that an earlier driver finished are not adopted: {found[0]}"
            warnings.warn(told, RuntimeWarning, stacklevel=2)
        return bool(found)

    def _digests(self, attempt: AttemptId, commits: Sequence[manifest.Commit], schema: str) -> bytes | None:
        """The digests that the markers tell; where they are wanted and not told, by one read back of the files. A file
        that cannot be read has none: whoever reads it will say that it is lost."""
        group = self._groups.get(attempt.step)
        is_wanted = group is not None and group.is_digested
        if not is_wanted and not any(commit.digest for commit in commits):
            return None
        read = plan_calls.schema_of(self._spark, schema)
        nothing = result_calls.digest_of_nothing(self._spark, read)
        if is_wanted and nothing:
            with contextlib.suppress(CallFailed, PySparkException):
                commits = digests.read_back(self._spark, f"{self._root}/{directory_of(attempt)}", commits, read)
        return manifest.digests(commits, nothing)

    def _delete(self, attempt: AttemptId) -> None:
        file_calls.delete_directory(self._spark, f"{self._root}/{directory_of(attempt)}", LEVELS)
        with self._telling:
            self._blocks.release(attempt)
        self._tell(DeletionDone(attempt))

    def _apart(self, what: str, action: Callable[[], None]) -> threading.Thread:
        def act() -> None:
            try:
                driver_calls.enter_thread(self._spark, self._loader)
                action()
            except Exception as error:
                if not self._is_dead():
                    self._troubles.put(RunFailed(f"could not {what}: {first_line(error)}", TRY_STORAGE))

        thread = threading.Thread(target=act, name=what, daemon=True)
        thread.start()
        return thread

    def _in_time(self, what: str, action: Callable[[], None], otherwise: Callable[[str], None]) -> None:
        """Something that no run may end for: it is tried again, and then left."""

        def act() -> None:
            for seconds in CLEANING_PAUSES_SECONDS:
                try:
                    driver_calls.enter_thread(self._spark, self._loader)
                    action()
                    return
                except Exception as error:
                    why = first_line(error)
                time.sleep(seconds)
            otherwise(why)

        threading.Thread(target=act, name=what, daemon=True).start()

    def _enter(self) -> None:
        driver_calls.enter_thread(self._spark, self._loader)

    def _tag(self, attempt: AttemptId) -> str:
        """Names the Spark jobs of one attempt of one run: another run in the same application has its own."""
        run = self._root.rsplit("/", 1)[-1]
        return f"rekindle-{attempt.step}-g{attempt.generation}-e{attempt.epoch}-a{attempt.number}-{run}"


def refuse_change(group: GroupSpec, frame: DataFrame) -> None:
    """The fingerprint pinned one listing; this plan may have another one. Nothing is listed again here: the listing of
    a source is shared by every group that reads it, and one that is planned reads whatever that listing has by then."""
    if group.source:
        refuse_other_listing(group, frame)
        files = source_files(group.step, frame, lambda: None)
        if files is not None:
            files.refuse_change()


def refuse_other_listing(group: GroupSpec, frame: DataFrame) -> None:
    """Raise `InputChanged` unless the listing that a frame has is the one that the fingerprint pinned."""
    now = pin(frame) if group.source else None
    if now is not None and now.is_pinned and str(now) != group.source:
        known = source_files(group.step, group.planned.frame, lambda: None) if group.planned is not None else None
        gone = known.changed() if known is not None else []
        raise changed_input(group.step, gone or [f"{group.source}, now {now}"])
