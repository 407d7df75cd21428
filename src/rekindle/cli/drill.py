"""`rekindle graph PIPELINE --if … --execute`: the failure is caused, and what ran again is compared with the plan.

- All of it is real: a Spark cluster on loopback, drivers that are processes, kill -9, a task that raises.
- Nothing of the user's is touched but its sources, which are read: sinks publish below the folder of the drill.
- The moment is the one that the plan speaks of. Tasks are held by files (java/Drill) until the journal says that it is
  there, so that no machine is too slow for it.
- One task is held, and all others are done: what is planned is asked again for what was done at the moment.
- Executors outlive a killed driver by a few seconds, and finish tasks that count: the task is held until they are gone.
- Of an executor only what it held is lost, and nobody knows before what that is: less than planned may run.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from rekindle.cli.boundary import ExitCode
from rekindle.cli.demo_driver import GONE_SECONDS_MAX, StartedCommand, Terminal, wait_until
from rekindle.cli.demo_judge import RunReader
from rekindle.cli.drill_driver import DrillOrder, told_in
from rekindle.cli.own_cluster import SIZE, endings_as_interrupts, environment, refuse_what_is_missing, started
from rekindle.cli.plan import console
from rekindle.cli.text import say
from rekindle.errors import Refused, RunFailed
from rekindle.local_cluster.cluster import LocalCluster
from rekindle.local_cluster.processes import end, wait_gone
from rekindle.master.facts.events import AttemptOpened, Event
from rekindle.master.state.graph_index import GraphIndex
from rekindle.master.state.run_state import RunState
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.observe.pipeline_graph import PipelineGraph
from rekindle.observe.words import count_text

DRIVER_MODULE = "rekindle.cli.drill_driver"
DRILL = "spark.rekindle.drill"
MARGIN = "  | "
HINT = "rekindle doctor, then rekindle run, alone"

Sets = dict[str, Partitions]


@dataclass(frozen=True, slots=True)
class DrillState:
    """What counted and what had begun when the failure was caused, and how many events the journal had."""

    committed: Sets
    started: Sets
    events: int


def drill(
    asked: PipelineGraph,
    named: str,
    conf: tuple[tuple[str, str], ...],
    parameters: Mapping[str, str],
    storage: Mapping[str, str],
) -> int:
    """Cause the failure that `asked` was asked about. Exit 0 only if what was planned ran, and the rows are right."""
    _refuse_what_cannot_be(asked)
    refuse_what_is_missing("a drill")
    folder = Path(tempfile.mkdtemp(prefix="rekindle-drill-"))
    try:
        with endings_as_interrupts():
            cluster = LocalCluster(2, size=SIZE, folder=folder / "cluster")
            width = max(60, console().width - len(MARGIN))
            with (
                started(cluster, "a drill"),
                Terminal(
                    folder, environment(folder, cluster, width), _unsaid, _printed, current=Path.cwd(), hint=HINT
                ) as terminal,
            ):
                settings = {**dict(conf), **cluster.app_settings()}
                made = _Drill(
                    asked=asked,
                    named=named,
                    conf=settings,
                    parameters=dict(parameters),
                    storage=dict(storage),
                    folder=folder,
                )
                return made.play(cluster, terminal)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _refuse_what_cannot_be(asked: PipelineGraph) -> None:
    if not asked.failed and not asked.spec.sinks:
        raise Refused(
            f"--execute makes the {asked.failure} fail while a sink runs, and this pipeline has none",
            "ask for one partition, such as --if 'totals[0]'",
        )
    if asked.failure == "storage":
        raise Refused(
            "--execute cannot make the storage fail: it would be this machine's disk",
            "ask for driver, executor or one partition, such as --if 'totals[0]'",
        )
    for step, partitions in asked.failed.items():
        if len(partitions) > 1:
            raise Refused(
                f"--execute makes one partition fail, and {step} has {len(partitions)}", f"--if '{step}[0]' --execute"
            )


@dataclass(frozen=True, kw_only=True)
class _Drill:
    asked: PipelineGraph
    named: str
    conf: dict[str, str]
    parameters: dict[str, str]
    storage: dict[str, str]
    folder: Path

    def play(self, cluster: LocalCluster, terminal: Terminal) -> int:
        self._steering.mkdir()
        for step, partition in self._held():
            self._file("hold", step, partition).touch()
        say([f"{self.asked.failure} fails, on a cluster of this machine; sinks publish into a folder of the drill"])
        command = terminal.starts(DRIVER_MODULE, self._order("run.json"))
        if not wait_until(self._is_there, command):
            command.end()
            raise RunFailed("the drill: the run did not come to the moment of the failure", self._difference())
        moment = self._moment()
        command = self._fail(cluster, terminal, command)
        if command.wait():
            raise RunFailed("the drill: the run did not recover", "its error stands above", is_resumable=False)
        is_as_planned = self._tell_restarts(moment)
        return ExitCode.DONE if self._tell_rows(terminal) and is_as_planned else ExitCode.FAILED

    @cached_property
    def _steering(self) -> Path:
        return self.folder / "steering"

    @cached_property
    def _waited_for(self) -> frozenset[str]:
        """The steps that are complete when something around the tasks fails: what the held one is not needed for."""
        held = {step for step, _ in self._held()}
        upstream = GraphIndex(self.asked.spec.graph).upstream
        return frozenset(name for name, above in upstream.items() if not held & {name, *above})

    def _held(self) -> Iterator[tuple[str, int]]:
        """The one that fails, or, where something around it does, one of the sink behind the most steps: a held task
        keeps a core."""
        for step, partitions in self.asked.failed.items():
            yield step, next(iter(partitions))
        if not self.asked.failed:
            upstream = GraphIndex(self.asked.spec.graph).upstream
            yield max(self.asked.spec.sinks, key=lambda sink: len(upstream[sink])), 0

    def _file(self, what: str, step: str, partition: int) -> Path:
        return self._steering / f"{what}-{step}-{partition}"

    def _difference(self) -> str:
        state = self._run.state()
        found = state.spec.graph.difference(self.asked.spec.graph) if state is not None else ""
        if found:
            return f"it has another graph than this session: {found}. Give both the same settings: --conf KEY=VALUE"
        return "its error stands above; if there is none: rekindle run, alone"

    def _order(self, name: str, compared: str = "") -> Path:
        place, colon, attribute = self.named.partition(":")
        is_file = place.endswith(".py")
        usual = {DRILL: str(self._steering), **({"spark.task.maxFailures": "1"} if self.asked.failed else {})}
        order = DrillOrder(
            pipeline=f"{Path(place).absolute()}{colon}{attribute}" if is_file else self.named,
            parameters=self.parameters,
            location=str(self.folder / "store"),
            published=str(self.folder / "published"),
            strategy=self.asked.strategy.value,
            storage=self.storage,
            conf=tuple({**self.conf, **usual}.items()),
            compared=compared,
        )
        path = self.folder / name
        path.write_bytes(msgspec.json.encode(order))
        return path

    def _is_there(self) -> bool:
        """Whether the journal says that the moment is there, and tasks are held."""
        state = self._run.state()
        if state is None or not any(self._steering.glob("held-*")) or self._is_another(state):
            return False
        whole = state.layout.graph.whole
        is_last = all(state.steps[step].committed == whole[step] - Partitions((at,)) for step, at in self._held())
        return is_last and (bool(self.asked.failed) or all(map(state.is_complete, self._waited_for)))

    def _is_another(self, state: RunState) -> bool:
        return bool(state.spec.graph.difference(self.asked.spec.graph))

    @cached_property
    def _run(self) -> RunReader:
        return RunReader(self.folder / "store", self.asked.pipeline)

    def _events(self) -> list[Event]:
        return [event for record in self._run.records() for event in record.events]

    def _moment(self) -> DrillState:
        events, state = self._events(), self._run.state()
        assert state is not None, "the run of the drill has begun"
        committed = {name: step.committed for name, step in state.steps.items()}
        return DrillState(committed, {name: step.started for name, step in state.steps.items()}, len(events))

    def _fail(self, cluster: LocalCluster, terminal: Terminal, command: StartedCommand) -> StartedCommand:
        for step, failed in self.asked.failed.items():
            self._file("fail", step, next(iter(failed))).touch()
        if self.asked.failure == "executor":
            executor = cluster.executors()[0]
            executor.send(signal.SIGKILL)
            executor.wait_gone(GONE_SECONDS_MAX)
        if self.asked.failure == "driver":
            executors = cluster.executors()
            command.kill()
            wait_gone(executors, GONE_SECONDS_MAX)
            end(executors)
        for step, partition in self._held():
            self._file("hold", step, partition).unlink()
        return terminal.starts(DRIVER_MODULE, self._order("resume.json")) if self.asked.failure == "driver" else command

    def _tell_restarts(self, moment: DrillState) -> bool:
        """Of what was done by then, and what failed: what ran again, and whether that is what was planned."""
        restarts = self.asked.planned_at(moment.committed, moment.started)
        over = {step: at | self.asked.failed.get(step, EMPTY) for step, at in moment.committed.items()}
        planned = {step: restarts.partitions(step) & at for step, at in over.items()}
        ran: Sets = {}
        for event in self._events()[moment.events :]:
            if isinstance(event, AttemptOpened):
                step = event.attempt.step
                ran[step] = ran.get(step, EMPTY) | (event.partitions & over[step])
        say([f"planned to run again: {_shown(planned)}", f"ran again: {_shown(ran)}"])
        if self.asked.failure == "executor":
            return all(at <= planned[step] for step, at in ran.items())
        return {step: at for step, at in ran.items() if at} == {step: at for step, at in planned.items() if at}

    def _tell_rows(self, terminal: Terminal) -> bool:
        """Whether each sink has the rows of plain Spark."""
        if not self.asked.spec.sinks:
            say(["nothing is published: there are no rows to compare"])
            return True
        path = self.folder / "compared.json"
        terminal.starts(DRIVER_MODULE, self._order("compare.json", str(path))).wait()
        found = told_in(path)
        for sink, one in found.items():
            same = f"{one.different:,} differ from plain Spark" if one.different else "the rows of plain Spark"
            say([f"{sink}: {count_text(one.rows, 'row')}, {same}{self._doubts() if one.different else ''}"])
        if not found:
            say(["the rows could not be compared with plain Spark"])
        return bool(found) and not any(one.different for one in found.values())

    def _doubts(self) -> str:
        """Which steps may give other rows each time, so that a difference is no fault of the recovery."""
        steps = self.asked.spec.graph.steps
        found = [one.name for one in steps if not one.determinism.is_repeatable]
        return f"; not proved to be determinate: {', '.join(found)}" if found else ""


def _unsaid(line: str) -> None:
    """The orders of the drill are not for the user to type."""


def _shown(sets: Sets) -> str:
    return ", ".join(f"{step}[{at}]" for step, at in sets.items() if at) or "nothing that was done"


def _printed(line: str) -> None:
    say([MARGIN + line])
