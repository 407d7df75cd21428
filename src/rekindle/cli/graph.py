"""`rekindle graph`: the graph of a run as text, SVG or HTML, with what became of each step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from rekindle.cli.next_command import line_of
from rekindle.cli.open_run import open_run
from rekindle.cli.options import Settings, run_argument, with_settings
from rekindle.cli.text import say, styled
from rekindle.cli.typed import learn
from rekindle.observe.picture_page import graph_page
from rekindle.observe.picture_svg import legend, svg, text
from rekindle.observe.show import RunView
from rekindle.remedies import CommandRemedy


@click.command("graph")
@run_argument
@click.option("--output", "-o", metavar="FILE", help="Write FILE.svg, or one page FILE.html, instead of text.")
@with_settings
def command(settings: Settings, run: str | None, output: str | None) -> None:
    """Draw the graph of a run: which partitions were reused, computed or failed.

    RUN is a number, a name, or a pipeline's name for its newest run. Only the journal is read.
    """
    view = open_run(settings, run).view
    if output is None:
        say(_lines(view))
        return
    if not output.endswith((".svg", ".html")):
        raise click.UsageError(f"{output} must end in .svg or .html")
    made = svg(view.picture()) if output.endswith(".svg") else graph_page(view)
    Path(output).write_text(made, encoding="utf-8")
    say([f"written: {output}"], err=True)


def _lines(view: RunView) -> Iterator[str]:
    yield styled(f"run {view.order} of {view.pipeline}, {view.phase}", bold=True)
    yield from text(view.picture())
    yield legend([share for step in view.steps for share in step.shares])
    if any(step.again for step in view.steps):
        learn(run=f"{view.pipeline}/{view.order}")
        yield f"* restarted at least once: {line_of(CommandRemedy('explain', vertex='STEP'))}"
