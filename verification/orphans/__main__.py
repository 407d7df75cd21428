"""`make orphans RUNS=200`: runs that are killed at random, and what is left of them after one gc.

Each round is one run of a small pipeline on one warm cluster. A driver dies at an append of its journal (while it
computes, or while it deletes what was released), an executor or a worker is killed at some moment, or a gc or a release
of a run is killed in the middle. Most runs that lost their driver are resumed, at once or at the end, after other gcs;
the others are given up. Then everything is ended, one gc comes when grace and retention are over, and `doctor` removes
what dead JVMs left on the workers. Target: nothing is left, nothing that was needed went, every run could be resumed,
and results took at most 1.2 times what the same schedule needed. A run that is resumed when later ones have published
must end with that sentence and nothing else (`overtaken`). A JVM that dies before its first task of ours has no block:
its copies of Spark's jars are nobody's, `doctor` tells of them, and they are counted apart (`unmarked`).

It is resumable: with `--minutes` it stops after a round, and that part ends with its own gc and is noted in the state
file. The next call goes on with other draws, and tells the sum (`--again` forgets what is noted).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

import stage as parts
from build_jar import TEST_JAR
from cluster_test.__main__ import make_input
from cluster_test.driver import Answer, Order
from cluster_test.play import Session, Stage, run_of, section
from orphans.peaks import peaks
from rekindle.journal.history import read
from rekindle.local_cluster.cluster import LocalCluster, Size
from rekindle.master.facts.events import PartitionsLost
from rekindle.model.kinds import FailureDomain
from rekindle.runtime.opening import codec
from rekindle.storage.stores import open_store
from stage import disk, same
from support.signals import kill

HERE = Path(__file__).parent
STATE = HERE.parent.parent / ".cluster" / "orphans.jsonl"
TINY = parts.Play(HERE.parent / "cluster_test" / "driver.py", HERE / "user_code.py", Order, Answer)
SIZE = Size(worker_cores=2, executor_cores=1, executor_memory_mb=512, application_cores=2)
RATIO_MAX = 1.2
KINDS = ("driver", "driver", "driver", "executor", "worker", "gc", "release")
GC_SECONDS_MAX = 120
OVERTAKEN = "already holds a later publication"
COPIES = ("_cache", "_lock")  # Of jars, as Spark names them.
# A run that lost its driver is resumed now, at the end, or never.
NOW, LATER = 0.6, 0.85


class Part(msgspec.Struct, frozen=True):
    """What one call of the command saw: rounds by kind, what was left, lost or could not be resumed, sums of peaks."""

    kinds: dict[str, int]
    orphans: int
    local: int
    unmarked: int
    overtaken: int
    lost: int
    unresumable: int
    most: int
    least: int
    minutes: float


@dataclass
class Campaign:
    """What happened so far. `later` are runs that are resumed at the end, `given_up` those that are not; `names` tells
    how runs are called in the journal; `most` and `least` are sums of their peaks."""

    stage: Stage
    cluster: LocalCluster
    rng: random.Random
    plain: dict[str, str] = field(default_factory=dict)
    appends: int = 0
    current: Session | None = None
    following: Session | None = None
    kinds: Counter[str] = field(default_factory=Counter)
    later: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    unresumable: list[str] = field(default_factory=list)
    most: int = 0
    least: int = 0
    lost: int = 0
    overtaken: int = 0

    def fresh(self) -> Session:
        return self.stage.session("tiny").start()

    def warm(self) -> None:
        """Two drivers: one works, the other one is there when it dies."""
        self.current, self.following = self.fresh(), self.fresh()
        self.plain = self.current.do(Order("plain", is_bare=True), 600).digests
        whole = self.current.do(Order("whole"), 600)
        same("a run without a fault", (whole.phase, whole.digests), ("succeeded", self.plain))
        self.appends = whole.appends
        self._seen("whole", self.current)

    def round(self, number: int) -> None:
        kind = self.rng.choice(KINDS)
        name = f"run-{number}"
        if kind == "release" and not self.given_up:
            kind = "gc"
        match kind:
            case "driver":
                self._kill_driver(name)
            case "gc":
                self._kill_gc(name, "gc", "--set", "gc.grace_hours=0", "--set", "gc.files_per_second=40")
            case "release":
                self._kill_gc(name, "results", "release", f"tiny/{self.given_up.pop()}")
            case _:
                self._kill_beside(name, kind)
        self.kinds[kind] += 1

    def _kill_driver(self, name: str) -> None:
        assert self.current is not None and self.following is not None
        at, is_after = self.rng.randint(1, self.appends), self.rng.random() < 0.5
        number = self.current.ask(Order(name, die_at=at, dies_after=is_after))
        died = self._dies(self.current, number)
        self.names[name] = run_of(section(self.current.driver.text(), name))
        if not died:
            self._right(name, self.current.answer(number))
            self._seen(name, self.current)
            return
        self.current, self.following = self.following, self.fresh()
        chance = self.rng.random()
        if chance < NOW:
            self._resume(name)
        elif chance < LATER:
            self.later.append(name)
        elif self.names[name] != "no run":
            self.given_up.append(self.names[name])

    def _kill_beside(self, name: str, kind: str) -> None:
        """The run must end well all the same."""
        assert self.current is not None
        number = self.current.ask(Order(name))
        time.sleep(self.rng.uniform(0, 2.5))
        if kind == "executor":
            victims = self.cluster.executors()
            with contextlib.suppress(ProcessLookupError):
                kill(self.rng.choice(victims))
        else:
            self.cluster.restart_worker(self.rng.randrange(2))
        self._right(name, self.current.answer(number, 600))
        self._seen(name, self.current)

    def _kill_gc(self, name: str, *words: str) -> None:
        """While a run is on: gc must leave it alone, and another gc goes on where this one died."""
        assert self.current is not None
        number = self.current.ask(Order(name))
        child = _rekindle(self.stage, *words)
        time.sleep(self.rng.uniform(0.3, 2.0))
        child.kill()
        child.wait()
        self._right(name, self.current.answer(number, 600))
        self._seen(name, self.current)

    def _resume(self, name: str) -> None:
        assert self.current is not None
        answer = self.current.do(Order(name, stale_seconds=10), 600)
        if OVERTAKEN in answer.error and name in self.later:
            self.overtaken += 1
        elif (answer.phase, answer.digests) not in (("succeeded", self.plain), ("done", self.plain)):
            self.unresumable.append(f"{name}: {answer.phase} {answer.error[:300]}")
        self._seen(name, self.current)

    def resume_rest(self) -> None:
        for name in self.later:
            self._resume(name)

    def _dies(self, session: Session, number: int) -> bool:
        deadline = time.monotonic() + 600
        while session.driver.is_alive():
            if len(session.answers()) > number:
                return False
            assert time.monotonic() < deadline, session.driver.text()[-3000:]
            time.sleep(0.05)
        return True

    def _right(self, name: str, answer: Answer) -> None:
        same(f"{name}: output", (answer.phase, answer.digests), ("succeeded", self.plain))

    def _seen(self, name: str, session: Session) -> None:
        """What the journal of a run that is over says: what it took, and whether something was gone that it needed."""
        run = run_of(section(session.driver.text(), name))
        run = self.names.get(name, run) if run == "no run" else run
        if run == "no run":
            return
        store = open_store(self.stage.place.location, self.stage.place.options)
        events = read(store, f"tiny/{run}", codec()).events
        most, least = peaks(events)
        self.most += most
        self.least += least
        losses = [one for one in events if isinstance(one, PartitionsLost) and one.domain is FailureDomain.STORAGE]
        self.lost += len(losses)
        for one in losses:
            print(f"{name}: {one} was gone", flush=True)


def _rekindle(stage: Stage, *words: str) -> subprocess.Popen[bytes]:
    """The command, as a user would type it."""
    code = "import sys; from rekindle.cli.main import main; sys.exit(main())"
    given = [sys.executable, "-c", code, *words]
    if words[0] != "doctor":
        given += ["--location", stage.place.location]
    env = os.environ | {"PYTHONPATH": str(HERE.parent.parent / "src")}
    return subprocess.Popen(given, env=env, cwd=stage.folder, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)


def _run(stage: Stage, *words: str) -> None:
    code = _rekindle(stage, *words).wait(GC_SECONDS_MAX)
    assert code in (0, 2), f"rekindle {' '.join(words)}: {code}"


def local_dirs(cluster: LocalCluster) -> list[Path]:
    return [*sorted(cluster.folder.glob("worker-*/local")), cluster.folder / "driver"]


def left_locally(cluster: LocalCluster) -> list[Path]:
    """Files of Spark's local folders, whosever they are."""
    found = (path for root in local_dirs(cluster) for path in root.rglob("*") if path.is_file())
    return [path for path in found if any(part.startswith(("blockmgr-", "spark-", "executor-")) for part in path.parts)]


