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
from cluster_test.play import SHOP, Ran, Session, Stage, finals, finished
from rekindle.model.partitions import EMPTY
from rekindle.testing.cluster import LocalCluster
from stage import Place, cloud, disk, same
from support.s3 import S3Server

ROOT = Path(__file__).parent.parent
REPORT = ROOT / "docs" / "reports" / "kill-sweep.md"
STATE = ROOT / ".cluster" / "kill-sweep.jsonl"


class Round(msgspec.Struct, frozen=True):
    """One kill, and what it cost."""

    place: str
    at: int
    is_after: bool
    again: int
    seconds: float


def sweep(cluster: LocalCluster, place: Place, folder: Path, source: Path, done: list[Round]) -> Iterator[Round]:
    stage = Stage(SHOP, cluster, place, folder / f"sweep-{place.name}", source, str(TEST_JAR))
    stage.folder.mkdir(parents=True)
    stage.cure()
    try:
        current = _fresh(stage)
        plain = current.do(Order("plain", is_bare=True)).digests
        whole = current.do(Order("whole"))
        same("the run without a kill", (whole.phase, whole.digests), ("succeeded", plain))
        known = {(one.at, one.is_after) for one in done if one.place == place.name}
        wanted = [(at, after) for at in range(1, whole.appends + 1) for after in (False, True)]
        following = _fresh(stage)
        for at, is_after in wanted:
            if (at, is_after) in known:
                continue
            current.wait_for("\nready")
            died_ms = _death(current, Order(_name(at, is_after), die_at=at, dies_after=is_after))
            if died_ms is None:
                print(f"{place.name}: a run that ended before append {at}, as fewer commits were seen one by one")
                continue
            ended = finished(current, _name(at, is_after), died_ms)
            yield _go_on(following, ended, Round(place.name, at, is_after, 0, 0.0), plain)
            current, following = following, _fresh(stage)
    finally:
        stage.end()


def _fresh(stage: Stage) -> Session:
    return stage.session("sweep", SHOP_BURN="0").start()


def _name(at: int, is_after: bool) -> str:
    return f"{'after' if is_after else 'before'}-{at}"


def _go_on(following: Session, done: Ran, one: Round, plain: dict[str, str]) -> Round:
    name = _name(one.at, one.is_after)
    started = time.monotonic()
    answer = following.do(Order(name, stale_seconds=5))
    same(f"{name}: output", (answer.phase, answer.digests), ("succeeded", plain))
    again = sum(len(ran & done.get(step, EMPTY)) for step, ran in finals(following, name).items())
    return msgspec.structs.replace(one, again=again, seconds=round(time.monotonic() - started, 1))


def _death(session: Session, order: Order) -> float | None:
    """When a driver was dead that was to die at an append. Its Spark works on for a moment; what that finishes later
    may come too late for the next driver's listing. None if the run ended before: how many commits one append tells of
    follows time."""
    number = session.ask(order)
    deadline = time.monotonic() + 180
    while session.driver.is_alive():
        if len(session.answers()) > number:
            return None
        if time.monotonic() > deadline:
            raise TimeoutError(session.driver.text()[-3000:])
        time.sleep(0.05)
    return time.time() * 1000


def write_report(rounds: list[Round]) -> None:
    lines = [
        "# Kill sweep",
        "",
        "`make kill-sweep`: kill -9 of the driver before and after every append of the journal of one whole run",
        "of the shop (`tools/cluster_test/user_pipeline.py`), on a real cluster. After each kill a new driver went on;",
        "its output was equal to that of bare Spark each time. *Again* are final Spark tasks launched for partitions",
        "that the dead driver had finished when it died, from the event logs of both.",
        "",
        "| place | kills | appends | again | median seconds to take over and finish |",
        "| --- | --- | --- | --- | --- |",
    ]
    for place in sorted({one.place for one in rounds}):
        mine = [one for one in rounds if one.place == place]
        middle = sorted(one.seconds for one in mine)[len(mine) // 2]
        lines.append(
            f"| {place} | {len(mine)} | {max(one.at for one in mine)} | {sum(one.again for one in mine)} | {middle} |"
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
    with tempfile.TemporaryDirectory(prefix="kill-sweep-") as name, S3Server() as s3, LocalCluster() as cluster:
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
    print(f"RESULT kills={len(rounds)} again={again} is_whole={is_whole}")
    return 0 if rounds and again == 0 and is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
