"""`rekindle plan`: what a start would do now, without doing it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rekindle.cli.boundary import ExitCode
from rekindle.cli.next_command import line_of
from rekindle.cli.options import Settings, pipeline_argument, with_parameters, with_settings
from rekindle.cli.run_options import Choices, options_of, with_choices
from rekindle.cli.run_session import LazySession
from rekindle.cli.text import folded, printable, say_json
from rekindle.config import columns, is_plain
from rekindle.errors import StreamFound
from rekindle.model.kinds import Determinism
from rekindle.observe.plan import Action, Plan, Stage
from rekindle.observe.stream_told import StreamPlan
from rekindle.observe.words import is_stale

COLORS = {Action.COMPUTE: "yellow", Action.REUSE: "green", Action.FUSED: "dim", Action.PUBLISH: "cyan"}
KEPT = (Action.COMPUTE, Action.REUSE)
WIDE = 100


@click.command("plan")
@with_settings
@with_parameters
@with_choices
@click.option("--new", is_flag=True, help="Plan a new run although one with the same parameters exists.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Show why each step is kept or fused, and its determinism level.")
@pipeline_argument
def command(
    *,
    pipeline: str,
    settings: Settings,
    parameters: dict[str, str],
    choices: Choices,
    new: bool,
    as_json: bool,
    verbose: bool,
) -> int:
    """Show what would run, what would be reused and why; exit 2 if there is work.

    Plan starts a Spark session to analyse the pipeline. It writes nothing and computes nothing.
    """
    with LazySession(pipeline, choices) as session:
        loaded = session.load()
        config = settings.located(session.properties())
        options = replace(options_of(config, choices), new=new, compare_done=True)
        try:
            plan = loaded.pipeline.plan(session, config.location, options=options, **parameters)
        except StreamFound:
            stream = loaded.pipeline.plan_stream(session, config.location, options=options, **parameters)
            return _told(stream, as_json=as_json)
    if as_json:
        say_json(plan.to_json())
    else:
        to = console()
        show(plan, to)
        for line in reasons(plan, is_verbose=verbose):
            tell(to, line, style="dim")
    if plan.has_work:
        return ExitCode.WORK
    return ExitCode.STALE if is_stale(plan.differs) else ExitCode.DONE


def _told(stream: StreamPlan, *, as_json: bool) -> ExitCode:
    """A stream has work as long as it is wanted."""
    if as_json:
        say_json(stream.to_json())
    else:
        to = console()
        for line in stream.lines(line_of):
            tell(to, line)
    return ExitCode.WORK


class _Patient(Console):
    """Goes quiet when nobody reads any more: a run does not end because a pipe did."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console(*, is_quiet: bool = False) -> Console:
    """Where people read; nothing, where only machines do."""
    return _Patient(highlight=False, no_color=is_plain(), width=columns(), quiet=is_quiet)


def tell(to: Console, line: str, style: str = "") -> None:
    """A sentence: wrapped at spaces on a terminal, as long as it is elsewhere."""
    parts = folded(printable(line), to.width if to.is_terminal else None)
    to.print("\n".join(parts), style=style, markup=False, soft_wrap=True)


def show(plan: Plan, to: Console) -> None:
    """The plan as a table between its headline and what follows from it."""
    tell(to, plan.headline, style="bold")
    if plan.has_work:
        to.print(_table(plan, is_wide=to.width >= WIDE))
    for line in plan.closing(line_of) if plan.has_work or plan.differs else ():
        tell(to, line)


def reasons(plan: Plan, *, is_verbose: bool) -> Iterator[str]:
    """Why each step is kept that is; `is_verbose` tells it of all steps, and what can be proved of them."""
    for stage in plan.stages:
        if is_verbose:
            yield f"  {stage.step}: {'; '.join(filter(None, (stage.note, stage.trust)))}"
        elif stage.action in KEPT and stage.note and plan.has_work:
            yield f"  {stage.step}: {stage.note}"


def _table(plan: Plan, *, is_wide: bool) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(ratio=1)
    if is_wide:
        table.add_column()
    for stage in plan.stages:
        table.add_row(*_cells(stage, is_wide=is_wide), style=COLORS.get(stage.action, ""))
    return table


def _cells(stage: Stage, *, is_wide: bool) -> tuple[str, ...]:
    cells: tuple[str, ...] = (stage.step, stage.action.value, stage.numbers)
    trust = stage.trust if stage.computed and stage.determinism is not Determinism.DETERMINATE else ""
    rest = (stage.reason, " · ".join(filter(None, (stage.stands, trust))))
    cells += rest if is_wide else (" · ".join(filter(None, rest)),)
    return tuple(escape(printable(cell)) for cell in cells)
