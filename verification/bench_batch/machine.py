"""The machine that measures: one real cluster on loopback, the data, and driver programs one after the other."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from bench_batch import data
from bench_batch.driver import Answer, Order
from parts import cache
from rekindle.local_cluster.cluster import LocalCluster, Size
from support.drivers import start_driver
from support.eventlog import EventLog, read_all

SIZE = Size(worker_cores=2, worker_memory_mb=4096, executor_cores=2, executor_memory_mb=3072, application_cores=2)
DRIVER_S_MAX = 1800.0


Told = tuple[Answer | None, EventLog]


@dataclass
class Machine:
    """What all measurements of one command share."""

    cluster: LocalCluster
    data: Path
    folder: Path
    is_profiled: bool
    settings: Mapping[str, str] = field(default_factory=dict)
    start_s: list[float] = field(default_factory=list)
    count: int = 0

    @property
    def files(self) -> int:
        return len(list((self.data / "orders").iterdir()))

    def drive(self, what: str, settings: Mapping[str, str] | None = None, **asked: object) -> Told:
        """One application with its order. Its answer, None if it was killed, and Spark's log of it."""
        self.count += 1
        folder = self.folder / f"{self.count:02d}-{what}"
        (folder / "work").mkdir(parents=True)
        order = Order(
            what,
            str(self.data),
            str(asked.pop("folder", folder / "work")),
            str(folder / "answer"),
            self.cluster.worker_pids,
            time.time(),
            is_profiled=self.is_profiled,
            **asked,  # type: ignore[arg-type]
        )
        (folder / "order").write_bytes(msgspec.json.encode(order))
        driver = start_driver(
            Path(__file__).with_name("driver.py"),
            str(folder / "order"),
            folder=folder,
            settings={**self.cluster.app_settings(folder / "events"), **self.settings, **(settings or {})},
            env=self.cluster.app_env,
        )
        try:
            code = driver.wait(DRIVER_S_MAX)
        finally:
            driver.end()
        if code not in (0, -signal.SIGKILL):
            raise RuntimeError(f"{what}: the driver ended with {code}:\n{driver.text()[-5000:]}")
        (log,) = read_all(folder / "events")
        return self._answer(folder), log

    def _answer(self, folder: Path) -> Answer | None:
        """The answer of a driver that lived to give one; what it wrote is removed, the next one needs the space."""
        path = folder / "answer"
        if not path.exists():
            return None
        answer = msgspec.json.decode(path.read_bytes(), type=Answer)
        self.start_s.append(answer.start_s)
        shutil.rmtree(folder / "work", ignore_errors=True)
        return answer


def arguments(name: str, rounds: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--gb", type=float, default=1.0, help="size of the input; less than 1 is for development only")
    parser.add_argument("--data", type=Path, default=cache() / "bench", help="where the input is made and kept")
    parser.add_argument("--rounds", type=int, default=rounds, help="interleaved pairs")
    parser.add_argument("--profile", action="store_true", help="also print where Rekindle's own driver time goes")
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    return parser


@contextmanager
def machine(asked: argparse.Namespace, settings: Mapping[str, str] | None = None) -> Iterator[Machine]:
    """A cluster and a folder for the time of one command."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    place = data.make(asked.data, asked.gb)
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    print(f"{data.size(place) / 1e9:.3f} GB of orders in {len(list((place / 'orders').iterdir()))} files", flush=True)
    try:
        with LocalCluster(workers=1, size=SIZE) as cluster:
            yield Machine(cluster, place, folder, asked.profile, settings or {})
    finally:
        if asked.keep:
            print(f"left in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
