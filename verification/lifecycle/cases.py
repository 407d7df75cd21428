"""Table D of the scenarios, row by row. Each case says what lies in the run's folder before and after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from cluster_test.driver import Order
from cluster_test.play import Figures, Session, Stage, bare, run_of, section
from rekindle.journal.history import read
from rekindle.master.facts.events import (
    AttemptDeleted,
    Event,
    PartitionsCommitted,
    PartitionsReleased,
    RunSucceeded,
    SinkPublished,
)
from rekindle.master.state.apply import fold
from rekindle.master.state.run_state import RunState
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.results.manifest import DATA, MARKER
from rekindle.results.result_paths import attempt_of
from rekindle.runtime.opening import codec
from rekindle.storage.stores import open_store
from stage import same
from support.drivers import kill_driver

HERE = Path(__file__).parent
N = 3
ALL = f"0-{N - 1}"
SECONDS_MAX = 600.0
NO_GRACE = ("--set", "gc.grace_hours=0")
NOT_KEPT = ("--set", "gc.retention_hours=0")


def rekindle(stage: Stage, *words: str) -> tuple[int, str]:
    """A command of the user's, as a process of its own."""
    code = "import sys; from rekindle.cli.main import main; sys.exit(main())"
    options = [f"--storage={key}={value}" for key, value in stage.place.options.items()]
    env = os.environ | {"PYTHONPATH": str(HERE.parent.parent / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--location", stage.place.location, *options],
        env=env,
        cwd=stage.folder,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    return done.returncode, done.stdout + done.stderr


def gc(stage: Stage, *words: str) -> None:
    code, said = rekindle(stage, "gc", *NO_GRACE, *words)
    assert code == 0, said


def files(stage: Stage, run: str) -> dict[str, str]:
    """The partitions of each step whose file is there and whole, as the store lists them. If there are none, whatever
    else is there, by its name."""
    found: dict[str, Partitions] = {}
    prefix = f"life/{run}/"
    names = [name.removeprefix(prefix) for name in stage.listing(f"{prefix}results/")]
    whole = {(attempt_of(name), int(match[1]), int(match[2])) for name in names if (match := MARKER.search(name))}
    for name in names:
        attempt, match = attempt_of(name), DATA.search(name)
        if attempt is not None and match and (attempt, int(match[2]), int(match[1])) in whole:
            found[attempt.step] = found.get(attempt.step, EMPTY) | Partitions((int(match[2]),))
    if not found and names:
        return dict.fromkeys(names, "left")
    return {step: str(at) for step, at in sorted(found.items())}


def events_of(stage: Stage, run: str) -> list[Event]:
    store = open_store(stage.place.location, stage.place.options)
    return list(read(store, f"life/{run}", codec()).events)


def state_of(stage: Stage, run: str) -> RunState:
    state = fold(None, events_of(stage, run))
    assert state is not None
    return state


def counted(stage: Stage, run: str) -> dict[str, str]:
    """What the journal says that counts."""
    steps = state_of(stage, run).steps
    return {name: str(step.committed) for name, step in sorted(steps.items()) if step.committed}


def started(stage: Stage, name: str, **variables: str) -> tuple[Session, int, str]:
    """A run that waits at the gate: everything that needs no gate is done."""
    stage.uncure()
    session = stage.session(name, **variables).start()
    number = session.ask(Order(name, tries=1, stale_seconds=10))
    session.until(lambda: "opened slow/" in _text(session, name))
    run = run_of(_text(session, name))
    session.until(lambda: counted(stage, run).get("report") == ALL)
    return session, number, run


def _text(session: Session, name: str) -> str:
    return section(session.driver.text(), name)


def two_consumers(stage: Stage) -> Figures:
    """A producer that finishes is kept; released only after both consumers; a run that succeeds releases the rest, and
    what was published stays."""
    session, number, run = started(stage, "both")
    same("one of two consumers is done", files(stage, run), {"clean": ALL, "report": ALL})
    same("what counts", counted(stage, run), {"clean": ALL, "report": ALL})
    stage.cure()
    answer = session.answer(number, SECONDS_MAX)
    same("the output", (answer.phase, answer.digests), ("succeeded", bare(stage, session)))
    same("after success", files(stage, run), {})
    order = [event for event in events_of(stage, run) if isinstance(event, PartitionsReleased | RunSucceeded)]
    first = order[0]
    assert isinstance(first, PartitionsReleased) and first.step == "clean", order
    assert any(isinstance(one, RunSucceeded) for one in order[1:]), "consumed goes before the run ends"
    session.end()
    return {"released": len(order) - 1}


def failed(stage: Stage) -> Figures:
    """A producer that fails leaves nothing that counts; the run keeps what a resume needs until its retention ends."""
    (stage.folder / "poison").touch()
    session, number, run = started(stage, "fails")
    stage.cure()
    answer = session.answer(number, SECONDS_MAX)
    same("the run stops", answer.phase, "RunFailed")
    kept = counted(stage, run)
    (at,) = Partitions.first(N) - Partitions.parse(kept["slow"])
    assert at in Partitions.parse(kept["clean"]), "what the failed one reads is kept"
    gc(stage)
    same("within the retention", (files(stage, run), counted(stage, run)), (kept, kept))
    (stage.folder / "poison").unlink()
    answer = session.do(Order("fails"), SECONDS_MAX)
    same("resumed", (answer.phase, answer.computed["slow"]), ("succeeded", 1))
    same("after success", files(stage, run), {})
    session.end()
    return {"failed": at}


def given_up(stage: Stage) -> Figures:
    """The retention ends: everything goes, twice is harmless, and a resume is refused."""
    (stage.folder / "poison").touch()
    session, number, run = started(stage, "given_up")
    stage.cure()
    same("the run stops", session.answer(number, SECONDS_MAX).phase, "RunFailed")
    assert files(stage, run)
    code, _ = rekindle(stage, "results", "pin", f"life/{run}")
    same("pinned", code, 0)
    before = files(stage, run)
    gc(stage, *NOT_KEPT)
    same("pinned: never", files(stage, run), before)
    rekindle(stage, "results", "unpin", f"life/{run}")
    for _ in range(2):
        gc(stage, *NOT_KEPT)
        same("after the retention", files(stage, run), {})
    same("a resume comes too late", session.do(Order("given_up"), SECONDS_MAX).phase, "RunClosed")
    (stage.folder / "poison").unlink()
    session.end()
    return {"deleted": sum(len(Partitions.parse(at)) for at in before.values())}


def cancelled(stage: Stage) -> Figures:
    """A producer is cancelled with its run: nothing of it counts, what it read stays for a resume, and goes with it."""
    session, _, run = started(stage, "cancelled")
    session.driver.process.send(signal.SIGINT)
    session.wait(SECONDS_MAX)
    kept = {"clean": ALL, "report": ALL}
    gc(stage)
    same("cancelled", (counted(stage, run), files(stage, run)), (kept, kept))
    stage.cure()
    again = stage.session("again").start()
    answer = again.do(Order("cancelled", stale_seconds=10), SECONDS_MAX)
    same("resumed", (answer.phase, answer.digests), ("succeeded", bare(stage, again)))
    same("what ran", answer.computed, {"clean": 0, "report": 0, "slow": N, "ledger": N})
    same("after success", files(stage, run), {})
    again.end()
    return {"computed": sum(answer.computed.values())}


def unfinished_again(stage: Stage) -> Figures:
    """All consumers are done, so a result goes. One of them loses a partition: what it needs is made again, and goes
    only when that consumer is done again."""
    hold = stage.folder / "hold"
    hold.touch()
    session, _, run = started(stage, "unfinished")
    stage.cure()
    session.until(lambda: "opened ledger/" in _text(session, "unfinished"))
    session.until(lambda: files(stage, run) == {"report": ALL, "slow": ALL})
    kill_driver(session.driver)
    _remove(stage, run, "slow", 1)
    hold.unlink()
    again = stage.session("again").start()
    answer = again.do(Order("unfinished", stale_seconds=10), SECONDS_MAX)
    same("resumed", (answer.phase, answer.digests), ("succeeded", bare(stage, again)))
    same("what ran", answer.computed, {"clean": 1, "report": 0, "slow": 1, "ledger": N})
    order = events_of(stage, run)
    done = [at for at, one in enumerate(order) if isinstance(one, PartitionsCommitted) and one.attempt.step == "slow"]
    gone = [at for at, one in enumerate(order) if isinstance(one, PartitionsReleased) and one.step == "clean"]
    same("goes twice", len(gone), 2)
    assert gone[0] < done[-1] < gone[1], (done, gone)
    same("after success", files(stage, run), {})
    again.end()
    return {"made_again": answer.computed["clean"] + answer.computed["slow"]}


def _remove(stage: Stage, run: str, step: str, partition: int) -> None:
    """The file of one partition, behind everybody's back."""
    names = stage.listing(f"life/{run}/results/{step}/")
    (name,) = (one for one in names if (match := DATA.search(one)) and int(match[2]) == partition)
    open_store(stage.place.location, stage.place.options).delete(name)


def pinned(stage: Stage) -> Figures:
    """A run that is pinned while it runs releases nothing, also when it succeeds."""
    session, number, run = started(stage, "pinned")
    same("pinned", rekindle(stage, "results", "pin", f"life/{run}")[0], 0)
    stage.cure()
    same("the run", session.answer(number, SECONDS_MAX).phase, "succeeded")
    everything = dict.fromkeys(("clean", "ledger", "report", "slow"), ALL)
    same("pinned: never", files(stage, run), everything)
    gc(stage, *NOT_KEPT)
    same("not by gc either", files(stage, run), everything)
    rekindle(stage, "results", "unpin", f"life/{run}")
    rekindle(stage, "results", "release", f"life/{run}")
    same("unpinned and released", files(stage, run), {})
    session.end()
    return {"kept": len(everything) * N}


def owner_gone(stage: Stage) -> Figures:
    """The owner disappears: kept within the grace time, reclaimed by a master that comes first; else released."""
    first, _, reclaimed = started(stage, "reclaimed")
    kept = counted(stage, reclaimed)
    kill_driver(first.driver)
    second, _, lost = started(stage, "lost")
    kill_driver(second.driver)
    code, _ = rekindle(stage, "gc", *NOT_KEPT)
    same("within the grace time", (code, counted(stage, reclaimed), counted(stage, lost)), (0, kept, kept))
    stage.cure()
    third = stage.session("third").start()
    answer = third.do(Order("reclaimed", stale_seconds=10), SECONDS_MAX)
    same("reclaimed", (answer.phase, answer.digests), ("succeeded", bare(stage, third)))
    same("what was done is not done again", (answer.computed["clean"], answer.computed["report"]), (0, 0))
    gc(stage, *NOT_KEPT)
    same("after the grace time", (files(stage, reclaimed), files(stage, lost)), ({}, {}))
    same("a resume comes too late", third.do(Order("lost"), SECONDS_MAX).phase, "RunClosed")
    third.end()
    return {"kept": sum(len(Partitions.parse(at)) for at in kept.values())}


def slow_deletion(stage: Stage) -> Figures:
    """What is released is deleted beside the run: it publishes while the deletion still waits."""
    session, number, run = started(stage, "slowly", LIFE_DELETES_AFTER="20")
    stage.cure()
    same("the run", session.answer(number, SECONDS_MAX).phase, "succeeded")
    order = events_of(stage, run)
    released = next(at for at, one in enumerate(order) if isinstance(one, PartitionsReleased))
    deleted = next(
        at for at, one in enumerate(order) if isinstance(one, AttemptDeleted) and one.attempt.step == "clean"
    )
    published = [at for at, one in enumerate(order) if isinstance(one, SinkPublished)]
    assert released < min(published) and max(published) < deleted, (released, published, deleted)
    same("deleted in the end", files(stage, run), {})
    session.end()
    return {"published_before_deletion": len(published)}


CASES = {
    "two-consumers": two_consumers,
    "failed": failed,
    "given-up": given_up,
    "cancelled": cancelled,
    "unfinished-again": unfinished_again,
    "pinned": pinned,
    "owner-gone": owner_gone,
    "slow-deletion": slow_deletion,
}