def _is_copy(path: Path) -> bool:
    """Of a jar, made for a JVM that never ran a task of ours: nothing of it is a block."""
    return path.name.endswith(COPIES) and not any(part.startswith("blockmgr-") for part in path.parts)


def left_in(stage: Stage) -> list[str]:
    """Files of results that are left although every run is over: none of them is kept for ever."""
    return [name for name in stage.listing("tiny/") if "/results/" in name]


def rounds(campaign: Campaign, wanted: int, minutes: float) -> Iterator[int]:
    end = time.monotonic() + minutes * 60
    for number in range(wanted):
        if time.monotonic() > end:
            return
        began = time.monotonic()
        campaign.round(number)
        print(f"round {number}: {time.monotonic() - began:.1f} s {dict(campaign.kinds)}", flush=True)
        yield number


def noted() -> list[Part]:
    return [msgspec.json.decode(line, type=Part) for line in STATE.read_bytes().splitlines()] if STATE.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after the round that passes this time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="forget the parts that are noted")
    asked = parser.parse_args()
    if asked.again:
        STATE.unlink(missing_ok=True)
    done = noted()
    left = asked.runs - sum(sum(part.kinds.values()) for part in done)
    if left > 0:
        done.append(perform(left, asked.minutes, asked.seed + len(done)))
        STATE.parent.mkdir(exist_ok=True)
        STATE.write_bytes(b"".join(msgspec.json.encode(part) + b"\n" for part in done))
    return _verdict(done, asked.runs)


