"""`make stream-memory`: what a region that reads a memory result costs the source when it fails. Real broker.

- **recovery**: a reader fails, and goes on when its batches are still in memory. The broker's own counter of bytes that
  it sent of the topic may not move. Control: without a result the recovery reads the topic again.
- **capacity**: room for one batch. Exactly the batches that the reader lacks, and that are gone, are made again, and
  the step does not restart.
- **stateful**: the plan says that the result is caching, and why.
- **constant**: a value that differs for each query. After a new driver the batches are made again with other rows, and
  the reader gives up, because the other one has read the first ones; the plan said so.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from build_jar import JAR
from parts import kafka_jars
from stream_memory.memory_driver import CONSTANT, FRAGILE, FUSED, MADE, PLAIN, SIMPLE, STATEFUL
from support.drivers import Driver, kill_driver, start_driver
from support.kafka import KafkaBroker
from support.signals import when

# More than one poll of a consumer, whose records Spark would find in its own cache.
RECORDS, BATCHES = 3_000, 5
MUCH, LITTLE = str(256_000_000), "1"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.jars": ",".join(map(str, [JAR, *sorted(kafka_jars().iterdir())])),
    "spark.sql.shuffle.partitions": "2",
    "spark.scheduler.mode": "FAIR",
}


class MemoryTrial:
    """One driver after the other over one topic and one folder."""

    def __init__(self, folder: Path, broker: KafkaBroker, kind: str, memory_bytes: str = MUCH) -> None:
        self.folder, self._broker, self._kind, self._memory = folder, broker, kind, memory_bytes
        self.topic, self._sent, self._started = f"{folder.name}", 0, 0
        folder.mkdir(parents=True)
        self.bad = folder / "bad"
        broker.make_topic(self.topic)
        self.driver = self.start()

    def start(self) -> Driver:
        self._started += 1
        self.driver = start_driver(
            Path(__file__).with_name("memory_driver.py"),
            str(self.folder),
            self._broker.address,
            self.topic,
            self._kind,
            self._memory,
            folder=self.folder / f"driver-{self._started}",
            settings=SETTINGS,
            env={"PYSPARK_PYTHON": sys.executable},
        )
        return self.driver

    def send(self) -> None:
        """One more batch of records, which `plain` has read afterwards."""
        self._broker.send(self.topic, [str(one) for one in range(self._sent, self._sent + RECORDS)])
        self._sent += RECORDS
        self.wait(lambda: self.has_all(PLAIN))

    def wait(self, is_so: Callable[[], bool]) -> None:
        when(lambda: is_so() or not self.driver.is_alive(), 300.0, every_s=0.1, sign=self.driver.printed)
        if not self.driver.is_alive() and not is_so():
            raise RuntimeError(f"the driver ended:\n{self.driver.text()[-3000:]}")

    def rows(self, sink: str) -> Counter[int]:
        found = Counter[int]()
        for path in Path(self.folder / sink / "current").resolve().glob("*.parquet"):
            found.update(pq.read_table(path, columns=["id"]).column("id").to_pylist())
        return found

    def has_all(self, sink: str) -> bool:
        return self.rows(sink) == Counter(range(self._sent))

    def stopped(self) -> dict[str, dict[str, int]]:
        """What the driver told of its regions in the end."""
        halt = self.folder / "halt"
        halt.touch()
        self.driver.wait(300.0)
        halt.unlink()
        told = [line for line in self.driver.text().splitlines() if line.startswith("summary ")]
        return dict(json.loads(told[-1].removeprefix("summary "))) if told else {}

    def fails(self) -> None:
        self.bad.touch()

    def failed(self) -> None:
        self.wait((self.folder / "bad.seen").exists)

    def sent_bytes(self) -> int:
        return self._broker.bytes_out(self.topic)


def recovery(folder: Path, broker: KafkaBroker, kind: str) -> tuple[int, bool]:
    """Bytes of the topic that the broker sent while a reader recovered, and whether all is right."""
    trial = MemoryTrial(folder, broker, kind)
    try:
        trial.send()
        trial.wait(lambda: trial.has_all(FRAGILE))
        trial.fails()
        trial.send()
        trial.failed()
        before = trial.sent_bytes()
        # One attempt may have read before that: the second one after it has not.
        for _ in range(2):
            (folder / "bad.seen").unlink()
            trial.failed()
        trial.bad.unlink()
        trial.wait(lambda: trial.has_all(FRAGILE))
        moved = trial.sent_bytes() - before
        told = trial.stopped()
        is_alone = kind == FUSED or told[MADE] == {"replayed": 0, "restarts": 0}
        return moved, is_alone and told[PLAIN]["restarts"] == 0 and told[FRAGILE]["restarts"] > 0
    finally:
        trial.driver.end()


def capacity(folder: Path, broker: KafkaBroker) -> tuple[int, int, bool]:
    """How many batches were made again, how many the reader lacked that were gone, and whether all is right."""
    trial = MemoryTrial(folder, broker, SIMPLE, LITTLE)
    try:
        trial.send()
        trial.wait(lambda: trial.has_all(FRAGILE))
        trial.fails()
        for _ in range(BATCHES):
            trial.send()
        trial.failed()
        trial.bad.unlink()
        trial.wait(lambda: trial.has_all(FRAGILE))
        told = trial.stopped()
        again = {one.name for one in folder.glob(f"state/live/_streams/*/results/{MADE}/replays/{MADE}/*/*")}
        entries = {one.name for one in folder.glob(f"state/live/_streams/*/results/{MADE}/entries/{MADE}/*/*")}
        # All but those that it had read and the newest one.
        gone = {f"{one}.1" for one in sorted(map(int, entries))[:-1]} - {"0.1"}
        # The other reader may be behind for a moment, too.
        is_right = told[MADE] == {"replayed": len(again), "restarts": 0} and trial.has_all(PLAIN)
        return told[MADE]["replayed"], len(gone), is_right and again <= gone
    finally:
        trial.driver.end()


def stateful(folder: Path, broker: KafkaBroker) -> bool:
    trial = MemoryTrial(folder, broker, STATEFUL)
    try:
        trial.send()
        trial.wait(lambda: trial.has_all(FRAGILE))
        trial.stopped()
        return "its result is caching" in trial.driver.text() and "keeps state" in trial.driver.text()
    finally:
        trial.driver.end()


def constant(folder: Path, broker: KafkaBroker) -> bool:
    trial = MemoryTrial(folder, broker, CONSTANT)
    try:
        trial.fails()
        trial.send()
        trial.failed()
        text = trial.driver.text()
        kill_driver(trial.driver)
        trial.bad.unlink()
        trial.start()
        trial.wait(lambda: f"{FRAGILE} gave up" in trial.driver.text())
        trial.stopped()
        is_told = "it is not proved to have the same rows" in text
        return is_told and f"made again with other rows, and {PLAIN} has read it" in trial.driver.text()
    finally:
        trial.driver.end()


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream-memory")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="stream-memory-"))
    moved, control, is_right = 0, 0, True
    replayed = lacking = 0
    with KafkaBroker(counts=True) as broker:
        for number in range(asked.rounds):
            bytes_sent, holds = recovery(folder / f"recovery-{number}", broker, SIMPLE)
            moved, is_right = moved + bytes_sent, is_right and holds
            print(f"recovery {number}: {bytes_sent} bytes of the topic, right {holds}", flush=True)
            made, gone, holds = capacity(folder / f"capacity-{number}", broker)
            replayed, lacking, is_right = replayed + made, lacking + gone, is_right and holds and made <= gone
            print(f"capacity {number}: {made} batches made again of {gone} that were gone, right {holds}", flush=True)
        control, _ = recovery(folder / "control", broker, FUSED)
        is_caching, is_refused = stateful(folder / "stateful", broker), constant(folder / "constant", broker)
    shutil.rmtree(folder, ignore_errors=True)
    print(
        f"RESULT stream-memory rounds={asked.rounds} recovery_bytes={moved} control_bytes={control} "
        f"replayed={replayed} gone={lacking} right={is_right} stateful_told={is_caching} constant_told={is_refused} "
        f"minutes={(time.monotonic() - began) / 60:.1f}"
    )
    return 0 if is_right and not moved and control and is_caching and is_refused else 1


if __name__ == "__main__":
    sys.exit(main())
