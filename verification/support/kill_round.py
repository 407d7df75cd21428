"""A stream on a real cluster with a broker, whose driver is killed, frozen, woken and started again, and what is beside
it too. What is the same in all campaigns that do so."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Protocol

from build_jar import JAR
from parts import kafka_jars
from rekindle.local_cluster.cluster import LocalCluster, Size
from rekindle.local_cluster.processes import Process
from support.drivers import Driver, cont_driver, kill_driver, start_driver, stop_driver
from support.kafka import KafkaBroker
from support.signals import cont, kill, stop, when

FENCED = "Fenced"
SIZE = Size(worker_cores=8, worker_memory_mb=4096, executor_cores=4, application_cores=8)
JARS = ",".join(map(str, [JAR, *sorted(kafka_jars().iterdir())]))
SETTINGS = {"spark.scheduler.mode": "FAIR", "spark.sql.shuffle.partitions": "2", "spark.jars": JARS}


class KillPlace(Protocol):
    """Where the stream is: all regions, and those that are waited for after a fault."""

    folder: Path
    regions: tuple[str, ...]
    waited_for: tuple[str, ...]

    def commits(self, region: str) -> int:
        """The last batch that the checkpoint of a region has committed, -1 before the first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KillWorld:
    """What a stream runs on. `script` is its driver, which gets the folder, the brokers and words."""

    script: Path
    cluster: LocalCluster
    broker: KafkaBroker
    chance: random.Random
    settings: Mapping[str, str] = field(default_factory=dict)


class KillRound:
    """One stream, with the driver that runs it now. Subclasses add faults to `faults`."""

    def __init__(self, place: KillPlace, world: KillWorld) -> None:
        self._kill_place, self._world = place, world
        self._started = 0
        self.counts: Counter[str] = Counter()
        self.unsaid: list[str] = []
        self.went_back: list[str] = []
        self.faults: dict[str, Callable[[], None]] = {
            "driver": self._driver,
            "freeze": self._freeze,
            "executor": self._executor,
            "worker": self._worker,
            "broker": world.broker.kill_and_start_again,
            "pause": self._pause,
            "term": self._term,
        }
        self.driver = self.start()

    def start(self, *words: str) -> Driver:
        self._started += 1
        cluster = self._world.cluster
        return start_driver(
            self._world.script,
            str(self._kill_place.folder),
            self._world.broker.address,
            *words,
            folder=self._kill_place.folder / f"driver-{self._started}",
            settings={**cluster.app_settings(), **SETTINGS, **self._world.settings},
            env=cluster.app_env,
        )

    def moved(self) -> tuple[object, ...]:
        return (*(self._kill_place.commits(one) for one in self._kill_place.regions), self.driver.printed())

    def progress(self, batches: int, but: str = "") -> None:
        """Until every region that is waited for, but one, has committed so many more; none may go back."""
        commits = self._kill_place.commits
        regions = [one for one in self._kill_place.waited_for if one != but]
        was = {one: commits(one) for one in regions}

        def is_there() -> bool:
            if not self.driver.is_alive():
                raise RuntimeError(f"the driver ended:\n{self.driver.text()[-3000:]}")
            now = {one: commits(one) for one in regions}
            self.went_back += [one for one in regions if now[one] < was[one]]
            return all(now[one] >= was[one] + batches for one in regions)

        when(is_there, 300.0, every_s=0.2, sign=self.moved)

    def fault(self, name: str) -> None:
        time.sleep(self._world.chance.random() * 2)
        self.counts[name] += 1
        self.faults[name]()

    def _driver(self) -> None:
        kill_driver(self.driver)
        self.driver = self.start()

    def _freeze(self) -> None:
        zombie = self.driver
        stop_driver(zombie)
        self.driver = self.start("force")
        try:
            self.progress(2)
            cont_driver(zombie)
            zombie.wait()
        finally:
            zombie.end()
        if FENCED not in zombie.text():
            self.unsaid.append(zombie.text()[-300:])

    def _executor(self) -> None:
        found = self._world.cluster.executors()
        if found:
            kill(self._world.chance.choice(found))

    def _worker(self) -> None:
        """A Python worker of any executor; the daemon that forks them is one, too."""
        found = [one for executor in self._world.cluster.executors() for one in executor.descendants()]
        python = [one for one in found if _is_python(one)]
        if python:
            self._world.chance.choice(python).send(signal.SIGKILL)

    def _pause(self) -> None:
        """The broker is frozen for longer than a request waits."""
        process = self._world.broker.process
        assert process is not None, "it runs"
        stop(process)
        time.sleep(self._world.chance.random() * 40)
        cont(process)

    def _term(self) -> None:
        self.end_by_term()
        self.driver = self.start()

    def end_by_term(self) -> None:
        self.driver.process.send(signal.SIGTERM)
        assert self.driver.wait() == 0, self.driver.text()[-3000:]

    def read_all(self) -> None:
        """A driver that reads what there is, and ends."""
        self.driver = self.start("now")
        assert self.driver.wait(300.0, sign=self.moved) == 0, self.driver.text()[-3000:]

    def told(self) -> str:
        """The counts of a RESULT line."""
        counts = " ".join(f"{name}={self.counts[name]}" for name in self.faults)
        return f"{counts} unsaid={len(self.unsaid)} went_back={len(self.went_back)}"


def schedule(shares: Mapping[str, int], kinds: list[str], kills: int, chance: random.Random) -> list[str]:
    """Each kind once, then all as often as their shares are, in any order."""
    rest = [name for name in kinds for _ in range(shares[name] - 1)]
    chance.shuffle(rest)
    return list(islice(chain(kinds, cycle(rest or kinds)), kills))


def _is_python(process: Process) -> bool:
    return "python" in Path((process.command() or [""])[0]).name
