"""`make corruption-cases`: rows that come in another order each time, an executor that dies, and who notices.

Each case is played in bare Spark with its protections off, as the control, and as a Rekindle pipeline at its defaults,
20 rounds of each in which an executor was killed. Rekindle must be right in all of its rounds; the control must have
been wrong at least once, or the case shows nothing.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from corruption_cases import driver as program
from corruption_cases.bare import BARE, UNPROTECTED
from corruption_cases.driver import Round
from corruption_cases.rows import REDUCES
from rekindle.local_cluster.cluster import LocalCluster
from support.drivers import Driver, start_driver

ROUNDS_MIN = 20
SETTINGS: dict[str, Mapping[str, str]] = {
    "bare": UNPROTECTED,
    "kept": {"spark.sql.shuffle.partitions": str(REDUCES)},
}
PATIENT = {"spark.task.maxFailures": "50", "spark.stage.maxConsecutiveAttempts": "50"}


def played(cluster: LocalCluster, folder: Path, side: str, case: str, rounds: int, draw: random.Random) -> list[Round]:
    place = folder / f"{side}-{case}"
    place.mkdir()
    settings = {**cluster.app_settings(), **PATIENT, **SETTINGS[side]}
    driver = start_driver(
        Path(program.__file__),
        side,
        case,
        str(place),
        str(rounds),
        folder=folder / "drivers",
        settings=settings,
        env=cluster.app_env,
    )
    try:
        _strike(cluster, driver, draw)
        code = driver.wait(60)
        assert code == 0, driver.text()[-3000:]
        lines = [line for line in driver.text().splitlines() if line.startswith("SAID ")]
        return [msgspec.json.decode(line[5:], type=Round) for line in lines]
    finally:
        driver.end()
        shutil.rmtree(place, ignore_errors=True)


def _strike(cluster: LocalCluster, driver: Driver, draw: random.Random) -> None:
    """As often as the driver asks, until it ends."""
    heard = 0
    while driver.is_alive():
        asked = driver.text().count("STRIKE\n")
        if asked > heard:
            heard = asked
            executors = cluster.executors()
            if executors:
                draw.choice(executors).send(signal.SIGKILL)
        time.sleep(0.03)


def main() -> int:
    parser = argparse.ArgumentParser(prog="corruption-cases")
    parser.add_argument("--only", action="append", choices=list(BARE))
    parser.add_argument("--rounds", type=int, default=ROUNDS_MIN)
    asked = parser.parse_args()
    started, draw = time.monotonic(), random.Random(3)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # What was started is ended here, too.
    folder = Path(tempfile.mkdtemp(prefix="corruption-"))
    figures: dict[str, list[Round]] = {}
    try:
        with LocalCluster() as cluster:
            for case in asked.only or BARE:
                for side in SETTINGS:
                    figures[f"{side} {case}"] = found = played(cluster, folder, side, case, asked.rounds, draw)
                    _tell(f"{case:16} {side}", found)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _told(figures, asked.rounds, (time.monotonic() - started) / 60)


def _tell(what: str, found: list[Round]) -> None:
    wrong = [one.wrong for one in found if one.wrong]
    struck = sum(one.has_struck for one in found)
    print(f"{what}: {len(wrong)} of {len(found)} wrong, {struck} struck {wrong[:1]}", flush=True)


def _told(figures: Mapping[str, list[Round]], rounds: int, minutes: float) -> int:
    kept = {name: found for name, found in figures.items() if name.startswith("kept")}
    bare = {name: found for name, found in figures.items() if name.startswith("bare")}
    wrong = sum(bool(one.wrong) for found in kept.values() for one in found)
    control = min(sum(bool(one.wrong) for one in found) for found in bare.values())
    struck = min(sum(one.has_struck for one in found) for found in kept.values())
    print(
        f"RESULT cases={len(kept)} rounds={sum(map(len, kept.values()))} wrong={wrong} struck_min={struck} "
        f"control_rounds={sum(map(len, bare.values()))} control_wrong_min={control} minutes={minutes:.1f}"
    )
    return 0 if not wrong and control and struck >= max(rounds, ROUNDS_MIN) else 1


if __name__ == "__main__":
    sys.exit(main())
