"""A stage for campaigns: a cluster, a store, user code that can be edited, drivers, and Spark's own event logs.

Tasks are counted from Spark's event logs only, also from those of drivers that were killed; never from the journal.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from build_jar import JAR
from rekindle.local_cluster.cluster import LIGHT, LocalCluster
from rekindle.local_cluster.timeouts import bytes_below
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.storage.stores import open_store
from support.drivers import Driver, start_driver
from support.eventlog import EventLog, Kind, SparkTask, read_all
from support.s3 import S3Server
from support.signals import STALLED_S, when

WRITE = "Bridge.java"  # Where the write job is submitted: the name that Spark gives its final stage.
# These JVMs are killed before a better compiler, or a look at classes that Spark has shipped, pays off.
# Room for code: the usual 48 MB are full after some hundred queries, and are cleared again and again.
SHORT_LIVED = f"{LIGHT} -XX:ReservedCodeCacheSize=240m -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
Ask = TypeVar("Ask", bound=msgspec.Struct)
Said = TypeVar("Said", bound=msgspec.Struct)
Ask_contra = TypeVar("Ask_contra", contravariant=True)
Said_co = TypeVar("Said_co", covariant=True)


class Answered(Protocol):
    """An answer says how the run stands."""

    phase: str


def same(what: str, found: object, expected: object) -> None:
    """For cases: what was found is what must be."""
    if found != expected:
        raise AssertionError(f"{what}: {found}, expected {expected}")


@dataclass
class Place:
    """Where a run keeps its state and results: a folder, or a bucket. `folder` is where the bytes lie in the end."""

    name: str
    folder: Path
    location: str
    root: str
    options: dict[str, str]
    settings: dict[str, str]


def disk(folder: Path) -> Place:
    (folder / "lake").mkdir(parents=True, exist_ok=True)
    return Place("disk", folder / "lake", str(folder / "lake"), f"file:{folder}/lake", {}, {})


def cloud(s3: S3Server) -> Place:
    return Place(
        "s3",
        s3.folder / "objects" / s3.bucket / "lake",
        f"s3://{s3.bucket}/lake",
        s3.url("lake"),
        s3.store_settings,
        s3.spark_settings,
    )


@dataclass
class Ran:
    """The Spark tasks of one attempt's jobs, as the event log has them."""

    maps: int = 0
    finals: int = 0


@dataclass(frozen=True)
class Play(Generic[Ask, Said]):
    """What is acted: the driver's script, the user's code it loads, and what it is asked and says."""

    script: Path
    user_code: Path
    order: type[Ask]
    answer: type[Said]


@dataclass
class Stage(Generic[Ask, Said]):
    """One place to act on, with a folder of its own. Variables reach the user's code through the environment."""

    play: Play[Ask, Said]
    cluster: LocalCluster
    place: Place
    folder: Path
    input: Path
    test_jar: str
    drivers: list[Session[Ask, Said]] = field(default_factory=list)

    def session(self, name: str, **variables: str) -> Session[Ask, Said]:
        folder = self.folder / f"{name}-{len(self.drivers)}"
        folder.mkdir(parents=True)
        shutil.copy(self.play.user_code, folder / "user_code.py")
        output = f"{self.place.root}-out/{self.folder.name}"
        made = Session(self, folder, {"STAGE_CURE": str(self.folder / "cure"), "STAGE_OUTPUT": output, **variables})
        self.drivers.append(made)
        return made

    def listing(self, prefix: str) -> list[str]:
        """Everything stored below a prefix, as the store lists it."""
        store = open_store(self.place.location, self.place.options)
        found, todo = [], [prefix]
        while todo:
            folder = todo.pop()
            found += [f"{folder}{name}" for name in store.list_after(folder)]
            todo += [f"{folder}{name}/" for name in store.list_folders(folder)]
        return found

    def cure(self) -> None:
        (self.folder / "cure").touch()

    def uncure(self) -> None:
        (self.folder / "cure").unlink(missing_ok=True)

    def end(self) -> None:
        for driver in self.drivers:
            driver.end()


