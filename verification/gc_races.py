"""`make gc-races`: a gc that starts while a run resumes, and a resume that starts while a gc deletes, as processes.

Each round: a driver dies somewhere in a run; then a gc for which the run is due and a driver that resumes it start
within milliseconds of each other. Either the resume finishes and publishes exactly what an undisturbed run does, or it
is refused with a sentence and the run is closed without a file left. Anything else is a wrong round.

The control is the same with a gc that does not take the run over: it must be seen to lose results, otherwise the rounds
prove nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import RekindleError, RunClosed, StillOwned
from rekindle.gc.collect_run import GcRules, RunCollector
from rekindle.gc.inspect_run import RunInspection
from rekindle.gc.policy import GcAction, Retention
from rekindle.gc.remover import Limits, Remover
from rekindle.journal.history import read
from rekindle.master.state.run_state import Phase
from rekindle.runtime.opening import codec, peek
from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store
from support.filing import Filing
from support.location import DRAWING, make_run

DUE = GcRules(terms=Retention(0, 0), limits=Limits(batch=2, per_second=2000.0))
START_SECONDS = 0.03
SPREAD = 1.5
# The commands of an undisturbed run before its results are released: a driver dies at one of them.
COMMANDS = 5
FINISHED = "the resume finished"
WRONG = "WRONG"
LOST = f"{WRONG}, results lost"


@dataclass(frozen=True, slots=True)
class Round:
    """One race: which of the two is first, by how much, and where the first driver died."""

    number: int
    is_gc_first: bool
    apart_seconds: float
    dies_after: int
    is_silent: bool

    @property
    def run(self) -> str:
        return f"run-{self.number}"

    @property
    def folder(self) -> str:
        return f"daily/{self.run}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--control", type=int, default=20)
    parser.add_argument("--seed", type=int, default=8)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="rekindle-races-") as folder:
        spread = SPREAD * undisturbed(Path(folder) / "alone")
        real, control = rounds(chance, arguments.rounds, spread), rounds(chance, arguments.control, spread)
        ended = Counter(race(Path(folder) / "real", one, is_protected=True) for one in real)
        lost = Counter(race(Path(folder) / "control", one, is_protected=False) for one in control)
    for told, counted in (("", ended), ("control: ", lost)):
        for name, count in sorted(counted.items()):
            print(f"{count:5} {told}{name}")
    wrong = sum(count for name, count in ended.items() if name.startswith(WRONG))
    seen = sum(count for name, count in lost.items() if name.startswith(LOST))
    finished = ended[FINISHED]
    refused = arguments.rounds - finished - wrong
    is_both = finished > 0 and refused > 0
    print(
        f"RESULT gc_races rounds={arguments.rounds} resumed={finished} refused={refused} wrong={wrong} "
        f"control_rounds={arguments.control} control_losses={seen}"
    )
    return 0 if wrong == 0 and seen > 0 and is_both else 1


def undisturbed(folder: Path) -> float:
    """The seconds of a resume with nobody beside it: the two of a round begin within little more than that."""
    store, one = open_store(str(folder)), Round(1, False, 0.0, 2, False)
    die(store, one)
    started = time.monotonic()
    resume(store, one, folder)
    return time.monotonic() - started


def rounds(chance: random.Random, count: int, spread_seconds: float) -> list[Round]:
    return [
        Round(
            number,
            is_gc_first=number % 2 == 1,
            apart_seconds=chance.random() * spread_seconds,
            dies_after=chance.randrange(1, COMMANDS),
            is_silent=chance.random() < 0.5,
        )
        for number in range(1, count + 1)
    ]


def race(folder: Path, one: Round, *, is_protected: bool) -> str:
    """How it ended, in words."""
    store = open_store(str(folder))
    die(store, one)
    at = time.monotonic() + START_SECONDS
    later = at + one.apart_seconds
    told = folder / "told"
    told.mkdir(exist_ok=True)
    children = [
        fork(at if one.is_gc_first else later, lambda: collect(store, one, is_protected)),
        fork(later if one.is_gc_first else at, lambda: resume(store, one, told)),
    ]
    for child in children:
        _, status = os.waitpid(child, 0)
        if status:
            return f"{WRONG}: a process ended with status {status}"
    answer = json.loads((told / one.run).read_text())
    return judge(store, one, answer["outcome"], answer["losses"])


def judge(store: Store, one: Round, outcome: str, losses: int) -> str:
    if losses:
        return f"{LOST}: committed files were gone"
    is_closed = read(store, one.folder, codec()).position.is_closed
    if outcome == "finished":
        is_right = store.get(f"out/{one.folder}") == expected(one)
        return FINISHED if is_right and not is_closed else f"{LOST}: something else was published"
    if outcome not in ("RunClosed", "StillOwned"):
        return f"{WRONG}: {outcome}"
    if is_closed and not any(store.walk(f"{one.folder}/results/")):
        return f"the resume was refused ({outcome})"
    return f"{WRONG}: refused ({outcome}), and the run is not closed"


def die(store: Store, one: Round) -> None:
    """A driver that ends before its run does, with or without a last word."""
    if not one.is_silent:
        make_run(store, one.run, engine=Filing(store, one.folder, dies_after=one.dies_after))
        return
    left = [one.dies_after]

    def die_here() -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    child = fork(0.0, lambda: void(make_run(store, one.run, engine=Filing(store, one.folder, before_act=die_here))))
    os.waitpid(child, 0)


def collect(store: Store, one: Round, is_protected: bool) -> None:
    janitor = RunCollector(store, "daily", DUE) if is_protected else Careless(store, "daily", DUE)
    janitor.tend(one.run, one.number)


class Careless(RunCollector):
    """The control: deletes the results of a run that it judged, without a word in the journal."""

    def _take(self, run: str, look: RunInspection, act: GcAction) -> None:
        Remover(self._real, DUE.limits).remove_all(f"{look.folder}/results/")


def resume(store: Store, one: Round, told: Path) -> None:
    engine = Filing(store, one.folder, f"app-{os.getpid()}", before_act=lambda: time.sleep(0.004))
    try:
        state = make_run(store, one.run, engine=engine, force=False)
        outcome = "finished" if state is not None and state.phase is Phase.SUCCEEDED else "not finished"
    except (RunClosed, StillOwned) as refused:
        outcome = type(refused).__name__ if refused.message and refused.hint else "no sentence"
    except RekindleError as error:
        outcome = f"{type(error).__name__}: {error.message}"
    (told / one.run).write_text(json.dumps({"outcome": outcome, "losses": engine.losses}))


def expected(one: Round) -> bytes:
    """What an undisturbed run publishes."""
    store = MemoryStore()
    make_run(store, one.run, drawing=DRAWING, engine=Filing(store, one.folder))
    assert peek(store, "daily", one.run) is not None
    return store.objects[f"out/{one.folder}"][0]


def fork(at: float, act: Callable[[], None]) -> int:
    """A process of its own that begins at a moment of the monotonic clock."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        time.sleep(max(0.0, at - time.monotonic()))
        act()
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def void(value: object) -> None:
    """An act as an expression."""


if __name__ == "__main__":
    raise SystemExit(main())