def perform(wanted: int, minutes: float, seed: int) -> Part:
    """Rounds on one location and one cluster, the last gc, and what is there after it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="orphans-") as name, LocalCluster(2, size=SIZE) as cluster:
        folder = Path(name)
        stage = Stage(TINY, cluster, disk(folder), folder / "stage", make_input(folder / "input"), str(TEST_JAR))
        stage.folder.mkdir()
        campaign = Campaign(stage, cluster, random.Random(seed))
        try:
            campaign.warm()
            for _ in rounds(campaign, wanted, minutes):
                pass
            campaign.resume_rest()
        finally:
            stage.end()
        before = len(left_in(stage)), len(left_locally(cluster))
        print(f"before the last gc: {before[0]} files of results, {before[1]} in local folders")
        _run(stage, "gc", "--set", "gc.grace_hours=0", "--set", "gc.retention_hours=0")
        _run(
            stage,
            "doctor",
            *(word for root in local_dirs(cluster) for word in ("--local-dir", str(root))),
            "--remove-dead",
        )
        orphans, everything = left_in(stage), left_locally(cluster)
        local = [path for path in everything if not _is_copy(path)]
    for one in (*orphans[:20], *map(str, local[:20]), *campaign.unresumable):
        print(f"LEFT OR LOST: {one}")
    return Part(
        dict(campaign.kinds),
        len(orphans),
        len(local),
        len(everything) - len(local),
        campaign.overtaken,
        campaign.lost,
        len(campaign.unresumable),
        campaign.most,
        campaign.least,
        round((time.monotonic() - began) / 60, 1),
    )


def _verdict(done: list[Part], wanted: int) -> int:
    kinds = sum((Counter(part.kinds) for part in done), Counter[str]())
    runs = kinds.total()
    ratio = sum(part.most for part in done) / max(1, sum(part.least for part in done))
    orphans, local = sum(part.orphans for part in done), sum(part.local for part in done)
    lost, unresumable = sum(part.lost for part in done), sum(part.unresumable for part in done)
    unmarked, overtaken = sum(part.unmarked for part in done), sum(part.overtaken for part in done)
    told = " ".join(f"{kind}={count}" for kind, count in sorted(kinds.items()))
    print(
        f"RESULT runs={runs} parts={len(done)} {told} orphans={orphans} local_orphans={local} unmarked={unmarked} "
        f"needed_deleted={lost} unresumable={unresumable} overtaken={overtaken} peak_ratio={ratio:.3f} "
        f"ratio_max={RATIO_MAX} is_whole={runs >= wanted} minutes={sum(part.minutes for part in done):.1f}"
    )
    is_clean = not (orphans or local or unresumable or lost)
    return 0 if runs >= wanted and is_clean and ratio <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