class Session(Generic[Ask, Said]):
    """One driver process, given orders and giving answers."""

    def __init__(self, stage: Stage[Ask, Said], folder: Path, variables: Mapping[str, str]) -> None:
        self._stage = stage
        self.folder = folder
        self.events = folder / "events"
        self._variables = variables
        self._driver: Driver | None = None
        self._asked = 0

    @property
    def user_code(self) -> Path:
        return self.folder / "user_code.py"

    @property
    def driver(self) -> Driver:
        assert self._driver is not None, "the driver was not started"
        return self._driver

    def start(self, settings: Mapping[str, str] | None = None) -> Session[Ask, Said]:
        place, cluster = self._stage.place, self._stage.cluster
        config = {
            "location": place.location,
            "root": place.root,
            "options": place.options,
            "user_code": str(self.user_code),
            "orders": str(self.folder / "orders"),
            "answers": str(self.folder / "answers"),
        }
        (self.folder / "config").write_bytes(msgspec.json.encode(config))
        base = {
            "spark.task.maxFailures": "2",
            "spark.jars": f"{JAR},{self._stage.test_jar}",
            "spark.network.timeout": "20s",
            "spark.network.timeoutInterval": "5s",
            "spark.storage.blockManagerHeartbeatTimeoutMs": "20s",
            "spark.executor.heartbeatInterval": "2s",
            "spark.sql.files.minPartitionNum": "8",
            "spark.executor.extraJavaOptions": SHORT_LIVED,
            # A Python worker that needs no Arrow starts in a tenth of the time, and many die here.
            "spark.sql.execution.pythonUDF.arrow.enabled": "false",
        }
        settings = {**cluster.app_settings(self.events), **base, **place.settings, **(settings or {})}
        settings["spark.driver.extraJavaOptions"] += f" {SHORT_LIVED}"
        given = {"STAGE_INPUT": self._stage.input.as_uri(), **self._variables}
        self._driver = start_driver(
            self._stage.play.script,
            str(self.folder / "config"),
            folder=self.folder,
            settings=settings,
            env={**cluster.app_env, **given},
        )
        return self

    def ask(self, order: Ask) -> int:
        """Hand over an order; its number is what `answer` takes."""
        with (self.folder / "orders").open("ab") as file:
            file.write(msgspec.json.encode(order) + b"\n")
        self._asked += 1
        return self._asked - 1

    def answers(self) -> list[Said]:
        path = self.folder / "answers"
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [msgspec.json.decode(line, type=self._stage.play.answer) for line in lines]

    def answer(self, number: int, timeout_s: float = STALLED_S) -> Said:
        self.until(lambda: len(self.answers()) > number, timeout_s)
        return self.answers()[number]

    def do(self, order: Ask, timeout_s: float = STALLED_S) -> Said:
        return self.answer(self.ask(order), timeout_s)

    def wait_for(self, text: str, timeout_s: float = STALLED_S, count: int = 1, or_answer: int | None = None) -> None:
        """Until its output says so, `count` times, or until an order is answered."""

        def is_said() -> bool:
            is_answered = or_answer is not None and len(self.answers()) > or_answer
            return is_answered or self.driver.text().count(text) >= count

        self.until(is_said, timeout_s)

    def wait(self, timeout_s: float = STALLED_S) -> int:
        """The exit code of the driver, once it ended by itself."""
        return self.driver.wait(timeout_s, self._sign)

    def _sign(self) -> tuple[int, int, int]:
        """It changes as long as the driver says something, one of its tasks starts or ends, or anything is stored. The
        size of the event log tells nothing: drivers are made to flush it all the time."""
        logs = (path for path in self.events.rglob("*") if path.is_file())
        tasks = sum(path.read_bytes().count(b'"SparkListenerTask') for path in logs)
        return self.driver.printed(), tasks, bytes_below(self._stage.place.folder)

    def until(self, predicate: Callable[[], object], timeout_s: float = STALLED_S) -> None:
        """Wait, and show what the driver said if it ends, or if nothing moves for too long."""

        def is_true() -> bool:
            was_alive = self.driver.is_alive()
            is_so = bool(predicate())
            if not is_so and not was_alive:
                raise RuntimeError(f"the driver ended:\n{self.driver.text()[-4000:]}")
            return is_so

        try:
            when(is_true, timeout_s, sign=self._sign)
        except TimeoutError:
            raise TimeoutError(f"nothing moved for {timeout_s} s:\n{self.driver.text()[-4000:]}") from None

    def log(self) -> EventLog:
        logs = read_all(self.events)
        assert len(logs) == 1, f"{len(logs)} applications in {self.events}"
        return logs[0]

    def end(self) -> None:
        if self._driver is not None and self._driver.is_alive():
            self._driver.end()


