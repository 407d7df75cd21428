"""`make plan-truth`: the plan that `rekindle plan` prints before a start is what `rekindle run` then does, vertex by
vertex, and in Spark tasks of all Spark stages wherever the plan knows them. What ran is read from the run's journal and
from Spark's event log, never from what the plan said.
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from commands.user import PARTITIONS, ROWS, User, ended, sum_of, wait_until
from rekindle.cli.boundary import ExitCode
from rekindle.master.events import AttemptOpened
from rekindle.model.partitions import EMPTY, Partitions
from stage import tagged
from support.eventlog import read_all

MINUTES_MAX = 20.0
Sets = dict[str, Partitions]


@dataclass(frozen=True, slots=True)
class Case:
    """What happens before the start that is planned: it gives the words of that start, and the sum to be published."""

    name: str
    before: Callable[[User], tuple[tuple[str, ...], int]]


def main() -> int:
    folder, started = Path(tempfile.mkdtemp(prefix="plan-truth-")), time.monotonic()
    chosen = [case for case in CASES if not sys.argv[1:] or case.name in sys.argv[1:]]
    figures = {
        "vertices": 0,
        "reused": 0,
        "differences": 0,
        "tasks": 0,
        "tasks_known": 0,
        "task_differences": 0,
        "failed": 0,
    }
    for case in chosen:
        try:
            found = truth(case, folder / case.name)
            figures = {name: value + found.get(name, 0) for name, value in figures.items()}
            print(f"{case.name:18} {' '.join(f'{name}={value}' for name, value in found.items())}", flush=True)
        except Exception:
            figures["failed"] += 1
            print(f"{case.name:18} FAILED\n{traceback.format_exc()}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    minutes = (time.monotonic() - started) / 60
    shown = " ".join(f"{name}={value}" for name, value in figures.items())
    print(f"RESULT cases={len(chosen)} {shown} minutes={minutes:.1f} minutes_max={MINUTES_MAX}")
    is_true = not (figures["failed"] or figures["differences"] or figures["task_differences"])
    return 0 if is_true and minutes <= MINUTES_MAX else 1


def truth(case: Case, folder: Path) -> dict[str, int]:
    """One case: what was planned against what ran."""
    logs = folder.parent / f"{folder.name}-logs"
    logs.mkdir(parents=True)
    log = {"enabled": "true", "dir": logs.as_uri(), "compress": "false"}
    user = User(folder, {f"spark.eventLog.{key}": value for key, value in log.items()})
    words, total = case.before(user)
    planning = user.types("plan", "--json", *words)
    assert planning.code == ExitCode.WORK, planning
    plan = json.loads(planning.out)
    before = user.epoch()
    done = user.types("run", *words)
    assert done.code == ExitCode.DONE, done
    assert user.epoch() == before + 1, "one driver does it"
    assert user.total() == total, (user.total(), total)
    planned = {one["step"]: Partitions.parse(one["computed"]) for one in plan["stages"] if one["computed"]}
    ran = opened(user, before + 1)
    tasks = tasks_run(logs, user.runs()[-1])
    known = {one["step"]: one["tasks"] for one in plan["stages"] if one["computed"] and one["tasks"] is not None}
    return {
        "vertices": sum(map(len, planned.values())),
        "reused": sum(len(Partitions.parse(one["kept"])) for one in plan["stages"]),
        "differences": different(planned, ran),
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


def _killed(user: User, is_so: Callable[[], bool], what: str) -> None:
    """A first driver, killed as soon as something is so."""
    user.writes(pause=3.0)
    process = user.begins("run")
    wait_until(is_so, what, process)
    process.send_signal(signal.SIGKILL)
    assert ended(process).code == -signal.SIGKILL
    user.writes()


def first_run(user: User) -> tuple[tuple[str, ...], int]:
    return (), sum_of()


def killed_at_the_begin(user: User) -> tuple[tuple[str, ...], int]:
    _killed(user, lambda: any(isinstance(event, AttemptOpened) for event in user.events()), "an attempt")
    return ("--accept-change", "priced"), sum_of()


def killed_in_the_middle(user: User) -> tuple[tuple[str, ...], int]:
    _killed(user, lambda: 0 < user.commits("priced") < PARTITIONS, "some of priced")
    user.writes(pause=3.0)
    return (), sum_of()


def killed_and_code_changed(user: User) -> tuple[tuple[str, ...], int]:
    _killed(user, lambda: user.commits("priced") > 0, "some of priced")
    user.writes(factor=3)
    return (), sum_of(3)


def killed_and_reader_changed(user: User) -> tuple[tuple[str, ...], int]:
    _killed(user, lambda: user.commits("priced") > 0, "some of priced")
    user.writes(pause=3.0, mark=2)
    return (), sum_of()


def poison_then_corrected(user: User) -> tuple[tuple[str, ...], int]:
    user.writes(poison=77)
    failed = user.types("run")
    assert failed.code == ExitCode.RESUMABLE and "cannot be priced" in failed.err, failed
    user.writes()
    return (), sum_of()


def poison_then_accepted(user: User) -> tuple[tuple[str, ...], int]:
    user.writes(poison=77)
    assert user.types("run").code == ExitCode.RESUMABLE
    user.writes()
    return ("--accept-change", "priced"), sum_of()


def files_lost(user: User) -> tuple[tuple[str, ...], int]:
    _killed(user, lambda: user.commits("priced") > 0, "some of priced")
    user.writes(pause=3.0)
    files = sorted((user.folder / "store").glob("shop/*/results/*/*/*/part-*"))
    kept = {file.parts[-4]: file for file in files}
    for file in kept.values():
        file.unlink()
    return (), sum_of()


def source_replaced(user: User) -> tuple[tuple[str, ...], int]:
    _killed(user, lambda: user.commits("priced") > 0, "some of priced")
    user.writes(pause=3.0)
    user.adds_orders("second", ROWS, ROWS + 100)
    refused = user.types("plan")
    assert refused.code == ExitCode.REFUSED and "--replace by_customer" in refused.err, refused
    return ("--replace", "by_customer"), sum_of(rows=ROWS + 100)


CASES = tuple(
    Case(before.__name__.replace("_", "-"), before)
    for before in (
        first_run,
        killed_at_the_begin,
        killed_in_the_middle,
        killed_and_code_changed,
        killed_and_reader_changed,
        poison_then_corrected,
        poison_then_accepted,
        files_lost,
        source_replaced,
    )
)

if __name__ == "__main__":
    sys.exit(main())
