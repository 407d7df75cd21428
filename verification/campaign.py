"""One campaign: cases on one real cluster, on disk and on S3, each on a stage of its own, with one RESULT line."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from build_jar import TEST_JAR
from rekindle.local_cluster.cluster import LocalCluster
from stage import Place, Play, Stage, cloud, disk
from support.s3 import S3Server

Cases = Mapping[str, Callable[[Any], Mapping[str, object]]]


def perform(
    name: str, play: Play[Any, Any], cases: Cases, make_input: Callable[[Path], Path], minutes_max: float
) -> int:
    """All of it, or what the command line asks for. 0 only if every case held and the time was kept."""
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--only", action="append", choices=list(cases))
    parser.add_argument("--place", action="append", choices=["disk", "s3"])
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    asked = parser.parse_args()
    chosen = {one: cases[one] for one in asked.only or cases}
    places = asked.place or ["disk", "s3"]
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    started = time.monotonic()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # What was started is ended here, too.
    try:
        source = make_input(folder / "input")
        with S3Server() as s3, LocalCluster() as cluster:
            known = {"disk": disk(folder), "s3": cloud(s3)}
            verdicts = [
                verdict for place in places for verdict in _play(play, cluster, known[place], folder, source, chosen)
            ]
    finally:
        if asked.keep:
            print(f"left in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    minutes = (time.monotonic() - started) / 60
    failed = verdicts.count(False)
    print(f"RESULT cases={len(verdicts)} failed={failed} minutes={minutes:.1f} minutes_max={minutes_max}")
    return 0 if failed == 0 and minutes <= minutes_max else 1


def _play(
    play: Play[Any, Any], cluster: LocalCluster, place: Place, folder: Path, source: Path, cases: Cases
) -> Iterator[bool]:
    """The cases on one place: whether each held. One without figures does not apply to the place."""
    for name, case in cases.items():
        stage = Stage(play, cluster, place, folder / f"{place.name}-{name}", source, str(TEST_JAR))
        stage.folder.mkdir()
        started = time.monotonic()
        try:
            figures = case(stage)
            line = " ".join(f"{key}={value}" for key, value in figures.items())
            has_held = True
        except Exception:
            has_held, line = False, "FAILED\n" + traceback.format_exc()
        finally:
            stage.end()
        if line:
            print(f"{place.name:5} {name:22} {time.monotonic() - started:6.1f} s  {line}", flush=True)
            yield has_held
