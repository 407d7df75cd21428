"""One attempt on Spark: a thread that runs one write job, and what may be reported of it, when.

Rules
- A commit is reported only after a look at the exchanges that was made *after* it was drained: whatever the task
  read had been registered by then.
- A commit of a plan that reads sources is reported only after a look at these that began after it was drained, too.
- A cancel holds also before there is a Spark job.
- The end is reported when the stage is quiet or the wait is over. What finished without being reported is found by
  one listing. What appears later counts for nothing.
- Where a law of the rows (java/Laws) is violated nothing of the plan counts, neither what was found nor what was
  reported: a partition that looks right may lack the rows that another one has too many.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rekindle.engine.spark.failures import cause_in_run, cause_of_ours, signature, text_of, while_reading
from rekindle.engine.spark.jvm import driver_calls, file_calls, result_calls
from rekindle.engine.spark.jvm.access import CallFailed
from rekindle.engine.spark.plan import kept_frames, plans
from rekindle.engine.spark.plan.layout import PlannedQuery
from rekindle.engine.spark.plan.looking import SourceCheck, SourceFiles
from rekindle.engine.spark.run import results, tasks
from rekindle.engine.spark.run.blocks import InputBlocksLost, Storing
from rekindle.engine.spark.run.exchanges import ExchangeMonitor
from rekindle.engine.spark.run.losses import lost_in
from rekindle.errors import InputChanged
from rekindle.master.facts.stimuli import AttemptEnded, CommitsSeen, Stimulus
from rekindle.master.state.commands import StartAttempt
from rekindle.model.failures import Failure, FailureKind
from rekindle.model.ids import AttemptId
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.parts import NOTHING, Parts
from rekindle.results import manifest

REPORT_SECONDS_MIN, REPORT_SECONDS_MAX = 0.5, 2.0
REPORT_SHARE = 0.05
QUIET_SECONDS_MAX = 10.0


class LawViolated(Exception):
    """What Spark wrote is not what was committed. In a Spark task the JVM's exception of that name says it."""


