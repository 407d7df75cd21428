"""`run --supervise`: a small parent without Spark that restarts a driver when it dies, under the restart backoff.

- The child is the same command, marked as one. What it ends with by itself is the answer: done, refused, failed.
- A child that was killed, whose Spark died under it, or that ended in a way that no command does, died: it is started
  again when the backoff says so, and takes its run over by the journal alone. The backoff bounds the restarts.
- What `--new` starts gets its name here: a restarted child goes on with it. `--force` is a word about the master of
  before, `--new-checkpoint` one about a checkpoint that is replaced once: no child says them after one that had its
  start in the journal. A child tells that through a pipe, before anything of its start is executed.
- Ending the parent ends the child first.
- The child imports Rekindle from where the parent did: the current folder is not on its path (`-P`), and what the
  parent was told about the environment (`-I`, `-E`, `-s`) holds for it too.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from rekindle.cli.boundary import ExitCode
from rekindle.cli.next_command import same
from rekindle.cli.text import say
from rekindle.config import Config, is_submitted
from rekindle.errors import Refused, RunFailed
from rekindle.failover.backoff import Backoff, BackoffState, GiveUp, on_failure
from rekindle.model.failures import Cause, FailureKind
from rekindle.observe.words import time_text
from rekindle.remedies import ONCE, StartRemedy, TextRemedy
from rekindle.service.limits import master_config
from rekindle.service.running import fresh_name

FLAG = "--supervise"
CHILD_FLAG = "--supervised"
NAME_OPTION = "--as"
# The same command goes on with the run, without what was said about its first start alone.
GO_ON = StartRemedy(leaves=ONCE)
ONCE_WITH_VALUE = ("--replace", "--new-checkpoint", "--from")
# What a child says whose Spark died under it: it could not go on, another can.
DIED_CODE = 75
CHILD = "from rekindle.cli.main import main; main()"
ENDINGS = frozenset(int(code) for code in ExitCode)
DIED = Cause(FailureKind.APPLICATION_DIED)
END_SECONDS_MAX = 30.0

NOBODY = -1
# Runs a driver to its end; its exit code, negative where a signal ended it.
Drive = Callable[[], int]


def supervise(arguments: Sequence[str], config: Config) -> int:
    """Run the command `arguments`, which hold the flag, until it ends by itself."""
    if is_submitted():
        raise Refused(
            "--supervise cannot restart a driver that spark-submit started",
            (
                TextRemedy(f"start it without spark-submit: {same(master='local[4]')}"),
                TextRemedy("or let the cluster restart the driver"),
            ),
        )
    first, again = words_of(arguments)
    has_begun = False

    def drive() -> int:
        nonlocal has_begun
        code, is_told = _drive(again if has_begun else first)
        has_begun |= is_told
        return code

    return keep_going(drive, master_config(config).backoff.policy())


def words_of(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What a child is told until one has begun, and what every later one is."""
    named = [NAME_OPTION, fresh_name()] if "--new" in arguments else []
    first = [part for word in arguments for part in ([CHILD_FLAG, *named] if word == FLAG else [word])]
    return first, list(_without_once(first))


def _without_once(words: Sequence[str]) -> Iterator[str]:
    """Without what was said about one start alone, and the values of it."""
    is_value = False
    for word in words:
        is_once = word.partition("=")[0] in ONCE_WITH_VALUE
        if word != "--force" and not is_once and not is_value:
            yield word
        is_value = is_once and "=" not in word


def keep_going(
    drive: Drive,
    backoff: Backoff,
    *,
    now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    pause: Callable[[float], None] = time.sleep,
    jitter: Callable[[], float] = lambda: random.uniform(-1, 1),
) -> int:
    """Drive until it ends by itself, or the backoff gives up."""
    memory = BackoffState()
    while (code := drive()) not in ENDINGS:
        memory, verdict = on_failure(backoff, memory, DIED, now_ms(), jitter())
        if isinstance(verdict, GiveUp):
            raise RunFailed(f"the driver died ({_how(code)}); {verdict.who}: {verdict.why}", GO_ON)
        wait_ms = max(0, verdict.at_ms - now_ms())
        say([f"the driver died ({_how(code)}); restart {verdict.attempt} in {time_text(wait_ms)}"], err=True)
        pause(wait_ms / 1000)
    return code


def tell_begun(pipe: int) -> None:
    """Tell the parent at the other end of this pipe that the start is in the journal. It may be gone."""
    if pipe != NOBODY:
        with contextlib.suppress(OSError), os.fdopen(pipe, "wb") as parent:
            parent.write(b"begun")


def _drive(words: Sequence[str]) -> tuple[int, bool]:
    """How a child ended, and whether it had begun."""
    ours, its = os.pipe()
    try:
        try:
            told = [part for word in words for part in ((word, str(its)) if word == CHILD_FLAG else (word,))]
            child = subprocess.Popen([*interpreter(), "-c", CHILD, *told], pass_fds=(its,))
        finally:
            os.close(its)
        code = _end_of(child)
        # What the child started may have the other end open still.
        os.set_blocking(ours, False)
        with contextlib.suppress(BlockingIOError):
            return code, bool(os.read(ours, 1))
        return code, False
    finally:
        os.close(ours)


def _end_of(child: subprocess.Popen[bytes]) -> int:
    """Wait for it, or end it when this process is told to end."""

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        return child.wait()
    except KeyboardInterrupt:
        child.terminate()
        try:
            child.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def interpreter() -> list[str]:
    """The command for a Python like this one that never imports from the current folder, as the `rekindle` script does
    not."""
    flags = {"-I": sys.flags.isolated, "-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site}
    return [sys.executable, "-P", *(flag for flag, is_set in flags.items() if is_set)]


def _how(code: int) -> str:
    try:
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    except ValueError:
        return f"signal {-code}"
