"""`make starts`: many starts of one key, and drivers that die, must come to one output, published once.

Three starts at once; a scheduler's retry, and a watcher, while the first lives; `--supervise` through five kills of its
driver, each after it committed something.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from commands.user import User, ended, sum_of, wait_until
from rekindle.cli.boundary import ExitCode
from rekindle.local_cluster.processes import Process

KILLS = 5
MINUTES_MAX = 15.0


def main() -> int:
    folder, started, failed = Path(tempfile.mkdtemp(prefix="starts-")), time.monotonic(), 0
    figures: dict[str, int | float] = {}
    known: tuple[Callable[[User], dict[str, int | float]], ...] = (three_at_once, while_it_lives, through_kills)
    cases = [case for case in known if not sys.argv[1:] or case.__name__ in sys.argv[1:]]
    for case in cases:
        user = User(folder / case.__name__)
        try:
            figures |= case(user)
            print(f"{case.__name__}: holds", flush=True)
        except Exception:
            failed += 1
            print(f"{case.__name__}: FAILED\n{traceback.format_exc()}", flush=True)
        finally:
            user.leaves()
    shutil.rmtree(folder, ignore_errors=True)
    minutes = (time.monotonic() - started) / 60
    shown = " ".join(f"{name}={value}" for name, value in figures.items())
    print(f"RESULT cases={len(cases)} failed={failed} {shown} minutes={minutes:.1f} minutes_max={MINUTES_MAX}")
    return 0 if failed == 0 and minutes <= MINUTES_MAX else 1


def three_at_once(user: User) -> dict[str, int | float]:
    user.writes(pause=1.0)
    answers = [ended(one) for one in [user.begins("run") for _ in range(3)]]
    codes = sorted(one.code for one in answers)
    assert codes[0] == ExitCode.DONE and set(codes) <= {ExitCode.DONE, ExitCode.REFUSED}, answers
    _published_once(user)
    return {"at_once": 3, "refused": codes.count(int(ExitCode.REFUSED))}


def while_it_lives(user: User) -> dict[str, int | float]:
    """The first is held in the middle of a step until the second was refused and the third watches."""
    user.opens_gate_for(1)
    first = user.begins("run")
    wait_until(lambda: user.commits("priced") > 0, "a commit", first)
    again = user.types("run")
    assert again.code == ExitCode.REFUSED, again
    assert f"belongs to process {first.pid} on" in again.err, again.err
    watcher = user.begins("run", "--watch")
    assert watcher.stdout is not None and watcher.stdout.readline(), "it says what it watches"
    user.takes_gate_away()
    watching = ended(watcher)
    assert watching.code == ExitCode.DONE, watching
    assert "totals: 4/4 done" in watching.out, watching.out
    assert ended(first).code == ExitCode.DONE
    late = user.types("run")
    assert late.code == ExitCode.DONE and "is already done" in late.out, late
    _published_once(user)
    return {"retry_seconds": round(again.seconds, 1), "done_seconds": round(late.seconds, 1)}


def through_kills(user: User) -> dict[str, int | float]:
    user.writes(pause=4.0)
    parent = user.begins("run", "--supervise", "--set", "backoff.initial_ms=100")
    for epoch in range(1, KILLS + 1):
        wait_until(lambda: user.epoch() == epoch and user.commits(epoch=epoch) > 0, f"driver {epoch}", parent)  # noqa: B023
        itself = Process.of(parent.pid)
        assert itself is not None
        (driver,) = [one for one in itself.children() if "run" in one.command()]
        assert driver.send(9), "the driver was alive"  # type: ignore[arg-type]
    answer = ended(parent)
    assert answer.code == ExitCode.DONE, answer
    assert answer.err.count("the driver died (signal SIGKILL)") == KILLS, answer.err
    assert user.epoch() == KILLS + 1
    _published_once(user)
    return {"kills": KILLS, "drivers": KILLS + 1}


def _published_once(user: User) -> None:
    assert len(user.runs()) == 1, user.runs()
    assert user.publications() == (1, 1), user.publications()
    assert user.total() == sum_of(), user.total()


if __name__ == "__main__":
    sys.exit(main())
