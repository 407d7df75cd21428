"""`rekindle reproduce`: one partition again, here, so that its exception can be looked at."""

from __future__ import annotations

import click

from rekindle.cli.boundary import ExitCode, write_trace
from rekindle.cli.catalog import Named, find_run, newest_of
from rekindle.cli.options import Settings, pipeline_argument, with_settings
from rekindle.cli.run_options import Choices, with_spark
from rekindle.cli.run_session import session_here
from rekindle.cli.text import say, styled
from rekindle.cli.typed import learn
from rekindle.engine.reproduced import Reproduced
from rekindle.errors import NotFound
from rekindle.journal.keys import parameters_of
from rekindle.observe.words import count_text
from rekindle.remedies import CommandRemedy
from rekindle.service.options import RunOptions
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store

ROWS = 20


@click.command("reproduce")
@with_settings
@with_spark
@click.option("--run", metavar="RUN", help="Which run; the newest of the pipeline if left out.")
@click.option("--rows", metavar="N", type=click.IntRange(0), default=ROWS, help=f"How many rows to show; {ROWS}.")
@pipeline_argument
@click.argument("vertex", metavar="STEP[PARTITION]")
def command(
    pipeline: str,
    vertex: str,
    settings: Settings,
    choices: Choices,
    run: str | None,
    rows: int,
) -> int:
    """Run one partition of a step again, here: see its input, and its exception or its rows.

    Reads what the run committed, in a Spark of this machine unless --master says otherwise. Nothing is written, and the
    run does not notice: correct the code and try again as often as you like. Exit 1 if the step fails. A step without a
    number is for a failure that names no partition: the Spark tasks that read the files it names.
    """
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
        raise NotFound(f"run {named} is none of {pipeline}", "name the file of its pipeline")
    return named


def _try(opened: Reproduced, named: Named, rows: int) -> int:
    say([f"{styled(opened.vertex, bold=True)} of run {named}"])
    for line in opened.said:
        say([f"  {line}"])
    for name, frame in opened.inputs.items():
        say([f"input {name}, the first {count_text(rows, 'row')} at most:"])
        say([opened.show(frame, rows)])
    tried = opened.attempt(rows)
    if not tried.failure:
        say([f"{opened.vertex} does not fail here: {count_text(tried.count, 'row')}, the first {rows:,} at most:"])
        say([tried.table])
        return ExitCode.DONE
    say([f"{styled(f'{opened.vertex} fails:', 'red', bold=True)} {tried.failure}"])
    for line in tried.frames:
        say([line])
    say([f"full trace: {write_trace(tried.trace)}"])
    return ExitCode.FAILED
