"""`make tables-kills`: drivers that publish into Delta tables die by kill -9 inside publication, with their JVM.

After each death the table must hold exactly the old rows or exactly the new ones, read by a reader that is not Delta;
when the next driver of the run has published, exactly the new ones, from exactly the files of each run. Then two
drivers publish at once, and one that was frozen inside a publication wakes up after a later run: the later run must be
there, once.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from support.delta import Rows, TableSeen, delta_settings
from support.drivers import Driver, cont_driver, kill_driver, start_driver, stop_driver
from support.signals import when
from table_kills.publisher import ANSWER, BEGUN, READY, Assignment

MODES = ("overwrite", "append", "partition")
FILES, ROWS, KEYS = 4, 8, 3
SECONDS_MAX = 600.0
SCRIPT = Path(__file__).with_name("publisher.py")


class Publisher:
    """A driver with a JVM of its own, which takes one assignment after the other."""

    def __init__(self, folder: Path, planted: str) -> None:
        self.folder, self.given = folder, 0
        folder.mkdir(parents=True)
        self.driver: Driver = start_driver(SCRIPT, str(folder), planted, folder=folder, settings=delta_settings())

    def wait_ready(self) -> None:
        when(lambda: (self.folder / READY).exists() or not self.driver.is_alive(), SECONDS_MAX, 0.05)
        assert self.driver.is_alive(), self.driver.text()[-3000:]

    def begin(self, what: Assignment) -> None:
        self.wait_ready()
        made = self.folder / "made"
        made.write_bytes(msgspec.json.encode(what))
        made.replace(self.folder / f"assignment-{self.given}")
        self.given += 1

    def wait_begun(self) -> None:
        self._wait(BEGUN)

    def answer(self) -> str:
        self._wait(ANSWER)
        return self._path(ANSWER).read_text()

    @property
    def has_answered(self) -> bool:
        return self._path(ANSWER).exists()

    def _path(self, word: str) -> Path:
        return self.folder / f"{word}-{self.given - 1}"

    def _wait(self, word: str) -> None:
        when(lambda: self._path(word).exists() or not self.driver.is_alive(), SECONDS_MAX, 0.002)
        assert self._path(word).exists(), self.driver.text()[-3000:]


@dataclass
class Campaign:
    """One table in one mode, and what it must hold."""

    folder: Path
    mode: str
    planted: str
    chance: random.Random
    order: int = 0
    held: dict[str, tuple[int, Rows]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    publishers: list[Publisher] = field(default_factory=list)

    @property
    def table(self) -> Path:
        return self.folder / self.mode / "table"

    def publisher(self) -> Publisher:
        made = Publisher(self.folder / self.mode / f"driver-{len(self.publishers)}", self.planted)
        self.publishers.append(made)
        return made

    def run(self, epoch: int = 1) -> tuple[Assignment, Rows]:
        """The next run: files that are committed, and their rows."""
        self.order += 1
        key, found, rows = f"day-{self.order % KEYS}", [], Rows()
        for number in range(FILES):
            ids = range(number * ROWS, (number + 1) * ROWS)
            columns = (list(ids), [self.order] * ROWS, [key] * ROWS)
            path = self.folder / self.mode / "results" / f"{self.order:05d}" / f"part-1_{number:05d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table(dict(zip(("id", "run", "day"), columns, strict=True))), path)
            found.append((f"file:{path}", path.stat().st_size))
            rows.update(zip(*columns, strict=True))
        return Assignment(
            table=str(self.table), mode=self.mode, key=key, order=self.order, epoch=epoch, files=tuple(found)
        ), rows

    def with_new(self, what: Assignment, rows: Rows) -> dict[str, tuple[int, Rows]]:
        stays = {} if self.mode == "overwrite" else self.held
        return {**stays, what.key: (what.order, rows)}

    def look(self, when_: str, *expected: dict[str, tuple[int, Rows]]) -> int:
        """Which of these the table holds; -1, and noted, if none of them."""
        seen = TableSeen.of(self.table)
        rows = seen.rows(self.table)
        per_run = Counter(int(name.split("-v")[1].split("-")[0]) for name in seen.files)
        for number, held in enumerate(expected):
            files = {order: FILES for order, _ in held.values()}
            if rows == sum((one for _, one in held.values()), Rows()) and per_run == Counter(files):
                return number
        self.wrong.append(f"{self.mode} {when_} run {self.order}: files of runs {dict(per_run)}, {rows.total()} rows")
        return -1

    def kills(self, rounds: int) -> None:
        """Random moments: of each publication as long as the last ones took."""
        current = self.publisher()
        for _ in range(rounds):
            what, rows = self.run()
            new = self.with_new(what, rows)
            current.begin(what)
            current.wait_begun()
            began = time.monotonic()
            time.sleep(self.chance.random() * self._usual())
            if current.has_answered:
                self.counts["too_late"] += 1
            else:
                kill_driver(current.driver)
                self.counts["killed"] += 1
                seen = self.look("after a kill", self.held, new)
                self.counts["old" if seen == 0 else "new" if seen == 1 else "mixed"] += 1
                current = self.publisher()
                current.wait_ready()
                began = time.monotonic()
                current.begin(msgspec.structs.replace(what, epoch=2))
            if "SinkDone" not in (answer := current.answer()):
                self.wrong.append(f"{self.mode} run {self.order}: {answer}")
            self.seconds.append(time.monotonic() - began)
            self.look("after the next driver", new)
            self.held = new
        current.driver.end()

    def _usual(self) -> float:
        """The first publication of a driver takes longest, so that some moments are too late."""
        return max(self.seconds[-4:], default=5.0)

    def at_once(self, rounds: int) -> None:
        """Two runs of one key, or two masters of one run: the later one is there, whoever came first."""
        pair = self.publisher(), self.publisher()
        for number in range(rounds):
            earlier, before = self.run()
            if number % 2:
                later, rows = msgspec.structs.replace(earlier, epoch=2), before
            else:
                later, rows = self.run()
                later = msgspec.structs.replace(later, key=earlier.key)
                rows = self._as_key(later, rows)
            if number % 3 == 0:
                pair = pair[1], pair[0]
            pair[0].wait_ready()
            pair[1].wait_ready()
            pair[0].begin(earlier)
            pair[1].begin(later)
            answers = [one.answer() for one in pair]
            self.counts["at_once"] += 1
            self.counts["fenced"] += sum("SinkFenced" in one for one in answers)
            if "SinkDone" not in answers[1] or not any(word in answers[0] for word in ("SinkDone", "SinkFenced")):
                self.wrong.append(f"{self.mode} at once: {answers}")
            self.held = self.with_new(later, rows)
            self.look("after two at once", self.held)
        for one in pair:
            one.driver.end()

    def _as_key(self, what: Assignment, rows: Rows) -> Rows:
        """The rows of a run with another key: its files are written again."""
        moved: Rows = Counter({(one, run, what.key): count for (one, run, _), count in rows.items()})
        for path, _ in what.files:
            place = path.removeprefix("file:")
            columns = pq.read_table(place).to_pydict()
            pq.write_table(pa.table({**columns, "day": [what.key] * ROWS}), place)
        return moved

    def zombies(self, rounds: int) -> None:
        """Frozen inside a publication, awake after a later run of its key."""
        for _ in range(rounds):
            zombie, other = self.publisher(), self.publisher()
            zombie.wait_ready()
            other.wait_ready()
            earlier, _ = self.run()
            zombie.begin(earlier)
            zombie.wait_begun()
            time.sleep(self.chance.random() * self._usual())
            stop_driver(zombie.driver)
            later, rows = self.run()
            later = msgspec.structs.replace(later, key=earlier.key)
            rows = self._as_key(later, rows)
            other.begin(later)
            if "SinkDone" not in (answer := other.answer()):
                self.wrong.append(f"{self.mode} beside a zombie: {answer}")
            self.held = self.with_new(later, rows)
            self.look("beside a zombie", self.held)
            cont_driver(zombie.driver)
            answer = zombie.answer()
            self.counts["zombies"] += 1
            self.counts["woken_fenced" if "SinkFenced" in answer else "woken_done"] += 1
            self.look("after a zombie woke up", self.held)
            for one in (zombie, other):
                one.driver.end()

    def end(self) -> None:
        for one in self.publishers:
            one.driver.end()


@contextmanager
def folder_for(kept: str) -> Iterator[Path]:
    if kept:
        Path(kept).mkdir(parents=True)
        yield Path(kept)
        return
    made = Path(tempfile.mkdtemp(prefix="table-kills-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tables-kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--at-once", type=int, default=20)
    parser.add_argument("--zombies", type=int, default=5)
    parser.add_argument("--only", choices=MODES, action="append")
    parser.add_argument("--seed", type=int, default=24)
    parser.add_argument("--keep", default="", help="a folder that stays, for a look at what was wrong")
    parser.add_argument("--planted", default="", choices=["", "no-fence"])
    asked = parser.parse_args()
    wrong = 0
    with folder_for(asked.keep) as folder:
        for mode in asked.only or MODES:
            began = time.monotonic()
            campaign = Campaign(folder, mode, asked.planted, random.Random(asked.seed))
            try:
                campaign.kills(asked.kills)
                campaign.at_once(asked.at_once)
                campaign.zombies(asked.zombies)
            finally:
                campaign.end()
            wrong += len(campaign.wrong)
            for line in campaign.wrong[:10]:
                print(line)
            counts = " ".join(f"{name}={count}" for name, count in sorted(campaign.counts.items()))
            print(
                f"RESULT tables_kills format=delta mode={mode} {counts} runs={campaign.order} "
                f"wrong={len(campaign.wrong)} minutes={(time.monotonic() - began) / 60:.1f}",
                flush=True,
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
