"""The faults of `make plan-truth`: what happens to a run before the start that is planned.

Each case is a context: it leads a run to where something broke, gives the start that follows, and, when that start is
over, looks at what only then can be seen. Drivers are held at the gate (`commands.user`), so that nothing here depends
on how fast the machine is; only the moments of `killed_at_random` do, and there any moment will do.

What a plan cannot know is a bit that was flipped in a file that nobody has read yet: it says which files are there and
how long they are. The run finds it, keeps that fact, and the plan after its driver's death has it.
"""

from __future__ import annotations

import contextlib
import errno
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from commands.user import NAME, PARTITIONS, ROWS, User, driver_of, ended, sum_of, wait_until
from rekindle.cli.boundary import ExitCode
from rekindle.journal.lease import LivenessState
from rekindle.master.facts.events import AttemptOpened, PartitionsLost
from rekindle.runtime.opening import look, sign_of
from support.signals import cont, kill, stop

STALE_SECONDS = 10.0
SOME = 3


class Skipped(Exception):
    """The machine does not allow the case; its text says why."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start that is planned: the words that the user types, the sum that must be published, and what the plan must
    tell of changes."""

    total: int = sum_of()
    words: tuple[str, ...] = ()
    told: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    scene: Callable[[User], AbstractContextManager[Start]]
    needs_cluster: bool = False


def _held(user: User, count: int = SOME, *words: str) -> subprocess.Popen[str]:
    """A driver in the middle of `priced`: so many partitions of it are committed, the others wait at the gate."""
    user.opens_gate_for(count)
    process = user.begins("run", *words)
    wait_until(lambda: user.commits("priced") >= count and user.at_gate() > count, f"{count} of priced", process)
    return process


def _kill(user: User, process: subprocess.Popen[str]) -> None:
    """kill -9 of a driver, Python first: it must not live to see its JVM die. Nothing of it writes any more."""
    for one in driver_of(process):
        kill(one)
    ended(process)
    cluster = user.cluster
    if cluster is not None:
        wait_until(lambda: not cluster.executors(), "the end of its executors")
    user.takes_gate_away()


@contextmanager
def first_run(user: User) -> Iterator[Start]:
    yield Start()


@contextmanager
def killed_at_the_begin(user: User) -> Iterator[Start]:
    user.opens_gate_for(0)
    process = user.begins("run")
    wait_until(lambda: _has_begun(user), "an attempt", process)
    _kill(user, process)
    yield Start()


@contextmanager
def killed_in_the_middle(user: User) -> Iterator[Start]:
    _kill(user, _held(user))
    yield Start()


def _has_begun(user: User, epoch: int = 0) -> bool:
    return any(isinstance(event, AttemptOpened) for event in user.events(epoch))


@contextmanager
def killed_at_random(user: User) -> Iterator[Start]:
    """The first driver some time after so many commits as are drawn, the second some time after its first attempt."""
    draw = random.Random(6)
    first = draw.randrange(1, PARTITIONS)
    moments = ((first, draw.randrange(PARTITIONS + first)), (0, 0))
    for epoch, (passing, commits) in enumerate(moments, start=1):
        user.opens_gate_for(passing)
        process = user.begins("run")
        wait_until(lambda: _has_begun(user, epoch) and user.commits() >= commits, "the moment", process)  # noqa: B023
        time.sleep(draw.uniform(0.0, 3.0))
        _kill(user, process)
    yield Start()


@contextmanager
def stopped_and_woken(user: User) -> Iterator[Start]:
    """SIGSTOP of the driver; after the start that is judged it is woken, and nothing that it does counts."""
    zombie = _held(user)
    stopped = driver_of(zombie)
    for one in stopped:
        stop(one)
    try:
        (run,) = user.runs()
        wait_until(
            lambda: sign_of(user.store, look(user.store, NAME, run), STALE_SECONDS).life is LivenessState.STALE,
            "silence",
        )
        user.takes_gate_away()
        yield Start(words=("--set", f"lease.stale_seconds={STALE_SECONDS}"))
    finally:
        for one in reversed(stopped):
            cont(one)
    late = ended(zombie)
    assert late.code == ExitCode.REFUSED and "taken over" in late.err, late
    assert user.total() == sum_of() and user.publications() == (1, 1), "what was published stays"


@contextmanager
def half_the_cores(user: User) -> Iterator[Start]:
    _kill(user, _held(user))
    user.master = "local[1]"
    yield Start()


@contextmanager
def code_changed(user: User) -> Iterator[Start]:
    _kill(user, _held(user))
    user.writes(plus=1)
    yield Start(sum_of(plus=1), told="the code of priced changed")


@contextmanager
def helper_changed(user: User) -> Iterator[Start]:
    _kill(user, _held(user))
    user.writes(factor=3)
    yield Start(sum_of(3), told="scaled, which priced uses, changed")


@contextmanager
def reader_changed(user: User) -> Iterator[Start]:
    _kill(user, _held(user))
    user.writes(mark=2)
    yield Start(told="the code of totals changed")


@contextmanager
def poison_corrected(user: User) -> Iterator[Start]:
    _poisoned(user)
    yield Start(told="price, which priced uses, changed")


@contextmanager
def poison_accepted(user: User) -> Iterator[Start]:
    _poisoned(user)
    yield Start(words=("--accept-change", "priced"))


@contextmanager
def poison_accepted_individual(user: User) -> Iterator[Start]:
    _poisoned(user, "--strategy", "individual")
    yield Start(words=("--accept-change", "priced"))


@contextmanager
def poison_accepted_full(user: User) -> Iterator[Start]:
    _poisoned(user, "--strategy", "full")
    yield Start(words=("--accept-change", "priced"))


