"""`make plan-truth`: the plan that `rekindle plan` prints before a start is what `rekindle run` then does, vertex by
vertex, and in Spark tasks of all Spark stages wherever the plan knows them. What ran is read from the run's journal and
from Spark's event log, never from what the plan said.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from commands.faults import CASES, Case, Skipped, Start
from commands.user import User
from rekindle.cli.boundary import ExitCode
from rekindle.local_cluster.cluster import LocalCluster, event_log_settings
from rekindle.master.facts.events import AttemptOpened
from rekindle.model.partitions import EMPTY, Partitions
from stage import tagged
from support.eventlog import read_all

MINUTES_MAX = 20.0
COUNTED = ("vertices", "reused", "differences", "tasks", "tasks_known", "task_differences")
WRONG = ("failed", "differences", "task_differences")
Sets = dict[str, Partitions]


def main() -> int:
    parser = argparse.ArgumentParser(prog="plan-truth")
    parser.add_argument("--only", action="append", choices=[case.name for case in CASES])
    asked = parser.parse_args().only
    chosen = [case for case in CASES if not asked or case.name in asked]
    folder, started = Path(tempfile.mkdtemp(prefix="plan-truth-")), time.monotonic()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # What was started is ended here, too.
    figures = dict.fromkeys(("skipped", "failed", *COUNTED), 0)
    try:
        with _cluster(any(case.needs_cluster for case in chosen)) as cluster:
            for case in chosen:
                for name, value in _judged(case, folder / case.name, cluster).items():
                    figures[name] += value
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    minutes = (time.monotonic() - started) / 60
    shown = " ".join(f"{name}={value}" for name, value in figures.items())
    print(f"RESULT cases={len(chosen)} {shown} minutes={minutes:.1f} minutes_max={MINUTES_MAX}")
    return 0 if not any(figures[name] for name in WRONG) and minutes <= MINUTES_MAX else 1


@contextlib.contextmanager
def _cluster(is_needed: bool) -> Iterator[LocalCluster | None]:
    with LocalCluster() if is_needed else contextlib.nullcontext() as cluster:
        yield cluster


def _judged(case: Case, folder: Path, cluster: LocalCluster | None) -> dict[str, int]:
    """The figures of one case, which are printed; one that failed or was skipped has no others."""
    started = time.monotonic()
    try:
        figures = truth(case, folder, cluster)
        line = " ".join(f"{name}={value}" for name, value in figures.items())
    except Skipped as reason:
        figures, line = {"skipped": 1}, f"skipped: {reason}"
    except Exception:
        figures, line = {"failed": 1}, f"FAILED\n{traceback.format_exc()}"
    print(f"{case.name:22} {time.monotonic() - started:5.0f} s  {line}", flush=True)
    return figures


def truth(case: Case, folder: Path, cluster: LocalCluster | None = None) -> dict[str, int]:
    """One case: what was planned against what ran."""
    logs = folder.parent / f"{folder.name}-logs"
    user = User(folder, event_log_settings(logs), cluster if case.needs_cluster else None)
    try:
        with case.scene(user) as start:
            return _compared(user, start, logs)
    finally:
        user.leaves()


def _compared(user: User, start: Start, logs: Path) -> dict[str, int]:
    planning = user.types("plan", "--json", *start.words)
    assert planning.code == ExitCode.WORK, planning
    plan = json.loads(planning.out)
    told = [sentence for one in plan["stages"] for sentence in one["changes"]]
    assert not start.told or start.told in told, told
    before = user.epoch()
    done = user.types("run", *start.words)
    assert done.code == ExitCode.DONE, done
    assert user.epoch() == before + 1, "one driver does it"
    assert user.total() == start.total, (user.total(), start.total)
    planned = {one["step"]: Partitions.parse(one["computed"]) for one in plan["stages"] if one["computed"]}
    tasks = tasks_run(logs, user.runs()[-1])
    known = {one["step"]: one["tasks"] for one in plan["stages"] if one["computed"] and one["tasks"] is not None}
    return {
        "vertices": sum(map(len, planned.values())),
        "reused": sum(len(Partitions.parse(one["kept"])) for one in plan["stages"]),
        "differences": different(planned, opened(user, before + 1)),
        "tasks": sum(tasks.values()),
        "tasks_known": sum(known.values()),
        "task_differences": sum(abs(tasks.get(step, 0) - count) for step, count in known.items()),
    }


def opened(user: User, epoch: int) -> Sets:
    """The vertices that one driver opened attempts for."""
    found: Sets = {}
    for event in user.events(epoch):
        if isinstance(event, AttemptOpened):
            found[event.attempt.step] = found.get(event.attempt.step, EMPTY) | event.partitions
    return found


def tasks_run(logs: Path, run: str) -> dict[str, int]:
    """How many Spark tasks of all Spark stages the newest application ran well for each step."""
    found: dict[str, int] = {}
    for tag, tasks in tagged(read_all(logs)[-1], "rekindle-", run).items():
        step = tag.split("-")[1]
        found[step] = found.get(step, 0) + len({task.id for task in tasks if task.is_success})
    return found


def different(planned: Sets, ran: Sets) -> int:
    """The vertices that are in one of the two only."""
    steps = planned.keys() | ran.keys()
    pairs = [(planned.get(step, EMPTY), ran.get(step, EMPTY)) for step in steps]
    return sum(len((one | other) - (one & other)) for one, other in pairs)


if __name__ == "__main__":
    sys.exit(main())
