"""`rekindle reproduce`: one partition again, here, so that its exception can be looked at."""

from __future__ import annotations

import click

from rekindle.cli.boundary import ExitCode, write_trace
from rekindle.cli.catalog import Named, find_run, newest_of
from rekindle.cli.next_command import same
from rekindle.cli.options import Settings, pipeline_argument, with_settings
from rekindle.cli.run_options import Choices, with_spark
from rekindle.cli.run_session import session_here
from rekindle.cli.text import say, styled
from rekindle.cli.typed import learn
from rekindle.engine.reproduced import ReproducedVertex
from rekindle.errors import NotFound
from rekindle.journal.keys import parameters_of
from rekindle.observe.words import count_text
from rekindle.remedies import CommandRemedy
from rekindle.service.options import RunOptions
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store

ROWS = 20
MORE = 50


@click.command("reproduce")
@with_settings
@with_spark
@click.option("--run", metavar="RUN", help="The run; default: the newest of the pipeline.")
@click.option("--batch", metavar="K", type=click.IntRange(0), help="Of a stream: the batch; default: the last one.")
@click.option("--rows", metavar="N", type=click.IntRange(0), default=ROWS, help=f"Rows to show; default: {ROWS}.")
@pipeline_argument
@click.argument("vertex", metavar="STEP[PARTITION]")
def command(
    *,
    pipeline: str,
    vertex: str,
    settings: Settings,
    choices: Choices,
    run: str | None,
    batch: int | None,
    rows: int,
) -> int:
    """Run one partition of a step again on this machine, and show its input and its exception or rows.

    Reproduce reads what the run committed, with a local Spark unless --master is given. It writes nothing and does not
    disturb the run: correct the code and repeat it as often as you like. Exit 1 if the step fails. For a failure that
    has no partition, name the step without a number: the Spark tasks that read the files in its message run.

    Of a stream, name a region: the batch that failed is read again as its checkpoint recorded it, in ever smaller
    parts, until the record that fails is named. Nothing is written to the target.
    """
    vertex = vertex if batch is None else f"{vertex}[{batch}]"
    with session_here(pipeline, choices) as session:
        loaded = session.load()
        config = settings.located(session.properties())
        store = open_store(config.location, config.storage)
        named = _named(store, loaded.pipeline.name, run)
        parameters = parameters_of(store, named.pipeline).get(named.run, {})
        learn(run=str(named.number), parameters=parameters)
        options = RunOptions(run=named.run, storage=config.storage)
        opened = loaded.pipeline.reproduce(session, config.location, vertex, options=options, **parameters)
        return _try(opened, named, rows)


def _named(store: Store, pipeline: str, word: str | None) -> Named:
    named = find_run(store, word if "/" in word else f"{pipeline}/{word}") if word else newest_of(store, pipeline)
    if named is None:
        raise NotFound(f"there is no run of {pipeline} at {store.name}", CommandRemedy("run", "start one"))
    if named.pipeline != pipeline:
        raise NotFound(f"run {named} is not a run of {pipeline}", "name the file of its pipeline")
    return named


def _try(opened: ReproducedVertex, named: Named, rows: int) -> int:
    say([f"{styled(opened.vertex, bold=True)} of run {named}"])
    for line in opened.said:
        say([f"  {line}"])
    for name, frame in opened.inputs.items():
        say([f"input {name}, first {count_text(rows, 'row')}:"])
        say([opened.show(frame, rows)])
    tried = opened.attempt(rows)
    if not tried.failure:
        say([f"{opened.vertex} does not fail here. It has {count_text(tried.count, 'row')}; the first {rows:,}:"])
        say([tried.table])
        return ExitCode.DONE
    say([f"{styled(f'{opened.vertex} fails:', 'red', bold=True)} {tried.failure}"])
    for line in tried.frames:
        say([line])
    if opened.inputs and rows:
        say([f"These are the first {count_text(rows, 'row')} of each input: the one that fails may be a later one."])
        say([f"To see more of them: {same(rows=rows * MORE)}"])
    say([f"full trace: {write_trace(tried.trace)}"])
    return ExitCode.FAILED