def _poisoned(user: User, *words: str) -> None:
    user.writes(poison=77)
    failed = user.types("run", "--set", "backoff.initial_ms=100", *words)
    assert failed.code == ExitCode.RESUMABLE and "cannot be priced" in failed.err, failed
    user.writes()


@contextmanager
def files_deleted(user: User) -> Iterator[Start]:
    _kill(user, _held(user))
    for file in _one_of_each(user).values():
        file.unlink()
    yield Start()


@contextmanager
def files_truncated(user: User) -> Iterator[Start]:
    _kill(user, _held(user))
    for file in _one_of_each(user).values():
        data = file.read_bytes()
        file.write_bytes(data[: len(data) // 2])
    yield Start()


@contextmanager
def bit_flipped(user: User) -> Iterator[Start]:
    """The next driver meets the flip when `totals` reads it, and dies while what was lost is made again."""
    _kill(user, _held(user))
    _flip(_one_of_each(user)["priced"])
    user.opens_gate_for(PARTITIONS - SOME)
    process = user.begins("run")
    wait_until(
        lambda: any(isinstance(one, PartitionsLost) and one.step == "priced" for one in user.events(2)),
        "the flipped bit",
        process,
    )
    _kill(user, process)
    yield Start()


def _one_of_each(user: User) -> dict[str, Path]:
    """One file of each kept step that has any."""
    files = sorted((user.folder / "store").glob(f"{NAME}/*/results/*/*/*/part-*"))
    return {file.parts[-4]: file for file in files}


def _flip(file: Path) -> None:
    """One bit of the rows of the first column, which every reader needs."""
    column = pq.ParquetFile(file).metadata.row_group(0).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    data = bytearray(file.read_bytes())
    data[start + column.total_compressed_size - 1] ^= 1
    file.write_bytes(data)


@contextmanager
def source_replaced(user: User) -> Iterator[Start]:
    _kill(user, _held(user))
    user.adds_orders("second", ROWS, ROWS + 100)
    refused = user.types("plan")
    assert refused.code == ExitCode.REFUSED and "--replace by_customer" in refused.err, refused
    yield Start(sum_of(rows=ROWS + 100), ("--replace", "by_customer"))


@contextmanager
def disk_full(user: User) -> Iterator[Start]:
    """The store is a small file system of its own. It is filled while a step runs, and then it has room again."""
    folder = user.folder / "store"
    folder.mkdir(exist_ok=True)
    _mount(folder)
    try:
        process = _held(user, SOME, "--set", "backoff.initial_ms=100", "--set", "backoff.attempts_max=2")
        _fill(folder / "ballast")
        user.takes_gate_away()
        failed = ended(process)
        assert failed.code == ExitCode.RESUMABLE, failed
        (folder / "ballast").unlink()
        yield Start()
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _mount(folder: Path) -> None:
    words = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    try:
        subprocess.run(words, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise Skipped(f"a small file system cannot be mounted here: {said.strip()}") from error


def _fill(ballast: Path) -> None:
    """Until not one byte more fits."""
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(b"\0" * size):
                    pass
        try:
            file.write(b"\0")
        except OSError as error:
            assert error.errno == errno.ENOSPC, error


@contextmanager
def executor_killed(user: User) -> Iterator[Start]:
    """Spark gives the job up at once; Rekindle goes on in the same driver, which dies later."""
    user.conf["spark.task.maxFailures"] = "1"
    assert user.cluster is not None, "it needs a cluster"
    process = _all_at_gate(user)
    kill(random.Random(7).choice(user.cluster.executors()))
    _goes_on(user, process)
    yield Start()


@contextmanager
def worker_killed(user: User) -> Iterator[Start]:
    """With its executors; the driver goes on with the other worker, and dies later."""
    cluster = user.cluster
    assert cluster is not None, "it needs a cluster"
    process = _all_at_gate(user)
    lost = cluster.executors(1)
    cluster.kill_worker(1)
    wait_until(lambda: not any(one.is_alive() for one in lost), "the end of its executors", process)
    _goes_on(user, process)
    cluster.restart_worker(1)
    yield Start()


def _all_at_gate(user: User) -> subprocess.Popen[str]:
    """Some of `priced` is committed, and every core of the cluster waits with another part of it."""
    assert user.cluster is not None, "it needs a cluster"
    waiting = user.cluster.size.application_cores
    process = _held(user)
    wait_until(lambda: user.at_gate() == SOME + waiting, "all cores at the gate", process)
    return process


def _goes_on(user: User, process: subprocess.Popen[str]) -> None:
    """After the loss the driver commits more, and cannot come to its end before it is killed."""
    user.opens_gate_for(user.at_gate() + 2)
    wait_until(lambda: user.commits("priced") > SOME, "more of priced", process)
    _kill(user, process)


CASES = (
    Case("first-run", first_run),
    Case("killed-at-the-begin", killed_at_the_begin),
    Case("killed-in-the-middle", killed_in_the_middle),
    Case("killed-at-random", killed_at_random),
    Case("stopped-and-woken", stopped_and_woken),
    Case("half-the-cores", half_the_cores),
    Case("code-changed", code_changed),
    Case("helper-changed", helper_changed),
    Case("reader-changed", reader_changed),
    Case("poison-corrected", poison_corrected),
    Case("poison-accepted", poison_accepted),
    Case("poison-individual", poison_accepted_individual),
    Case("poison-full", poison_accepted_full),
    Case("files-deleted", files_deleted),
    Case("files-truncated", files_truncated),
    Case("bit-flipped", bit_flipped),
    Case("source-replaced", source_replaced),
    Case("disk-full", disk_full),
    Case("executor-killed", executor_killed, needs_cluster=True),
    Case("worker-killed", worker_killed, needs_cluster=True),
)
