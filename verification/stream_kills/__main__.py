"""`make stream-kills KILLS=60`: a stream of ten regions on a real cluster with a real Kafka broker, and faults.

At random moments drivers are killed, or frozen and woken beside their successors; executors, Python workers and the
broker are killed, the broker is frozen; a function of the user's hangs until its driver was killed; drivers are asked
to stop and started again. Files are fed all the while, no faster than they are read. In the end every region must have
exactly the rows of a batch over the same files: the topic through the reader that drops doubles, the region that reads
it each record that the topic has. Exit 0 only if that is so, no region went back, and every woken driver said why it
ended.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rekindle.local_cluster.cluster import LocalCluster
from stream_kills.live_place import CALLED, OF_FILES, PARTITIONS, REGIONS, TOPIC, LivePlace
from support.drivers import kill_driver
from support.feed import Feed
from support.kafka import KafkaBroker
from support.kill_round import SIZE, KillRound, KillWorld, schedule
from support.signals import when

# How often each fault comes in sixty.
FAULTS = {"driver": 9, "freeze": 20, "executor": 7, "worker": 7, "broker": 6, "pause": 3, "hang": 5, "term": 3}


class LiveRound(KillRound):
    """With a function of the user's that hangs."""

    def __init__(self, place: LivePlace, world: KillWorld) -> None:
        super().__init__(place, world)
        self._place = place
        self.faults["hang"] = self._hang

    def _hang(self) -> None:
        """The others go on beside it, also when its region was fenced; only the next driver starts it again."""
        self._place.hung.unlink(missing_ok=True)
        self._place.hang.touch()
        when(self._place.hung.exists, 300.0, sign=self.moved)
        when(lambda: f"{CALLED} gave up" in self.driver.text(), 300.0, sign=self.moved)
        self.progress(1, but=CALLED)
        kill_driver(self.driver)
        self._place.hang.unlink()
        self.driver = self.start()

    def finish(self, files: int) -> None:
        """What is over by time comes with two more files."""
        self.end_by_term()
        for number in (files, files + 1):
            self._place.feed(number, is_last=True)
        # What the first sends to the topic, the second reads.
        for _ in range(2):
            self.read_all()


def differences(place: LivePlace, files: int) -> dict[str, str]:
    found = {}
    for region in REGIONS:
        has, must = place.found(region), place.expected(region, files)
        if has != must:
            found[region] = f"missing {list((must - has).items())[:3]}, too many {list((has - must).items())[:3]}"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream-kills")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    asked = parser.parse_args()
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="stream-kills-"))
    chance, kinds = random.Random(asked.seed), asked.faults.split(",")
    place = LivePlace(folder)
    place.prepare()
    with LocalCluster(size=SIZE) as cluster, KafkaBroker() as broker:
        broker.make_topic(TOPIC, PARTITIONS)
        feed = Feed(place.feed, lambda: min(map(place.commits, OF_FILES)), 0.1)
        script = Path(__file__).with_name("live_driver.py")
        live = LiveRound(place, KillWorld(script=script, cluster=cluster, broker=broker, chance=chance))
        try:
            live.progress(2)
            for number, name in enumerate(schedule(FAULTS, kinds, asked.kills, chance)):
                live.fault(name)
                live.progress(1)
                print(f"{number + 1}: {name}, {live.moved()}, {time.monotonic() - began:.0f} s", flush=True)
            files = feed.end()
            live.finish(files)
            wrong = differences(place, files)
        finally:
            feed.end()
            live.driver.end()
    for region, told in wrong.items():
        print(f"WRONG {region}: {told}")
    for told in live.unsaid:
        print(f"UNSAID {told}")
    if not asked.keep:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"RESULT stream-kills kills={asked.kills} {live.told()} regions={len(REGIONS)} files={files} "
        f"wrong={len(wrong)} minutes={(time.monotonic() - began) / 60:.1f}"
    )
    return 1 if wrong or live.unsaid or live.went_back else 0


if __name__ == "__main__":
    sys.exit(main())
