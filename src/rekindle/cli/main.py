"""The entry point: a group that knows its commands by name and loads one of them.

Nothing heavy is imported here: click, the settings and the error tree.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

import rekindle
from rekindle.cli.boundary import guarded
from rekindle.cli.registry import COMMANDS


class LazyGroup(click.Group):
    """Finds commands in the registry."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        found = importlib.import_module(entry.module).command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click does it, without loading the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.line) for name, entry in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed, 2 work to do or differences found, 3 refused, 4 failed but resumable, "
    "5 done before, but not with this code or input.",
)
@click.version_option(rekindle.__version__, prog_name="rekindle")
def group() -> None:
    """Fine-grained recovery for PySpark pipelines: re-run only what was lost."""


def main(arguments: Sequence[str] | None = None) -> None:
    """What the `rekindle` script calls."""
    sys.exit(guarded(group, sys.argv[1:] if arguments is None else arguments))
