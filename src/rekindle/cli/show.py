"""`rekindle show`: one run, as text, JSON or one page of HTML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from rekindle.cli.next_command import line_of
from rekindle.cli.open_run import open_run, open_stream
from rekindle.cli.options import Settings, run_argument, with_settings
from rekindle.cli.runs import parameters_text
from rekindle.cli.show_stream import show_stream
from rekindle.cli.text import Cell, Column, colored_phase, say, say_json, styled, table, width, wrapped
from rekindle.cli.typed import learn
from rekindle.observe.picture_page import page
from rekindle.observe.show import FailureView, HoleView, RestartView, RunView, StepView
from rekindle.observe.show_words import brief, clock, joined, to_json
from rekindle.observe.words import bytes_text, count_text, time_text
from rekindle.remedies import StartKind, StartRemedy

SHOWN = 10
STEPS = (
    Column("STEP"),
    Column("KEPT", is_right=True),
    Column("REUSED", is_right=True),
    Column("COMPUTED", is_right=True),
    Column("RESTARTED", is_right=True),
    Column("MISSING", is_right=True),
    Column("ROWS", is_right=True),
    Column("SIZE", is_right=True),
    Column("GENERATION", is_right=True),
    Column("ATTEMPTS", is_right=True),
    Column("FAILURES", is_right=True),
    Column("RESULT"),
    Column("NOW"),
)


@click.command("show")
@run_argument
@click.option("--json", "is_json", is_flag=True, help="Machine-readable.")
@click.option("--html", "html", metavar="FILE", help="Write one page that needs no network: graph, timeline, reasons.")
@with_settings
def command(settings: Settings, run: str | None, is_json: bool, html: str | None) -> None:
    """Show one run: its steps, attempts, failures and restarts, with the reasons.

    RUN is a number, a name, the beginning of a name, a pipeline, or pipeline/number; the newest if left out. ROWS and
    SIZE are those of the committed results, also of those that were deleted since.

    Of a stream: its regions, with the last batch that the checkpoint of each has committed, restarts and last failure.
    """
    stream = open_stream(settings, run)
    if stream is not None:
        show_stream(stream, is_json=is_json, html=html)
        return
    view = open_run(settings, run).view
    if html is not None:
        Path(html).write_text(page(view), encoding="utf-8")
        say([f"written: {html}"], err=True)
    if is_json:
        say_json(to_json(view))
    elif html is None:
        say(_lines(view, width()))


def _lines(view: RunView, wide: int | None) -> Iterator[str]:
    yield from _head(view, wide)
    yield ""
    yield from table(STEPS, [_step(step) for step in view.steps], wide)
    yield from _section("failures", [_failure(one) for one in view.failures], wide)
    yield from _section("left out", [_hole(one) for one in view.holes], wide)
    yield from _section("restarts", [_restart(one) for one in view.restarts], wide)
    yield from _section(
        "drivers", [f"{clock(one.at_ms)}  {one.epoch}: {one.owner}, {one.application}" for one in view.drivers], wide
    )
    if view.sinks:
        yield ""
        for sink in view.sinks:
            yield from wrapped(f"sink {sink.shown}: {sink}", wide)
    yield from _next(view, wide)


def _head(view: RunView, wide: int | None) -> Iterator[str]:
    phase = colored_phase(view.phase)
    name = f"run {view.order} of {view.pipeline}"
    yield f"{styled(name, bold=True)}  {styled(phase.text, phase.color)}"
    took = time_text(max(0, view.changed_ms - view.started_ms))
    told = [
        view.run,
        parameters_text(view.parameters),
        f"started {clock(view.started_ms)} UTC",
        f"last change after {took}",
    ]
    told += [f"strategy {view.strategy}", view.life]
    yield from wrapped(" · ".join(filter(None, told)), wide, "  ")
    if view.gave_up:
        yield from wrapped(f"gave up: {view.gave_up}", wide, "  ")


def _step(step: StepView) -> tuple[Cell | str, ...]:
    return (
        step.name,
        f"{step.committed:,}/{step.partitions:,}",
        f"{step.reused:,}",
        f"{step.computed:,}",
        f"{step.again:,}",
        f"{step.missing:,}",
        "" if step.rows is None else f"{step.rows:,}",
        "" if step.bytes is None else bytes_text(step.bytes),
        str(step.generation),
        str(step.attempts),
        str(step.failures),
        f"{step.kind}, {step.determinism}",
        _now(step),
    )


def _now(step: StepView) -> Cell:
    if step.poisoned:
        return Cell(f"{step.poisoned:,} poisoned", "red")
    if step.failed:
        return Cell(f"{step.failed:,} failed", "red")
    if step.running:
        return Cell(f"{step.running:,} running", "cyan")
    if step.missing:
        return Cell("waiting", "yellow")
    if step.left_out:
        return Cell(f"complete without {step.left_out:,}", "yellow")
    return Cell("complete, released" if step.released else "complete", "green")


def _section(title: str, lines: list[str], wide: int | None) -> Iterator[str]:
    """The newest few, oldest of them first."""
    if not lines:
        return
    yield ""
    more = f", the last {SHOWN} of {len(lines):,} (all of them: --json, --html)" if len(lines) > SHOWN else ""
    yield styled(title, bold=True) + more
    for line in lines[-SHOWN:]:
        yield from wrapped(line, wide, "    ", first="  ")


def _failure(one: FailureView) -> str:
    who = f"{one.step}[{brief(one.partitions)}]" if one.count else f"{one.step} (partition unknown)"
    text = f": {one.text}" if one.text else ""
    return f"{clock(one.at_ms)}  {who} {one.kind}{text}"


def _hole(one: HoleView) -> str:
    again = f"; {one.count - one.left:,} computed again since" if one.left < one.count else ""
    return f"{clock(one.at_ms)}  {one.step}[{brief(one.partitions)}] by {one.who}{again}"


def _restart(one: RestartView) -> str:
    return f"{clock(one.at_ms)}  {one.step}: {count_text(one.count, 'partition')}, {one.what} ({joined(one.because)})"


def _next(view: RunView, wide: int | None) -> Iterator[str]:
    """What is kept, and what to type: a command is not wrapped."""
    yield ""
    yield from wrapped(view.kept, wide)
    if view.is_resumable and view.phase != "running":
        learn(run=f"{view.pipeline}/{view.order}")
        yield f"next: {line_of(StartRemedy(kind=StartKind.RESUME))}"
