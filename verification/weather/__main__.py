"""`make weather`: the faults of a batch in each weather, on real clusters. Exit 0 only if all of it held.

Each weather has a cluster of its own, with its settings. The external shuffle service listens on all addresses and
cannot be told otherwise: that weather runs in a network namespace, which has a loopback interface and nothing else.
"""

from __future__ import annotations

import argparse
import fcntl
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import replace
from pathlib import Path

from build_jar import TEST_JAR
from cluster_test.__main__ import make_input
from cluster_test.play import SHOP
from rekindle.local_cluster.cluster import LocalCluster
from stage import Stage, disk
from weather.faults import all_faults
from weather.weathers import WEATHERS, Weather

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
ROOT = Path(__file__).parent.parent.parent


def raise_loopback() -> None:
    """In a new network namespace it is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        found = fcntl.ioctl(asking, SIOCGIFFLAGS, struct.pack("16sh14x", b"lo", 0))
        flags = struct.unpack("16sh14x", found)[1]
        fcntl.ioctl(asking, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def play(weather: Weather, folder: Path, source: Path) -> bool:
    place = replace(disk(folder), settings=dict(weather.settings))
    started = time.monotonic()
    with LocalCluster(1 if weather.is_alone else 2, daemon_settings=weather.daemons) as cluster:
        stage = Stage(SHOP, cluster, place, folder / weather.name, source, str(TEST_JAR))
        stage.folder.mkdir()
        try:
            figures = all_faults(stage, weather)
            line, has_held = " ".join(f"{key}={value}" for key, value in figures.items()), True
        except Exception:
            line, has_held = "FAILED\n" + traceback.format_exc(), False
        finally:
            stage.end()
    print(f"{weather.name:16} {time.monotonic() - started:6.1f} s  {line}", flush=True)
    return has_held


def apart(weather: Weather) -> bool:
    """In a network namespace of its own, by another process."""
    command = [sys.executable, "-m", "verification", "weather", "--only", weather.name, "--is-apart"]
    return subprocess.run(["unshare", "--net", *command], cwd=ROOT).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="weather")
    parser.add_argument("--only", action="append", choices=[one.name for one in WEATHERS])
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    parser.add_argument("--is-apart", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.is_apart:
        raise_loopback()
    chosen = [one for one in WEATHERS if one.name in (asked.only or [one.name])]
    folder, started = Path(tempfile.mkdtemp(prefix="weather-")), time.monotonic()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # What was started is ended here, too.
    try:
        source = make_input(folder / "input")
        held = {
            one.name: apart(one) if one.is_alone and not asked.is_apart else play(one, folder, source) for one in chosen
        }
    finally:
        if asked.keep:
            print(f"left in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    failed = [name for name, has_held in held.items() if not has_held]
    if not asked.is_apart:
        minutes = (time.monotonic() - started) / 60
        names = ",".join(held)
        print(f"RESULT weather weathers={names} failed={','.join(failed) or 'none'} minutes={minutes:.1f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
