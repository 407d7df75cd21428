"""Spark's own event log as typed values: the jobs, stages and tasks that really ran.

It reads the log of a living, ended or killed driver. The last line may be torn (the driver died in it) and is
then left out; a broken line anywhere else is an error. What a killed driver had not yet flushed is missing: see
`support.drivers.flush_events_often`.
A task that was launched and has no end in the log is RUNNING.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

Event = dict[str, Any]


class Kind(Enum):
    MAP = "ShuffleMapTask"
    RESULT = "ResultTask"


class Status(Enum):
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class SparkJob:
    id: int
    stage_ids: tuple[int, ...]
    submitted_ms: int
    description: str
    tags: frozenset[str]
    ended_ms: int | None = None
    result: str | None = None

    @property
    def has_succeeded(self) -> bool:
        return self.result == "JobSucceeded"


@dataclass(frozen=True, slots=True)
class SparkStage:
    """One attempt of a stage. The kind is known once one of its tasks ended."""

    id: int
    attempt: int
    name: str
    task_count: int
    parent_ids: tuple[int, ...]
    rdd_ids: tuple[int, ...]
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class SparkTask:
    """One attempt of a task. `partition` is that of the stage's RDD; `index` counts in the stage attempt."""

    id: int
    stage: int
    stage_attempt: int
    index: int
    partition: int
    attempt: int
    executor: str
    host: str
    launched_ms: int
    finished_ms: int | None = None
    status: Status = Status.RUNNING
    reason: str = ""
    kind: Kind | None = None
    cpu_ns: int = 0
    bytes_written: int = 0
    records_read: int = 0

    @property
    def is_success(self) -> bool:
        return self.status is Status.SUCCESS


@dataclass(frozen=True, slots=True)
class EventLog:
    """What one application did."""

    application: str
    started_ms: int
    jobs: tuple[SparkJob, ...]
    stages: tuple[SparkStage, ...]
    tasks: tuple[SparkTask, ...]

    def by_stage(self) -> dict[tuple[int, int], list[SparkTask]]:
        """The tasks that were launched, per stage and stage attempt."""
        found: dict[tuple[int, int], list[SparkTask]] = defaultdict(list)
        for task in self.tasks:
            found[task.stage, task.stage_attempt].append(task)
        return dict(found)

    def launched(self, kind: Kind | None = None, stages: Iterable[int] | None = None) -> list[SparkTask]:
        """Tasks launched, of one kind or all, of some stages or all. The kind is the stage's, so that a task
        that never ended is counted too."""
        wanted = None if stages is None else set(stages)
        kinds = {(stage.id, stage.attempt): stage.kind for stage in self.stages}
        return [
            task
            for task in self.tasks
            if (kind is None or kinds.get((task.stage, task.stage_attempt)) is kind)
            and (wanted is None or task.stage in wanted)
        ]

    def succeeded(
        self, kind: Kind | None = None, *, before_ms: int | None = None, stages: Iterable[int] | None = None
    ) -> list[SparkTask]:
        """Tasks that ended well, at or before a time if one is given."""
        return [
            task
            for task in self.launched(kind, stages)
            if task.is_success
            and (before_ms is None or (task.finished_ms is not None and task.finished_ms <= before_ms))
        ]

    def unfinished(self) -> list[SparkTask]:
        """Launched, and the log tells no end."""
        return [task for task in self.tasks if task.status is Status.RUNNING]

    def jobs_with(self, tag: str) -> list[SparkJob]:
        return [job for job in self.jobs if tag in job.tags]

    def of_step(self, step: str, run: str) -> tuple[list[SparkTask], list[SparkTask]]:
        """The tasks of a step of a run that ended well: those of the stages that wrote it, and all others, which map,
        broadcast or answer a subquery."""
        jobs = (
            job for job in self.jobs if any(t.startswith(f"rekindle-{step}-g") and t.endswith(run) for t in job.tags)
        )
        tasks = self.succeeded(stages=self.stage_ids(jobs))
        writing = {task.stage for task in tasks if task.bytes_written}
        return [task for task in tasks if task.stage in writing], [task for task in tasks if task.stage not in writing]

    def stage_ids(self, jobs: Iterable[SparkJob]) -> set[int]:
        """The stages of these jobs that really ran: a job also names those it skipped."""
        named = {stage for job in jobs for stage in job.stage_ids}
        return named & {stage.id for stage in self.stages}


def read(path: Path) -> EventLog:
    """The log at a path: a file (also `.inprogress`), or a folder of Spark's rolling layout."""
    fold = _Fold()
    for file in _parts(path):
        for event in _events(file):
            fold.take(event)
    return fold.done()


def read_all(folder: Path) -> list[EventLog]:
    """All applications whose logs are in a folder, oldest first."""
    paths = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return sorted(map(read, paths), key=lambda log: (log.started_ms, log.application))