class HeldPlan:
    """The held query execution of one generation in this application, with its exchanges and their version.

    It was planned over files by name. An attempt that must read others, because one was lost and made again, or was
    not there yet, gets a new one; what its exchanges then hold is compared with what was read before."""

    def __init__(
        self,
        held: PlannedQuery,
        command: StartAttempt,
        *,
        is_eager: bool = False,
        has_equal_exchanges: bool = False,
        sources: SourceFiles | None = None,
    ) -> None:
        self.held = held
        self.sources = sources
        self._is_eager = is_eager
        self._has_equal_exchanges = has_equal_exchanges
        self._files: dict[tuple[str, AttemptId], Partitions] = {}
        for one in command.inputs:
            for segment in one.segments:
                key = one.step, segment.attempt
                self._files[key] = self._files.get(key, EMPTY) | segment.partitions
        self.version = command.exchange_version
        self.has_run = False
        # Others count in this generation: they were written over exchanges that died with another application.
        self._has_others = not command.is_first
        self._expected = command.exchange_checksum
        self._watch: ExchangeMonitor | None = None
        self._is_spoiled = False
        # A broadcast or a subquery that failed stays failed in its plan: the next attempt needs another one.
        self.is_stuck = self.has_committed = False
        self.counted = EMPTY

    def reads(self, command: StartAttempt) -> bool:
        """Is everything that the command names among the files this was planned over?"""
        return all(
            segment.partitions <= self._files.get((one.step, segment.attempt), EMPTY)
            for one in command.inputs
            for segment in one.segments
        )

    def look(self) -> None:
        """Raise the version if a map output came back different, or is not known to be equal: before Spark 4.1 none is
        that was made again. Once that happened no two looks give the same version: what was computed in between is one
        of a kind. Where exchanges are proved to be equal nothing is looked at, and nothing is waited for."""
        if self.held.is_function_of_inputs and not self._is_eager:
            return
        if self._has_equal_exchanges:
            return
        if self._watch is None:
            self._watch = ExchangeMonitor(self.held.session, plans.exchanges(self.held.rdd()))
            checksum = self.checksum()
            self._is_spoiled = self._has_others and (checksum is None or checksum != self._expected)
            self.version += self._is_spoiled
        if not self._watch.is_as_before():
            self._is_spoiled = True
            self.version += 1

    def let_go(self) -> None:
        """Spark removes the files of the exchanges now, on every executor, instead of when a garbage collector finds
        that nobody refers to them. Whoever needs them again makes a new plan."""
        session, rdd = self.held.session, self.rdd() if self._watch is not None else None
        known = plans.own_exchanges(rdd) if rdd is not None else []
        result_calls.release_exchanges(session, self.held.plan, result_calls.packed(known))

    def rdd(self) -> Any | None:
        """The rows by partition, if the plan got that far."""
        with contextlib.suppress(CallFailed, PySparkException):
            return self.held.rdd()
        return None

    def final_tasks(self, wanted: Partitions) -> list[tuple[int, int]]:
        """The Spark tasks of the final stage, in their order: Spark's partition of each before any were left out, and
        the partition that it works on."""
        rdd = self.rdd()
        return [] if rdd is None else results.tasks_of(self.held, rdd, wanted)

    def read_by(self, task: tasks.FailedTask, final: Sequence[tuple[int, int]]) -> list[str]:
        """The files that a task of a scan reads; empty where it reads an exchange, or several scans. `final` are the
        tasks of the final stage."""
        rdd, index = self.rdd(), task.index
        if task.is_final:
            index = final[index][0] if task.of == len(final) else index
        elif rdd is not None:
            found = plans.map_sides(rdd)
            rdd = found[0] if len(found) == 1 else None
        lines = kept_frames.files_of(self.held.session, rdd) if rdd is not None else []
        return kept_frames.paths_in(lines[index]) if index < len(lines) else []

    def checksum(self) -> str | None:
        """What the exchanges held, if they are all there is: a broadcast, a subquery or a constant has no checksum, nor
        has what an eager step found out."""
        shape, verdict = self.held.shape, self.held.verdict
        if (
            self._watch is None
            or self._is_spoiled
            or self._is_eager
            or shape.broadcasts
            or shape.subqueries
            or verdict.has_query_constants
        ):
            return None
        return self._watch.digest()