def attempt_tasks(log: EventLog, step: str, run: str = "") -> dict[str, Ran]:
    """Map and final tasks launched for each attempt of a step, by the attempt's tag; of one run, or of all."""
    found: dict[str, Ran] = {}
    for tag, tasks in tagged(log, f"rekindle-{step}-g", run).items():
        ran = found.setdefault(tag, Ran())
        ran.maps += sum(task.kind is Kind.MAP for task in tasks)
        ran.finals += sum(task.kind is Kind.RESULT for task in tasks)
    return found


def tagged(log: EventLog, prefix: str, run: str = "") -> dict[str, list[SparkTask]]:
    """The map and write tasks of all jobs with a tag that begins so, by tag without the run's name. A task without an
    end has its stage's kind. Result tasks of other jobs collect a broadcast or a subquery; they write nothing."""
    kinds = {s.id: s.kind for s in log.stages if s.kind is Kind.MAP or (s.kind and WRITE in s.name)}
    found: dict[str, list[SparkTask]] = {}
    for job in log.jobs:
        for tag in job.tags:
            if tag.startswith(prefix) and tag.endswith(run):
                tag = "-".join(tag.split("-")[:5])
                stages = set(job.stage_ids)
                tasks = (task for task in log.tasks if task.stage in stages and task.stage in kinds)
                found.setdefault(tag, []).extend(replace(task, kind=kinds.get(task.stage)) for task in tasks)
    return found


def opened(output: str) -> dict[str, list[int]]:
    """The partitions each attempt was asked for, by its tag, from what the driver printed: a pruned job counts its
    tasks from 0."""
    return {
        f"rekindle-{step}-g{generation}-{attempt}": list(partitions)
        for step, generation, attempt, partitions in _told("opened", output)
    }


def committed(output: str) -> dict[str, Partitions]:
    """What the driver's journal acknowledged, by step, from what it printed."""
    found: dict[str, Partitions] = {}
    for step, _, _, partitions in _told("committed", output):
        found[step] = found.get(step, EMPTY) | partitions
    return found


def _told(what: str, output: str) -> Iterator[tuple[str, str, str, Partitions]]:
    for match in re.finditer(rf"^{what} (\S+)/g(\d+)/(e\d+-a\d+) (\S+)$", output, re.MULTILINE):
        step, generation, attempt, partitions = match.groups()
        yield step, generation, attempt, Partitions.parse(partitions)


def total(ran: Iterable[Ran]) -> Ran:
    parts = list(ran)
    return Ran(sum(one.maps for one in parts), sum(one.finals for one in parts))


class Runner(Protocol[Ask_contra, Said_co]):
    """What a driver program does with an order."""

    def answer(self, order: Ask_contra) -> Said_co: ...


def serve(
    make: Callable[[str, str, dict[str, str], Path], Runner[Ask, Answered]],
    kind: type[Ask],
    label: Callable[[Ask], str],
) -> int:
    """The life of a driver program, from its configuration to its exit code: 5 if the last thing that happened to it
    was to be fenced. `make` is given location, root, store options and the user's code."""
    config: dict[str, Any] = msgspec.json.decode(Path(sys.argv[1]).read_bytes())
    runner = make(config["location"], config["root"], config["options"], Path(config["user_code"]))
    print("ready", flush=True)
    phase = ""
    with Path(config["answers"]).open("ab") as answers:
        for order in _orders(Path(config["orders"]), kind):
            print(f"order {label(order)}", flush=True)
            answer = runner.answer(order)
            phase = answer.phase
            print(f"answer {answer}", flush=True)
            answers.write(msgspec.json.encode(answer) + b"\n")
            answers.flush()
    return 5 if phase == "fenced" else 0


def _orders(path: Path, kind: type[Ask]) -> Iterator[Ask]:
    """Each line of a file that may still grow, until one says that it is the last."""
    done = 0
    while True:
        lines = path.read_text().splitlines() if path.exists() else []
        for line in lines[done:]:
            order = msgspec.json.decode(line, type=kind)
            done += 1
            yield order
            if getattr(order, "is_last", False):
                return
        time.sleep(0.1)
