"""`make kill-sweep`: kill -9 of the driver before and after every append of the journal of one whole run.

Each round starts a run whose driver dies at one append. The next driver goes on with it, its output is compared with
that of bare Spark, and the partitions that it computed again although they were finished are counted. It is resumable:
rounds that are noted in the state file are not repeated (`--again` forgets them).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from build_jar import TEST_JAR
from cluster_test.__main__ import make_input
from cluster_test.driver import Order
from cluster_test.play import SHOP, Session, Stage, finals, finished, section
from rekindle.local_cluster.cluster import LocalCluster, Size
from rekindle.model.partitions import EMPTY
from stage import Place, cloud, committed, disk, same
from support.s3 import S3Server

ROOT = Path(__file__).parent.parent
REPORT = ROOT / "docs" / "reports" / "kill-sweep.md"
STATE = ROOT / ".cluster" / "kill-sweep.jsonl"


# One executor for each of two applications: only drivers die here, and each new one starts its executors cold.
SIZE = Size(application_cores=2)
# A Python function that nobody vouched for, behind an exchange: only what the journal knows of it can be kept.
UNPROVED = "scored"


class Round(msgspec.Struct, frozen=True):
    """One kill, and what it cost. `unseen` had finished, was not yet in the journal, and nothing proves it."""

    place: str
    at: int
    is_after: bool
    again: int = 0
    unseen: int = 0
    seconds: float = 0.0


def sweep(cluster: LocalCluster, place: Place, folder: Path, source: Path, done: list[Round]) -> Iterator[Round]:
    stage = Stage(SHOP, cluster, place, folder / f"sweep-{place.name}", source, str(TEST_JAR))
    stage.folder.mkdir(parents=True)
    stage.cure()
    try:
        current = _fresh(stage)
        plain = current.do(Order("plain", is_bare=True)).digests
        whole = current.do(Order("whole", is_terse=True))
        same("the run without a kill", (whole.phase, whole.digests), ("succeeded", plain))
        known = {(one.at, one.is_after) for one in done if one.place == place.name}
        wanted = [(at, after) for at in range(1, whole.appends + 1) for after in (False, True)]
        following = _fresh(stage)
        for at, is_after in wanted:
            if (at, is_after) in known:
                continue
            current.wait_for("\nready")
            one = Round(place.name, at, is_after)
            died_ms = _death(current, one)
            if died_ms is None:
                print(f"{place.name}: a run that ended before append {at}, as fewer commits were seen one by one")
                continue
            answer = following.do(Order(_name(one), stale_seconds=5, is_terse=True))
            # After the last append of all the run is done, and the next driver says so.
            assert answer.phase in {"succeeded", "done"}, f"{_name(one)}: {answer}"
            same(f"{_name(one)}: output", answer.digests, plain)
            yield _judged(one, current, following, died_ms)
            current, following = following, _fresh(stage)
    finally:
        stage.end()


def _fresh(stage: Stage) -> Session:
    return stage.session("sweep", SHOP_BURN="0").start()


def _name(one: Round) -> str:
    return f"{'after' if one.is_after else 'before'}-{one.at}"


def _death(session: Session, one: Round) -> float | None:
    """When a driver was dead that was to die at an append. None if the run ended before: how many commits one append
    tells of follows time."""
    number = session.ask(Order(_name(one), die_at=one.at, dies_after=one.is_after, is_terse=True))
    deadline = time.monotonic() + 180
    while session.driver.is_alive():
        if len(session.answers()) > number:
            return None
        if time.monotonic() > deadline:
            raise TimeoutError(session.driver.text()[-3000:])
        time.sleep(0.05)
    return time.time() * 1000


def _judged(one: Round, dead: Session, following: Session, died_ms: float) -> Round:
    journaled = committed(section(dead.driver.text(), _name(one)))
    ended = finished(dead, _name(one), died_ms)
    again = unseen = 0
    for step, ran in finals(following, _name(one)).items():
        lost = ran & ended.get(step, EMPTY)
        excused = lost - journaled.get(step, EMPTY) if step == UNPROVED else EMPTY
        again += len(lost - excused)
        unseen += len(excused)
    return msgspec.structs.replace(one, again=again, unseen=unseen, seconds=round(time.time() - died_ms / 1000, 1))


def write_report(rounds: list[Round]) -> None:
    lines = [
        "# Kill sweep",
        "",
        "`make kill-sweep`: kill -9 of the driver before and after every append of the journal of one whole run",
        "of the shop (`verification/cluster_test/user_pipeline.py`), on a real cluster. Commits are told every two",
        "seconds at most, so that the journal is short. After each kill a new driver went on; its output was equal",
        "to that of bare Spark each time. *Again* are final Spark tasks launched for partitions that the dead driver",
        "had finished when it died, from the event logs of both. *Unseen* are those of",
        f"`{UNPROVED}`, a Python function behind an exchange, which had finished and were not yet in the journal:",
        "nothing proves that their exchange was not made again after the last look, so that they may not be kept. A",
        "run as users have it tells commits twice a second.",
        "",
        "| place | kills | appends | again | unseen | median seconds to take over and finish |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for place in sorted({one.place for one in rounds}):
        mine = [one for one in rounds if one.place == place]
        middle = sorted(one.seconds for one in mine)[len(mine) // 2]
        lines.append(
            f"| {place} | {len(mine)} | {max(one.at for one in mine)} | {sum(one.again for one in mine)} "
            f"| {sum(one.unseen for one in mine)} | {middle} |"
        )
    lines += ["", f"Zero failures in {len(rounds)} kills bounds the probability by {3 / len(rounds):.3f} at 95 %.", ""]
    REPORT.write_text("\n".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", action="append", choices=["disk", "s3"])
    parser.add_argument("--again", action="store_true", help="forget the rounds that were done")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after the round that passes this time")
    asked = parser.parse_args()
    STATE.parent.mkdir(exist_ok=True)
    if asked.again:
        STATE.unlink(missing_ok=True)
    lines = STATE.read_bytes().splitlines() if STATE.exists() else []
    rounds = [msgspec.json.decode(line, type=Round) for line in lines]
    begun = time.monotonic()
    is_whole = True
    with (
        tempfile.TemporaryDirectory(prefix="kill-sweep-") as name,
        S3Server() as s3,
        LocalCluster(1, size=SIZE) as cluster,
    ):
        folder = Path(name)
        source = make_input(folder / "input")
        known = {"disk": disk(folder), "s3": cloud(s3)}
        for place in asked.place or list(known):
            for one in sweep(cluster, known[place], folder, source, rounds):
                rounds.append(one)
                with STATE.open("ab") as state:
                    state.write(msgspec.json.encode(one) + b"\n")
                print(one, flush=True)
                if time.monotonic() - begun > asked.minutes * 60:
                    is_whole = False
                    break
    if rounds:
        write_report(rounds)
    again = sum(one.again for one in rounds)
    unseen = sum(one.unseen for one in rounds)
    print(f"RESULT kills={len(rounds)} again={again} unseen={unseen} is_whole={is_whole}")
    return 0 if rounds and again == 0 and is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
