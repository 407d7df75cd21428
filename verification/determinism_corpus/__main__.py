"""`make determinism-corpus`: the determinism table against the truth.

The truth of a step is found by running it 20 times and more: over the same rows in another order and in another number
of files each time, on one core, on three, and on a standalone cluster whose executors are killed while it works. A step
is determinate if it gave the same rows, to the last bit, every time. Wrong in the unsafe direction is a step that the
table proves determinate and that was not. The table is written into the docs.

It is resumable: what each of its applications saw is noted in the state file (`--again` forgets it).
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from build_jar import JAR
from determinism_corpus import driver as program
from determinism_corpus.data import rows, write
from determinism_corpus.driver import Said
from determinism_corpus.steps import STEPS
from local_spark import QUIET
from rekindle.local_cluster.cluster import LocalCluster
from rekindle.model.kinds import Determinism
from support.drivers import Driver, start_driver

ROOT = Path(__file__).parent.parent.parent
REPORT = ROOT / "docs" / "reports" / "determinism.md"
STATE = ROOT / ".cluster" / "determinism-corpus.jsonl"
ROUNDS_MIN, PROVED_MIN, STEPS_MIN = 20, 0.8, 60
KILL_SECONDS = (8.0, 20.0)
CLUSTER = "cluster"
# Small inputs in small pieces, so that order and arrival have a chance to differ.
PIECES = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.files.maxPartitionBytes": "16384",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
}
PATIENT = {"spark.task.maxFailures": "50", "spark.stage.maxConsecutiveAttempts": "50"}


class Part(msgspec.Struct, frozen=True):
    """What one application saw: where it ran, over which inputs, and how many of its executors were killed."""

    master: str
    rounds: tuple[int, ...]
    said: tuple[Said, ...]
    kills: int = 0
    minutes: float = 0.0


class Judged(msgspec.Struct, frozen=True):
    """One step: what the table says, and what running it showed."""

    step: str
    level: str
    because: tuple[str, ...]
    rounds: int
    outputs: int

    @property
    def is_determinate(self) -> bool:
        return self.outputs == 1

    @property
    def is_proved(self) -> bool:
        return self.level == Determinism.DETERMINATE.value


def performed(folder: Path, rounds: Sequence[int], settings: dict[str, str], only: Sequence[str]) -> Driver:
    arguments = (str(folder / "input"), ",".join(map(str, rounds)), *only)
    return start_driver(
        Path(program.__file__),
        *arguments,
        folder=folder / f"driver-{rounds[0]}",
        # Known from the start, the jar is known to every thread of the driver.
        settings={**QUIET, **PIECES, "spark.jars": str(JAR), **settings},
        env={"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
    )


def said_by(driver: Driver) -> list[Said]:
    lines = [line for line in driver.text().splitlines() if line.startswith("SAID ")]
    return [msgspec.json.decode(line[5:], type=Said) for line in lines]


def finish(driver: Driver) -> list[Said]:
    try:
        code = driver.wait(3600)
        assert code == 0, driver.text()[-3000:]
        return said_by(driver)
    finally:
        driver.end()


def on_cluster(folder: Path, rounds: Sequence[int], only: Sequence[str]) -> tuple[list[Said], int]:
    """The rounds on a cluster, an executor of which is killed every few seconds, and how many were."""
    draw, kills = random.Random(rounds[0]), 0
    with LocalCluster() as cluster:
        driver = performed(folder, rounds, cluster.app_settings() | PATIENT, only)
        try:
            while driver.is_alive():
                time.sleep(draw.uniform(*KILL_SECONDS))
                executors = cluster.executors()
                if len(executors) > 1 and driver.is_alive():
                    draw.choice(executors).send(signal.SIGKILL)
                    kills += 1
            return finish(driver), kills
        finally:
            driver.end()


def parts_of(rounds: int) -> list[tuple[str, tuple[int, ...]]]:
    """A third on one core, a third on three, and each of the others in an application of its own on a cluster."""
    third, numbers = (rounds + 1) // 3, tuple(range(rounds))
    local = [("local[1]", numbers[:third]), ("local[3]", numbers[third : 2 * third])]
    return local + [(CLUSTER, (number,)) for number in numbers[2 * third :]]


def played(folder: Path, master: str, rounds: tuple[int, ...], only: Sequence[str]) -> Part:
    began = time.monotonic()
    if master == CLUSTER:
        found, kills = on_cluster(folder, rounds, only)
    else:
        found, kills = finish(performed(folder, rounds, {"spark.master": master}, only)), 0
    return Part(master, rounds, tuple(found), kills, round((time.monotonic() - began) / 60, 1))


def noted() -> list[Part]:
    return [msgspec.json.decode(line, type=Part) for line in STATE.read_bytes().splitlines()] if STATE.exists() else []


def note(part: Part) -> None:
    STATE.parent.mkdir(exist_ok=True)
    with STATE.open("ab") as file:
        file.write(msgspec.json.encode(part) + b"\n")


def judged(found: Iterable[Said]) -> list[Judged]:
    by_step: dict[str, list[Said]] = defaultdict(list)
    for one in found:
        by_step[one.step].append(one)
    answer = []
    for step, said in by_step.items():
        levels = {one.level for one in said}
        assert len(levels) == 1, f"the table itself must be determinate: {step} {levels}"
        outputs = len({one.digest for one in said})
        answer.append(Judged(step, said[0].level, said[0].because, len(said), outputs))
    return answer


def table(found: Sequence[Judged]) -> str:
    lines = ["| step | what the table says | because | different outputs |", "| --- | --- | --- | --- |"]
    for one in found:
        lines.append(f"| {one.step} | {one.level} | {', '.join(one.because)} | {one.outputs} of {one.rounds} |")
    return "\n".join(lines)


def reported(found: Sequence[Judged], result: str) -> None:
    """The report's own words stay; the figures below its last heading are new."""
    words = REPORT.read_text().partition("\n## As run\n")[0]
    REPORT.write_text(f"{words}\n## As run\n\n```\n{result}\n```\n\n{table(found)}\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="determinism-corpus")
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN)
    parser.add_argument("--only", nargs="+", default=[], choices=list(STEPS), metavar="STEP")
    parser.add_argument("--report", action="store_true", help="write the table into the docs")
    parser.add_argument("--again", action="store_true", help="forget what is noted")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # What was started is ended here, too.
    if asked.again:
        STATE.unlink(missing_ok=True)
    done = [] if asked.only else noted()
    folder = Path(tempfile.mkdtemp(prefix="determinism-"))
    try:
        known = rows()
        for number in range(asked.rounds):
            write(folder / "input", known, number)
        for master, rounds in parts_of(asked.rounds):
            if any((part.master, part.rounds) == (master, rounds) for part in done):
                continue
            done.append(played(folder, master, rounds, asked.only))
            print(f"{master} {rounds}: {done[-1].minutes} minutes, {done[-1].kills} executors killed", flush=True)
            if not asked.only:
                note(done[-1])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    answers = judged(said for part in done for said in part.said)
    kills, minutes = sum(part.kills for part in done), sum(part.minutes for part in done)
    return _told(answers, kills, minutes, is_reported=asked.report)


def _told(answers: Sequence[Judged], kills: int, minutes: float, *, is_reported: bool) -> int:
    unsafe = [one for one in answers if one.is_proved and not one.is_determinate]
    truly = [one for one in answers if one.is_determinate]
    proved = sum(one.is_proved for one in truly)
    for one in answers:
        mark = "UNSAFE" if one in unsafe else "not proved" if one.is_determinate and not one.is_proved else ""
        print(f"{one.step:52} {one.level:14} {one.outputs:3} of {one.rounds:3}  {mark} {', '.join(one.because)}")
    rounds = min(one.rounds for one in answers)
    share = proved / len(truly)
    result = (
        f"RESULT steps={len(answers)} unsafe={len(unsafe)} determinate={len(truly)} proved={proved} "
        f"proved_share={share:.3f} proved_share_min={PROVED_MIN} rounds={rounds} executors_killed={kills} "
        f"minutes={minutes:.1f}"
    )
    if is_reported:
        reported(answers, result)
    print(result)
    is_whole = len(answers) >= STEPS_MIN and rounds >= ROUNDS_MIN and kills > 0
    return 0 if is_whole and not unsafe and share >= PROVED_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
