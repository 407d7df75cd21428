"""`rekindle run`: start a run, continue it, or say that it is done. A scheduler needs no other command."""

from __future__ import annotations

import sys

import click

from rekindle.cli.boundary import tell
from rekindle.cli.next_command import same
from rekindle.cli.options import Settings, pipeline_argument, with_parameters, with_settings
from rekindle.cli.run_options import Choices, with_choices
from rekindle.cli.run_session import LazySession
from rekindle.cli.run_start import Starting, ended, execute
from rekindle.cli.run_watch import watch_living
from rekindle.cli.supervise import CHILD_FLAG, DIED_CODE, NAME_OPTION, NOBODY, supervise, tell_begun
from rekindle.errors import SparkDied, StillOwned
from rekindle.remedies import TextRemedy


@click.command("run")
@with_settings
@with_parameters
@with_choices
@click.option("--new", is_flag=True, help="Start a new run although one with the same parameters exists.")
@click.option("--json", "as_lines", is_flag=True, help="Print what happens, as lines of JSON, and nothing else.")
@click.option(
    "--available-now", is_flag=True, help="Of a stream: end when all input that there is was read, as a batch does."
)
@click.option("--watch", is_flag=True, help="If another process is running it, watch it until it ends.")
@click.option(
    "--supervise", "supervised", is_flag=True, help="Restart the driver when it dies, with the configured backoff."
)
@click.option(CHILD_FLAG, "parent", type=int, default=NOBODY, hidden=True)
@click.option(NAME_OPTION, "name", default="", hidden=True)
@pipeline_argument
def command(
    *,
    pipeline: str,
    settings: Settings,
    parameters: dict[str, str],
    choices: Choices,
    new: bool,
    as_lines: bool,
    available_now: bool,
    watch: bool,
    supervised: bool,
    parent: int,
    name: str,
) -> int:
    """Run a pipeline, or resume its unfinished run with the same parameters.

    A run that is done is not repeated; --new starts another one. A run that another process is executing is refused,
    and the process is named; --watch follows it instead.

    A stream runs until it is stopped: SIGTERM ends each region after its batch. The next start goes on from there.
    """
    if supervised:
        return supervise(sys.argv[1:], settings.config())
    with LazySession(pipeline, choices) as session:
        loaded = session.load()
        starting = Starting(
            named=pipeline,
            loaded=loaded,
            session=session,
            settings=settings,
            config=settings.located(session.properties()),
            parameters=parameters,
            choices=choices,
        )
        try:
            summary = execute(
                starting,
                is_new=new,
                run=name,
                as_lines=as_lines,
                available_now=available_now,
                on_begun=lambda: tell_begun(parent),
            )
            return ended(summary)
        except StillOwned as error:
            if not watch:
                follow = TextRemedy(f"watch it until it ends: {same(watch=True, leaves=('force',))}")
                raise StillOwned(error.message, (follow, *error.remedies)) from error
            return watch_living(starting)
        except SparkDied as error:
            if parent == NOBODY:
                raise
            tell(error)
            return DIED_CODE