class Attempt:
    """A running attempt. `reports` is called from the loop, the end comes from the attempt's own thread."""

    def __init__(
        self,
        command: StartAttempt,
        root: str,
        directory: str,
        tag: str,
        generation: Callable[[], HeldPlan],
        report: Callable[[Stimulus], None],
        *,
        is_digested: bool = False,
        storing: Storing | None = None,
    ) -> None:
        self._command = command
        self._is_digested = is_digested
        self._storing = storing
        self._nothing = ""  # The digest of no rows; empty where partitions get none.
        self._root = root
        self._directory = f"{root}/{directory}"
        self._tag = tag
        self._make = generation
        self._report = report
        self._generation: HeldPlan | None = None
        self._schema = ""
        # Resolved once: by its name each poll would be five calls.
        self._drained: Callable[[str], str] = lambda directory: ""
        self._lock = threading.Lock()
        self._seen: set[int] = set()
        self._rows = 0
        self._strange: set[int] = set()
        self._unreported: list[manifest.Commit] = []
        self._reported_at = time.monotonic()
        self._sources = SourceCheck(None)
        self._is_ending = False
        self.is_cancelled = False
        self._thread = threading.Thread(target=self._run, name=tag, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def cancel(self, spark: SparkSession) -> None:
        """Spark forgets a cancel that comes before there is a job: it is remembered here, and said again."""
        self.is_cancelled = True
        spark.sparkContext.cancelJobsWithTag(self._tag)

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def drain(self) -> None:
        """Report what has committed since the last report, if it is worth a record."""
        with self._lock:
            if self._generation is None or self._is_ending or self.is_over():
                return
            self._take()
            age = time.monotonic() - self._reported_at
            is_share = len(self._unreported) >= REPORT_SHARE * len(self._command.partitions)
            # The first report tells what the exchanges held; without it nothing of this attempt can be adopted.
            is_first = len(self._unreported) == len(self._seen)
            if is_first or age >= (REPORT_SECONDS_MIN if is_share else REPORT_SECONDS_MAX):
                try:
                    self._flush(self._sources.let_through(len(self._unreported)))
                except InputChanged:  # The end looks again, and says so.
                    self._generation.held.session.sparkContext.cancelJobsWithTag(self._tag)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            generation = self._make()
            session = generation.held.session
            self._sources = SourceCheck(generation.sources)
            self._sources.look_now()
            session.sparkContext.addJobTag(self._tag)
            with self._lock:
                self._schema = str(generation.held.schema.json())
                self._nothing = (
                    result_calls.digest_of_nothing(session, generation.held.schema) if self._is_digested else ""
                )
                self._drained = result_calls.commits_taker(session)
                self._generation = generation
            if self._storing is None:
                self._label(generation.held)
            if self.is_cancelled:
                self._report(AttemptEnded(attempt=self._command.attempt, was_cancelled=True))
                return
            is_first, generation.has_run = not generation.has_run, True
            rows = results.write(
                generation.held,
                self._directory,
                self._command.partitions,
                self._tag,
                is_first=is_first,
                is_digested=bool(self._nothing),
                storing=self._storing,
                step=self._command.attempt.step,
            )
            self._compare(rows)
        except InputBlocksLost as caught:
            attempt, has_lost_plan = self._command.attempt, caught.has_lost_plan
            self._report(
                AttemptEnded(
                    attempt=attempt, failures=(), was_cancelled=True, lost=caught.lost, has_lost_plan=has_lost_plan
                )
            )
            return
        except BaseException as caught:
            error = caught
        try:
            self._end(error)
        except BaseException as caught:
            self._report(AttemptEnded(attempt=self._command.attempt, failures=(self._failure_of(caught),)))

    def _label(self, held: PlannedQuery) -> None:
        label = manifest.Label(str(self._command.partitions), self._schema)
        file_calls.put_file(held.session, f"{self._directory}/{manifest.LABEL}", msgspec.json.encode(label))

    def _end(self, error: BaseException | None) -> None:
        with self._lock:
            self._is_ending = True
            if self._generation is None:
                assert error is not None
                self._report(AttemptEnded(attempt=self._command.attempt, failures=(self._failure_of(error),)))
                return
            session = self._generation.held.session
            if error is not None:
                tasks.wait_until_quiet(session.sparkContext, self._tag, QUIET_SECONDS_MAX)
                self._generation.is_stuck = not self._generation.has_committed and self._generation.held.is_stuck()
            self._take()
            if error is not None:
                listing = file_calls.list_files(session, self._directory)
                self._add(manifest.from_listing(listing))
            else:
                self._add_empty()
                driver_calls.take_failed_tasks(session, self._tag)
            result_calls.forget_commits(session, self._directory)
        changed = self._changed_input()
        with self._lock:
            failures, lost = self._failures(error) if error is not None else ((), NOTHING)
            is_violated = any(failure.cause.kind is FailureKind.INVARIANT for failure in failures)
            if changed is None and not is_violated:
                self._flush(len(self._unreported))
            disproved = self._generation.counted if is_violated else EMPTY
        if changed is not None and not self.is_cancelled and not is_violated:
            failures, lost = (self._failure_of(changed),), NOTHING
        was_cancelled = not is_violated and any(one.cause.kind is FailureKind.CANCELLED for one in failures)
        told = () if was_cancelled else failures
        ended = AttemptEnded(
            attempt=self._command.attempt,
            failures=told,
            was_cancelled=was_cancelled,
            lost=lost,
            has_lost_plan=bool(lost),
            disproved=disproved,
        )
        self._report(ended)

    def _compare(self, rows: int) -> None:
        """What Spark says it wrote with what was committed to us. A number that was not asked for is never left out."""
        with self._lock:
            self._take()
            if "tasks" in results.LAWS and self._strange:
                raise LawViolated(f"Spark wrote partitions {Partitions(self._strange)}, which were not requested")
            if "rows" in results.LAWS and rows != self._rows:
                raise LawViolated(f"Spark reports {rows} written rows, but its tasks committed {self._rows}")

    def _changed_input(self) -> InputChanged | None:
        """Everything that finished is known: the last look. Not under the lock, for which the loop would wait."""
        try:
            self._sources.look_now()
        except InputChanged as changed:
            return changed
        return None

    def _add_empty(self) -> None:
        """The Spark job succeeded: a partition without a task has no rows. Where each has one, all must be here."""
        assert self._generation is not None
        layout = self._generation.held.layout
        missing = self._command.partitions - Partitions(self._seen) - self._without_room()
        if missing and not (layout.is_bound or layout.numbers_files):
            uncommitted = missing & Partitions(number for _, number in self._generation.final_tasks(missing))
            if uncommitted:
                raise RuntimeError(f"Spark succeeded without a commit of {uncommitted}")
        self._add([manifest.Commit(partition=number, task=0, name="", bytes=-1) for number in missing])

    def _without_room(self) -> Partitions:
        """What was computed and could not be stored: it is simply not there, and the master asks for it again."""
        assert self._generation is not None
        if self._storing is None:
            return EMPTY
        return Partitions(result_calls.blocks_without_room(self._generation.held.session, self._directory))

    def _take(self) -> None:
        self._add(manifest.from_driver(self._drained(self._directory)))

    def _add(self, commits: list[manifest.Commit]) -> None:
        for commit in commits:
            if commit.partition not in self._command.partitions:
                self._strange.add(commit.partition)
            elif commit.partition not in self._seen:
                self._seen.add(commit.partition)
                self._unreported.append(commit)
                self._rows += max(0, commit.rows)

    def _flush(self, count: int) -> None:
        """Report the first so many."""
        told, left = self._unreported[:count], self._unreported[count:]
        if not self._unreported or told:
            self._reported_at = time.monotonic()
        if not told:
            return
        assert self._generation is not None
        self._generation.has_committed = True
        self._generation.look()
        found = Partitions(commit.partition for commit in told)
        self._generation.counted = self._generation.counted | found
        self._report(
            CommitsSeen(
                attempt=self._command.attempt,
                partitions=found,
                manifest=manifest.pack(told, self._schema),
                digests=manifest.digests(told, self._nothing),
                exchange_version=self._generation.version,
                exchange_checksum=self._generation.checksum(),
                # Blocks take nothing of the storage that a budget is about.
                size_bytes=manifest.size_of(told) if self._storing is None else 0,
                rows=manifest.rows_of(told),
            )
        )
        self._unreported = left

    def _failures(self, error: BaseException) -> tuple[tuple[Failure, ...], Parts]:
        """One failure per signature, with the partitions that met it: none if it was a map task, or none is known. And
        the committed files that turned out to be gone."""
        assert self._generation is not None
        session, text = self._generation.held.session, text_of(error)
        final = self._generation.final_tasks(self._command.partitions)
        missing = self._command.partitions - Partitions(self._seen)
        failed = tasks.failed_tasks(session, self._tag)
        found: dict[str, Failure] = {}
        for task in failed:
            is_named = task.is_final and task.of == len(final)
            blamed = Partitions((final[task.index][1],)) & missing if is_named else EMPTY
            if is_named and not blamed:
                continue
            failure = self._failure(blamed, task.error or text)
            known = found.get(failure.signature) or self._reading(failure, self._generation.read_by(task, final))
            found[failure.signature] = msgspec.structs.replace(known, partitions=known.partitions | blamed)
        lost = lost_in(session, self._root, (text, *(task.error for task in failed)))
        return tuple(found.values()) or (self._failure_of(error),), lost

    def _failure_of(self, error: BaseException) -> Failure:
        cause = cause_of_ours(error) or cause_in_run(text_of(error), self._root)
        return Failure(self._command.attempt.step, EMPTY, cause, signature(cause))

    def _failure(self, partitions: Partitions, error: str) -> Failure:
        cause = cause_in_run(error, self._root)
        return Failure(self._command.attempt.step, partitions, cause, signature(cause))

    def _reading(self, failure: Failure, files: Sequence[str]) -> Failure:
        """The same with the files that were read; its signature is that of the error alone."""
        return msgspec.structs.replace(failure, cause=while_reading(failure.cause, files, self._root))
