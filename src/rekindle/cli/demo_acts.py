"""The acts of `rekindle demo`, one after the other, and the sentences between them."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rich.console import Console
from rich.markup import escape

from rekindle.cli.boundary import ExitCode
from rekindle.cli.demo_driver import HINT, StartedCommand, Terminal, wait_until
from rekindle.cli.demo_judge import RunReader, RunWork, compare
from rekindle.cli.demo_scene import (
    COMPARE_FILE,
    ORDERS,
    PARTITIONS,
    PIPELINE_FILE,
    PIPELINE_NAME,
    SLOW_STEP,
)
from rekindle.cli.text import printable
from rekindle.errors import RunFailed
from rekindle.local_cluster.cluster import LocalCluster
from rekindle.observe.words import time_text

WORKER_DIES_AT = PARTITIONS // 8
DRIVER_DIES_AT = PARTITIONS // 2
WORKER = 0


class DemoTerminal:
    """Says things on a terminal, in colours where there are any; plain lines elsewhere."""

    MARGIN: ClassVar[str] = "  | "

    def __init__(self, to: Console) -> None:
        self._to = to
        self._act = 0

    def opening(self, folder: Path) -> None:
        self.act("A pipeline and a cluster")
        self.says(f"{ORDERS:,} orders and a pipeline, {PIPELINE_FILE}, are now in {folder}.")
        self.says(
            f"Its step `{SLOW_STEP}` calls a slow Python function for each order. It has {PARTITIONS} partitions."
        )

    def closing(self, seconds: float, kept: Path | None) -> None:
        self._to.print()
        if kept is None:
            self.says(f"All of it took {seconds:.0f} s. All processes are stopped, and the folder is removed.")
        else:
            self.says(f"All of it took {seconds:.0f} s. All processes are stopped. The folder is kept:")
            self.typed(f"cd {kept}")
            self.typed("rekindle show")
            self.typed(f"rekindle explain '{SLOW_STEP}[7]'")

    def act(self, title: str) -> None:
        self._act += 1
        self._to.print(f"\n[bold]{self._act}. {escape(title)}[/bold]", soft_wrap=True)

    def says(self, sentence: str, style: str = "") -> None:
        self._to.print(escape(sentence), style=style, soft_wrap=True)

    def typed(self, line: str) -> None:
        self._to.print(f"[cyan]$ {escape(line)}[/cyan]", soft_wrap=True)

    def printed(self, line: str) -> None:
        self._to.print(f"[dim]{self.MARGIN}[/dim]{escape(printable(line))}", soft_wrap=True)


@dataclass(frozen=True, slots=True)
class DemoCast:
    """Who takes part."""

    cluster: LocalCluster
    terminal: Terminal
    witness: RunReader
    folder: Path
    teller: DemoTerminal

    def committed(self) -> int:
        return self.witness.committed(SLOW_STEP)


def play(on: DemoCast) -> bool:
    """All acts; whether the run was healed, as the last one judges."""
    master, *workers = [process.pid for process in on.cluster.processes]
    on.teller.says(
        f"A Spark cluster runs on this machine: master (process {master}) and two workers"
        f" (processes {workers[0]} and {workers[1]})."
    )
    driver = _begin(on)
    _lose_worker(on, driver)
    _lose_driver(on, driver)
    _resume(on)
    return _judge(on)


def _begin(on: DemoCast) -> StartedCommand:
    on.teller.act("The run starts")
    driver = on.terminal.types("run", PIPELINE_FILE)
    _until(on, driver, WORKER_DIES_AT, "the run began")
    return driver


def _lose_worker(on: DemoCast, driver: StartedCommand) -> None:
    on.teller.act("A worker dies")
    before, executors = on.committed(), on.cluster.executors(WORKER)
    pids = [on.cluster.worker_pids[WORKER], *(executor.pid for executor in executors)]
    on.teller.says(f"{before} of {PARTITIONS} partitions are committed. Kill the first worker and its executor:")
    on.teller.typed(f"kill -9 {' '.join(map(str, pids))}")
    on.cluster.kill_worker(WORKER)
    for executor in executors:
        executor.send(signal.SIGKILL)
    _until(on, driver, (before + DRIVER_DIES_AT) // 2, "it went on without its worker")
    on.teller.says(f"The run continues on the other worker: {on.committed()} of {PARTITIONS} are committed.", "green")


def _lose_driver(on: DemoCast, driver: StartedCommand) -> None:
    _until(on, driver, DRIVER_DIES_AT, "half of it was done")
    on.teller.act("The driver dies")
    pids = [process.pid for process in driver.processes()]
    on.teller.says("Kill the driver process and its JVM:")
    on.teller.typed(f"kill -9 {' '.join(map(str, pids))}")
    driver.kill()
    on.teller.says("Spark alone would start from scratch. This is what a new driver of Rekindle will do:")
    plan = on.terminal.types("plan", PIPELINE_FILE)
    _expect(plan.wait(), ExitCode.WORK, "plan")


def _resume(on: DemoCast) -> None:
    on.teller.act("Resume")
    _expect(on.terminal.types("resume", PIPELINE_FILE).wait(), ExitCode.DONE, "resume")


def _judge(on: DemoCast) -> bool:
    on.teller.act("Compare with plain Spark")
    on.teller.says("Plain Spark runs the same functions, without failures. Both results are compared row by row:")
    _expect(on.terminal.types_python(COMPARE_FILE).wait(), ExitCode.DONE, COMPARE_FILE)
    found, work = compare(on.folder), on.witness.work()
    if found.is_equal:
        on.teller.says(f"Equal: {found.rows:,} rows of {found.rows:,}.", "bold green")
    else:
        on.teller.says(f"NOT equal: {found.different:,} rows differ.", "bold red")
    on.teller.act("What was saved")
    is_less = work.drivers == 2 and 0 < work.computed_last < work.total
    on.teller.says(saved(work), "bold green" if is_less else "bold red")
    return found.is_equal and is_less


def saved(work: RunWork) -> str:
    """How much of the run was not computed again."""
    twice = f", {work.twice} of them for the second time" if work.twice else ", none of them for the second time"
    return (
        f"Of {work.total} result partitions the new driver reused {work.reused} and computed"
        f" {work.computed_last}{twice}. Spark alone would have computed {work.total}."
        f" What was reused had taken {time_text(work.saved_ms)}."
    )


def _until(on: DemoCast, driver: StartedCommand, committed: int, what: str) -> None:
    if not wait_until(lambda: on.committed() >= committed, driver):
        how = "printed and wrote nothing for minutes" if driver.is_alive() else "ended"
        raise RunFailed(f"the run of {PIPELINE_NAME} {how} before {what}", HINT, is_resumable=False)


def _expect(code: int, wanted: int, what: str) -> None:
    if code != wanted:
        raise RunFailed(f"`{what}` ended with {code} instead of {int(wanted)}", HINT, is_resumable=False)
