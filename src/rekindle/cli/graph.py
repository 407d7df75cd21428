"""`rekindle graph`: the graph of a run, with what became of each step, or of a pipeline, before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

import click

from rekindle.cli.boundary import ExitCode
from rekindle.cli.drill import drill
from rekindle.cli.next_command import line_of
from rekindle.cli.open_run import open_run, open_stream
from rekindle.cli.options import Settings, with_parameters, with_settings
from rekindle.cli.run_options import STRATEGIES, Choices, options_of, with_spark
from rekindle.cli.run_session import LazySession
from rekindle.cli.text import folded, say, styled, width
from rekindle.cli.typed import learn
from rekindle.errors import StreamFound
from rekindle.observe.picture_page import graph_page
from rekindle.observe.picture_svg import legend, svg, text
from rekindle.observe.pipeline_graph import PipelineGraph
from rekindle.observe.show import RunView
from rekindle.observe.stream_graph import StreamGraph
from rekindle.observe.stream_page import stream_page
from rekindle.observe.stream_picture import stream_picture
from rekindle.remedies import CommandRemedy
from rekindle.service import stream_looking

CODE = ".py"


@click.command("graph")
@click.argument("of", metavar="[RUN|PIPELINE]", required=False)
@click.option(
    "--if",
    "failure",
    metavar="STEP[PARTITION]",
    help="Of a pipeline: show what would run again after this failure. Also: executor, driver, storage.",
)
@click.option(
    "--execute",
    is_flag=True,
    help="With --if: cause this failure in a rehearsed run on a cluster of this machine, and compare with the plan.",
)
@click.option("--strategy", type=click.Choice(STRATEGIES), help="Of a pipeline: the failover strategy.")
@click.option("--output", "-o", metavar="FILE", help="Write FILE.svg, FILE.html or FILE.mmd (Mermaid) instead of text.")
@with_parameters
@with_spark
@with_settings
def command(
    *,
    settings: Settings,
    choices: Choices,
    parameters: dict[str, str],
    of: str | None,
    failure: str | None,
    execute: bool,
    strategy: str | None,
    output: str | None,
) -> int:
    """Draw a graph: of a run, with the partitions that were reused, computed or failed; or of a pipeline.

    RUN is a number, a name, or a pipeline's name for its newest run. Only the journal is read.

    PIPELINE is a file, such as daily.py, or module:name. A Spark session is started to analyse it; nothing is computed
    or written. With --execute the whole pipeline runs, on the data that its sources read: name small ones. Its sinks
    publish into a folder that is removed at the end.
    """
    if execute and not failure:
        raise click.UsageError("--execute causes a failure: name it with --if")
    if of is not None and _is_code(of):
        drawn, storage = _analysed(settings, replace(choices, strategy=strategy or ""), parameters, of)
        drawn = drawn.what_if(failure) if failure else drawn
        _show(output, lambda: _folded(drawn.lines()), {".svg": drawn.svg, ".html": drawn.html, ".mmd": drawn.mermaid})
        if not execute:
            return ExitCode.DONE
        if isinstance(drawn, StreamGraph):
            raise StreamFound(f"{drawn.pipeline} is a stream, and only a pipeline that ends is rehearsed")
        return drill(drawn, of, choices.conf, parameters, storage)
    if failure:
        raise click.UsageError("--if asks about a pipeline: name its file, such as daily.py")
    stream = open_stream(settings, of)
    if stream is not None:
        regions = stream_looking.view(stream)
        drawing = stream_picture(regions.regions)
        made = {".svg": lambda: svg(drawing), ".html": lambda: stream_page(regions)}
        _show(output, lambda: _folded(text(drawing)), made)
        return ExitCode.DONE
    view = open_run(settings, of).view
    _show(output, lambda: _lines(view), {".svg": lambda: svg(view.picture()), ".html": lambda: graph_page(view)})
    return ExitCode.DONE


def _is_code(given: str) -> bool:
    """No run is called so: a colon is in no name, and a file is meant by its ending."""
    return ":" in given or given.endswith(CODE)


def _analysed(
    settings: Settings, choices: Choices, parameters: dict[str, str], pipeline: str
) -> tuple[PipelineGraph | StreamGraph, Mapping[str, str]]:
    """The graph, and the options of storage that the settings have."""
    with LazySession(pipeline, choices) as session:
        loaded = session.load()
        config = settings.located(session.properties())
        options = options_of(config, choices)
        return loaded.pipeline.graph(session, config.location, options=options, **parameters), options.storage


def _show(output: str | None, lines: Callable[[], Iterator[str]], made: dict[str, Callable[[], str]]) -> None:
    if output is None:
        say(lines())
        return
    kind = Path(output).suffix
    if kind not in made:
        raise click.UsageError(f"{output} must end in {', '.join(made)}")
    Path(output).write_text(made[kind](), encoding="utf-8")
    say([f"written: {output}"], err=True)


def _lines(view: RunView) -> Iterator[str]:
    yield styled(f"run {view.order} of {view.pipeline}, {view.phase}", bold=True)
    yield from _folded(text(view.picture()))
    yield from _folded([legend([share for step in view.steps for share in step.shares])])
    if any(step.again for step in view.steps):
        learn(run=f"{view.pipeline}/{view.order}")
        yield f"* restarted at least once: {line_of(CommandRemedy('explain', vertex='STEP'))}"


def _folded(lines: Iterable[str]) -> Iterator[str]:
    wide = width()
    return chain.from_iterable(folded(line, wide) for line in lines)