def read_application(folder: Path, application: str) -> EventLog:
    found = [path for path in folder.iterdir() if application in path.name and not path.name.startswith(".")]
    if len(found) != 1:
        raise FileNotFoundError(f"{len(found)} event logs of {application} in {folder}")
    return read(found[0])


def _parts(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(path.glob("events_*"), key=lambda part: int(part.name.split("_")[1]))


def _events(path: Path) -> Iterator[Event]:
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            yield json.loads(line)
        except ValueError:
            if number == len(lines) and not line.endswith(b"\n"):
                return
            raise ValueError(f"{path}:{number} is not an event") from None


@dataclass(slots=True)
class _Fold:
    application: str = ""
    started_ms: int = 0
    jobs: dict[int, SparkJob] = field(default_factory=dict)
    stages: dict[tuple[int, int], SparkStage] = field(default_factory=dict)
    tasks: dict[int, SparkTask] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        match event["Event"]:
            case "SparkListenerApplicationStart":
                self.application, self.started_ms = event.get("App ID") or "", event["Timestamp"]
            case "SparkListenerJobStart":
                self.jobs[event["Job ID"]] = _job(event)
            case "SparkListenerJobEnd" if job := self.jobs.get(event["Job ID"]):
                result = event["Job Result"]["Result"]
                self.jobs[job.id] = replace(job, ended_ms=event["Completion Time"], result=result)
            case "SparkListenerStageSubmitted":
                stage = _stage(event["Stage Info"])
                self.stages[stage.id, stage.attempt] = stage
            case "SparkListenerTaskStart":
                task = _task(event)
                self.tasks[task.id] = task
            case "SparkListenerTaskEnd":
                self._end(event)
            case _:
                pass

    def _end(self, event: Event) -> None:
        # A finished map task whose output was lost is ended a second time as resubmitted; what runs then is a
        # new task with a start of its own.
        if event["Task End Reason"]["Reason"] == "Resubmitted":
            return
        task = _ended(_task(event), event)
        self.tasks[task.id] = task
        key = (task.stage, task.stage_attempt)
        if stage := self.stages.get(key):
            self.stages[key] = replace(stage, kind=task.kind)

    def done(self) -> EventLog:
        return EventLog(
            application=self.application,
            started_ms=self.started_ms,
            jobs=tuple(self.jobs[key] for key in sorted(self.jobs)),
            stages=tuple(self.stages[key] for key in sorted(self.stages)),
            tasks=tuple(self.tasks[key] for key in sorted(self.tasks)),
        )


def _job(event: Event) -> SparkJob:
    properties = event.get("Properties") or {}
    tags = properties.get("spark.job.tags") or ""
    return SparkJob(
        id=event["Job ID"],
        stage_ids=tuple(event["Stage IDs"]),
        submitted_ms=event["Submission Time"],
        description=properties.get("spark.job.description") or "",
        tags=frozenset(tag for tag in tags.split(",") if tag),
    )


def _stage(info: Event) -> SparkStage:
    return SparkStage(
        id=info["Stage ID"],
        attempt=info["Stage Attempt ID"],
        name=info["Stage Name"],
        task_count=info["Number of Tasks"],
        parent_ids=tuple(info["Parent IDs"]),
        rdd_ids=tuple(rdd["RDD ID"] for rdd in info["RDD Info"]),
    )


def _task(event: Event) -> SparkTask:
    info = event["Task Info"]
    return SparkTask(
        id=info["Task ID"],
        stage=event["Stage ID"],
        stage_attempt=event["Stage Attempt ID"],
        index=info["Index"],
        partition=info["Partition ID"],
        attempt=info["Attempt"],
        executor=info["Executor ID"],
        host=info["Host"],
        launched_ms=info["Launch Time"],
    )


def _ended(task: SparkTask, event: Event) -> SparkTask:
    info, end, metrics = event["Task Info"], event["Task End Reason"], event.get("Task Metrics") or {}
    unsuccessful = Status.KILLED if info["Killed"] else Status.FAILED
    details = [end.get(key) for key in ("Class Name", "Description", "Loss Reason", "Kill Reason", "Message")]
    return replace(
        task,
        finished_ms=info["Finish Time"],
        status=Status.SUCCESS if end["Reason"] == "Success" else unsuccessful,
        reason=": ".join([end["Reason"], *(detail for detail in details if detail)]),
        kind=Kind(event["Task Type"]),
        cpu_ns=metrics.get("Executor CPU Time", 0),
        bytes_written=(metrics.get("Output Metrics") or {}).get("Bytes Written", 0),
        records_read=(metrics.get("Input Metrics") or {}).get("Records Read", 0),
    )
