"""`make stream-results KILLS=60`: a step whose result two other regions read, on a real cluster with a real broker.

Records of a topic get a number that is drawn anew whenever they are computed; one reader passes them on, the other one
keeps state. At random moments drivers, executors, Python workers and the broker are killed, drivers are frozen and
woken beside their successors, and a reader fails alone. In the end both targets must have each record of the topic
once, with the same number. Spark's event logs say what restarted and what was read again. Then gc runs, and nothing of
the result may be left but its last batch. Exit 0 only if
- both targets are right, no region went back, and every woken driver said why it ended,
- the producer did not restart when only a reader failed,
- no committed batch was read again, and each began where the one before it ended,
- no files of batches before the last one are left.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rekindle.local_cluster.cluster import LocalCluster
from stream_results.results_place import DRAWN, PARTITIONS, PLAIN, READERS, REGIONS, TOPIC, ResultsPlace
from support.feed import Feed
from support.kafka import KafkaBroker
from support.kill_round import SIZE, KillRound, KillWorld, schedule
from support.signals import when

MAIN = "from rekindle.cli.main import main; main()"
# How often each fault comes in sixty.
FAULTS = {"reader": 20, "driver": 8, "freeze": 8, "executor": 8, "worker": 8, "broker": 5, "term": 3}


class ResultsRound(KillRound):
    """With a reader that fails alone."""

    def __init__(self, place: ResultsPlace, world: KillWorld) -> None:
        super().__init__(place, world)
        self._place = place
        self.alone: list[tuple[int, int]] = []
        self.faults["reader"] = self._reader

    def _reader(self) -> None:
        """Until it has failed, and is beyond that."""
        began = _now_ms()
        self._place.fail.touch()
        when(lambda: not self._place.fail.exists(), 300.0, sign=self.moved)
        self.progress(2)
        self.alone.append((began, _now_ms()))

    def finish(self) -> None:
        self.end_by_term()
        # What the first sends to the topic, the second reads.
        for _ in range(2):
            self.read_all()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def collect(place: ResultsPlace) -> tuple[int, int]:
    """gc, as a user types it; how many directories of the result there were, and how many of its passed batches are
    left."""
    before, _ = place.segments()
    words = ["gc", "--location", str(place.location), "--set", "gc.grace_hours=0"]
    subprocess.run([sys.executable, "-c", MAIN, *words], check=True)
    return before, place.segments()[1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream-results")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    asked = parser.parse_args()
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="stream-results-"))
    chance, kinds = random.Random(asked.seed), asked.faults.split(",")
    place = ResultsPlace(folder)
    place.prepare()
    with LocalCluster(size=SIZE) as cluster, KafkaBroker() as broker:
        broker.make_topic(TOPIC, PARTITIONS)
        feed = Feed(place.feed, lambda: min(map(place.commits, REGIONS)), 0.1)
        live = ResultsRound(
            place,
            KillWorld(
                script=Path(__file__).with_name("results_driver.py"),
                cluster=cluster,
                broker=broker,
                chance=chance,
                settings=cluster.app_settings(place.events),
            ),
        )
        try:
            live.progress(2)
            for number, name in enumerate(schedule(FAULTS, kinds, asked.kills, chance)):
                live.fault(name)
                live.progress(1)
                print(f"{number + 1}: {name}, {live.moved()}, {time.monotonic() - began:.0f} s", flush=True)
            files = feed.end()
            live.finish()
            wrong = list(place.wrong(files))
        finally:
            feed.end()
            live.driver.end()
    for told in (*wrong, *live.unsaid):
        print(f"WRONG {told}")
    log = place.told()
    restarts = sum(log.restarts(DRAWN, one) for one in live.alone)
    failed = sum(log.restarts(PLAIN, one) for one in live.alone)
    again, gaps = sum(map(log.again, READERS)), sum(map(log.gaps, READERS))
    batches = sum(len(log.batches[one]) for one in READERS)
    segments, left = collect(place)
    if not asked.keep:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"RESULT stream-results kills={asked.kills} {live.told()} files={files} wrong={len(wrong)} "
        f"reader_restarts={failed} producer_restarts={restarts} batches={batches} read_again={again} gaps={gaps} "
        f"segments={segments} left={left} minutes={(time.monotonic() - began) / 60:.1f}"
    )
    bad = wrong or live.unsaid or live.went_back or restarts or again or gaps or left or failed < len(live.alone)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
