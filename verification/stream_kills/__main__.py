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
import signal
import sys
import tempfile
import time
from collections import Counter
from itertools import chain, cycle, islice
from pathlib import Path

from build_jar import JAR
from parts import kafka_jars
from rekindle.local_cluster.cluster import LocalCluster, Size
from rekindle.local_cluster.processes import Process
from stream_kills.live_place import CALLED, OF_FILES, PARTITIONS, REGIONS, TOPIC, WAITED_FOR, LivePlace
from support.drivers import Driver, cont_driver, kill_driver, start_driver, stop_driver
from support.feed import Feed
from support.kafka import KafkaBroker
from support.signals import cont, kill, stop, when

FENCED = "Fenced"
SIZE = Size(worker_cores=8, worker_memory_mb=4096, executor_cores=4, application_cores=8)
JARS = ",".join(map(str, [JAR, *sorted(kafka_jars().iterdir())]))
# How often each fault comes in sixty.
FAULTS = {"driver": 9, "freeze": 20, "executor": 7, "worker": 7, "broker": 6, "pause": 3, "hang": 5, "term": 3}


class KillRound:
    """One stream, with the driver that runs it now."""

    def __init__(self, place: LivePlace, cluster: LocalCluster, broker: KafkaBroker, chance: random.Random) -> None:
        self._place, self._cluster, self._broker, self._chance = place, cluster, broker, chance
        self._started = 0
        self.counts: Counter[str] = Counter()
        self.unsaid: list[str] = []
        self.went_back: list[str] = []
        self.driver = self._start()

    def _start(self, *words: str) -> Driver:
        self._started += 1
        fair = {"spark.scheduler.mode": "FAIR", "spark.sql.shuffle.partitions": "2", "spark.jars": JARS}
        return start_driver(
            Path(__file__).with_name("live_driver.py"),
            str(self._place.folder),
            self._broker.address,
            *words,
            folder=self._place.folder / f"driver-{self._started}",
            settings={**self._cluster.app_settings(), **fair},
            env=self._cluster.app_env,
        )

    def moved(self) -> tuple[object, ...]:
        return (*(self._place.commits(one) for one in REGIONS), self.driver.printed())

    def progress(self, batches: int, but: str = "") -> None:
        """Until every region that is waited for, but one, has committed so many more; none may go back."""
        regions = [one for one in WAITED_FOR if one != but]
        was = {one: self._place.commits(one) for one in regions}

        def is_there() -> bool:
            if not self.driver.is_alive():
                raise RuntimeError(f"the driver ended:\n{self.driver.text()[-3000:]}")
            now = {one: self._place.commits(one) for one in regions}
            self.went_back += [one for one in regions if now[one] < was[one]]
            return all(now[one] >= was[one] + batches for one in regions)

        when(is_there, 300.0, every_s=0.2, sign=self.moved)

    def fault(self, name: str) -> None:
        time.sleep(self._chance.random() * 2)
        self.counts[name] += 1
        faults = {"driver": self._driver, "freeze": self._freeze, "executor": self._executor, "worker": self._worker}
        more = {"broker": self._broker_killed, "pause": self._pause, "hang": self._hang, "term": self._term}
        (faults | more)[name]()

    def _driver(self) -> None:
        kill_driver(self.driver)
        self.driver = self._start()

    def _freeze(self) -> None:
        zombie = self.driver
        stop_driver(zombie)
        self.driver = self._start("force")
        try:
            self.progress(2)
            cont_driver(zombie)
            zombie.wait()
        finally:
            zombie.end()
        if FENCED not in zombie.text():
            self.unsaid.append(zombie.text()[-300:])

    def _executor(self) -> None:
        found = self._cluster.executors()
        if found:
            kill(self._chance.choice(found))

    def _worker(self) -> None:
        """A Python worker of any executor; the daemon that forks them is one, too."""
        found = [one for executor in self._cluster.executors() for one in executor.descendants()]
        python = [one for one in found if _is_python(one)]
        if python:
            self._chance.choice(python).send(signal.SIGKILL)

    def _broker_killed(self) -> None:
        self._broker.kill_and_start_again()

    def _pause(self) -> None:
        """The broker is frozen for longer than a request waits."""
        assert self._broker.process is not None, "it runs"
        stop(self._broker.process)
        time.sleep(self._chance.random() * 40)
        cont(self._broker.process)

    def _hang(self) -> None:
        """The others go on beside it, also when its region was fenced; only the next driver starts it again."""
        self._place.hung.unlink(missing_ok=True)
        self._place.hang.touch()
        when(self._place.hung.exists, 300.0, sign=self.moved)
        when(lambda: f"{CALLED} gave up" in self.driver.text(), 300.0, sign=self.moved)
        self.progress(1, but=CALLED)
        kill_driver(self.driver)
        self._place.hang.unlink()
        self.driver = self._start()

    def _term(self) -> None:
        self.driver.process.send(signal.SIGTERM)
        assert self.driver.wait() == 0, self.driver.text()[-3000:]
        self.driver = self._start()

    def finish(self, files: int) -> None:
        """What is over by time comes with two more files."""
        self._term()
        self.driver.process.send(signal.SIGTERM)
        self.driver.wait()
        for number in (files, files + 1):
            self._place.feed(number, is_last=True)
        # What the first sends to the topic, the second reads.
        for _ in range(2):
            self.driver = self._start("now")
            assert self.driver.wait(300.0, sign=self.moved) == 0, self.driver.text()[-3000:]


def _is_python(process: Process) -> bool:
    return "python" in Path((process.command() or [""])[0]).name


def differences(place: LivePlace, files: int) -> dict[str, str]:
    found = {}
    for region in REGIONS:
        has, must = place.found(region), place.expected(region, files)
        if has != must:
            found[region] = f"missing {list((must - has).items())[:3]}, too many {list((has - must).items())[:3]}"
    return found


def schedule(kinds: list[str], kills: int, chance: random.Random) -> list[str]:
    """Each kind once, then all as often as their shares are, in any order."""
    rest = [name for name in kinds for _ in range(FAULTS[name] - 1)]
    chance.shuffle(rest)
    return list(islice(chain(kinds, cycle(rest or kinds)), kills))


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
        live = KillRound(place, cluster, broker, chance)
        try:
            live.progress(2)
            for number, name in enumerate(schedule(kinds, asked.kills, chance)):
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
    counts = " ".join(f"{name}={live.counts[name]}" for name in FAULTS)
    print(
        f"RESULT stream-kills kills={asked.kills} {counts} regions={len(REGIONS)} files={files} wrong={len(wrong)} "
        f"unsaid={len(live.unsaid)} went_back={len(live.went_back)} minutes={(time.monotonic() - began) / 60:.1f}"
    )
    return 1 if wrong or live.unsaid or live.went_back else 0


if __name__ == "__main__":
    sys.exit(main())
