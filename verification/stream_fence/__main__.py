"""`make stream-fence`: a driver is frozen in a batch, another one goes on, and the first is woken. ROUNDS of them.

Three regions on one source: rows passed on, values once (state), both into our sink with our checkpoint files, and the
control, an append in a function of the user's. The frozen driver's fence moved, so it must end with a sentence, and its
rows may not count. Exit 0 only if both of ours are exact in every round; rows that the control has twice are counted,
for without any the test shows nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec

from build_jar import JAR
from local_spark import QUIET
from rekindle.storage.store import Put
from rekindle.storage.stores import open_store
from stream_fence.regions import BARE, OURS, REGIONS, DriverOrder, StreamPlace
from support.drivers import Driver, cont_driver, start_driver, stop_driver
from support.feed import Feed
from support.hadoop import HadoopCluster
from support.s3 import S3Server
from support.signals import when

FIRST = 3
SETTINGS = QUIET | {"spark.master": "local[2]", "spark.driver.memory": "768m", "spark.jars": str(JAR)}
# What checkpoints, fence and target lie on, if not on a disk.
Server = S3Server | HadoopCluster
SERVERS: dict[str, type[S3Server] | type[HadoopCluster]] = {"s3": S3Server, "hdfs": HadoopCluster}


def driver(place: StreamPlace, epoch: int, server: Server | None) -> Driver:
    """The region is taken, by the next number of the fence, before anything of it starts."""
    assert place.store.put_if_absent(f"fence/{epoch}", b"") is Put.CREATED
    order = DriverOrder(folder=str(place.folder), epoch=epoch, url=place.url)
    script = Path(__file__).with_name("driver.py")
    return start_driver(
        script,
        msgspec.json.encode(order).decode(),
        folder=place.folder / f"driver-{epoch}",
        settings=SETTINGS | (server.spark_settings if server else {}),
    )


def moved(place: StreamPlace) -> tuple[int, ...]:
    return tuple(place.logged(region, log) for region in REGIONS for log in ("offsets", "commits"))


def freeze(place: StreamPlace, zombie: Driver, chance: random.Random) -> list[str]:
    """Within a batch of one region, somewhere; which regions are within one then."""
    region = chance.choice(REGIONS)
    before = place.logged(region, "offsets")
    when(lambda: place.logged(region, "offsets") > before, every_s=0.002, sign=lambda: moved(place))
    time.sleep(chance.random() * 0.4)
    stop_driver(zombie)
    return [one for one in REGIONS if place.logged(one, "offsets") > place.logged(one, "commits")]


def place_of(folder: Path, server: Server | None) -> StreamPlace:
    if server is None:
        return StreamPlace(folder)
    url = server.url(folder.name)
    return StreamPlace(folder, url, open_store(url, server.store_settings))


def round_of(place: StreamPlace, chance: random.Random, server: Server | None) -> dict[str, object]:
    place.source.mkdir(parents=True)
    feed = Feed(place.feed, lambda: min(place.logged(one, "commits") for one in REGIONS), 0.02)
    first = driver(place, 1, server)
    second: Driver | None = None
    try:
        when(
            lambda: all(place.logged(one, "commits") >= FIRST for one in REGIONS),
            sign=lambda: (first.printed(), moved(place)),
        )
        inside = freeze(place, first, chance)
        second = driver(place, 2, server)
        was = {one: place.logged(one, "commits") for one in REGIONS}
        when(lambda: all(place.logged(one, "commits") >= was[one] + 2 for one in was), sign=lambda: moved(place))
        cont_driver(first)
        when(lambda: all(f"dead {one}" in first.text() for one in OURS), sign=lambda: moved(place))
        files = feed.end()
        when(lambda: all(has_all(place, one, files) for one in REGIONS), every_s=0.5, sign=lambda: moved(place))
        place.halt.touch()
        second.wait()
        told = {one: next(line for line in first.text().splitlines() if f"dead {one}" in line) for one in OURS}
        wrong = {one: difference(place, one, files) for one in OURS}
        twice = (place.found(BARE) - place.expected(BARE, files)).total()
    finally:
        feed.end()
        for started in (first, second):
            if started is not None:
                started.end()
    return {
        "inside": inside,
        "wrong": {one: str(found) for one, found in wrong.items() if found},
        "unsaid": [line for line in told.values() if "fenced: another driver" not in line],
        "twice": twice,
        "files": files,
    }


def has_all(place: StreamPlace, region: str, files: int) -> bool:
    return not place.expected(region, files) - place.found(region)


def difference(place: StreamPlace, region: str, files: int) -> Counter[str]:
    """Rows that are missing, and rows that are too many."""
    found, expected = place.found(region), place.expected(region, files)
    return (found - expected) + (expected - found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream-fence")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--place", choices=["disk", *SERVERS], default="disk")
    parser.add_argument("--keep", action="store_true", help="leave the folders for a look")
    asked = parser.parse_args()
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="stream-fence-"))
    inside, wrong, unsaid, twice, rounds_twice = 0, 0, 0, 0, 0
    server = SERVERS[asked.place]() if asked.place in SERVERS else None
    try:
        with server or contextlib.nullcontext():
            for number in range(asked.rounds):
                here = folder / str(number)
                here.mkdir()
                answer = round_of(place_of(here, server), random.Random(asked.seed * 1000 + number), server)
                print(f"round {number}: {answer}", flush=True)
                inside += bool(set(answer["inside"]) & set(OURS))  # type: ignore[call-overload]
                wrong += bool(answer["wrong"])
                unsaid += bool(answer["unsaid"])
                twice += int(str(answer["twice"]))
                rounds_twice += bool(answer["twice"])
                if not asked.keep:
                    shutil.rmtree(here, ignore_errors=True)
    finally:
        if not asked.keep:
            shutil.rmtree(folder, ignore_errors=True)
    minutes = (time.monotonic() - began) / 60
    print(
        f"RESULT stream-fence place={asked.place} rounds={asked.rounds} frozen_in_a_batch={inside} wrong={wrong} "
        f"unsaid={unsaid} control_rows_twice={twice} control_rounds={rounds_twice} minutes={minutes:.1f}"
    )
    return 0 if not wrong and not unsaid and inside and twice else 1


if __name__ == "__main__":
    sys.exit(main())
