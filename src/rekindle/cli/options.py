"""Options that several commands share, as decorators. A command gets values, never raw text.

@click.command
@with_settings          # --location, --storage, --set, --config  ->  settings: Settings
@with_parameters        # --param day=2026-11-13                  ->  parameters: dict[str, str]
@pipeline_argument      # PIPELINE                                ->  pipeline: str, for `cli.load.load`
@run_argument           # [RUN]                                   ->  run: str | None, for `cli.catalog.find_run`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

import click

from rekindle.cli import hidden
from rekindle.cli.next_command import corrected, same
from rekindle.cli.text import say
from rekindle.config import STORAGE, Config, load_config
from rekindle.errors import ConfigRefused, ParameterRefused
from rekindle.remedies import TextRemedy

# Options of pairs, by the names that they have in the code of a command.
OPTIONS = {"--set": "set_", "--storage": "storage"}

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Settings:
    """What the flags say. `config` resolves it with everything below them; Spark's properties, where a session is
    there, come between the environment and the flags."""

    flags: Mapping[str, str] = field(default_factory=dict)
    file: str = ""

    def config(self, spark: Mapping[str, str] | None = None) -> Config:
        config = load_config(flags=self.flags, spark=spark, file=self.file)
        hidden.remember(config)
        return config

    def located(self, spark: Mapping[str, str] | None = None) -> Config:
        """The same, refused where no location is set. A file above the current folder is named: somebody may not know
        that it is there."""
        config = self.config(spark)
        if config.is_file_above:
            say([f"settings: {config.file}, found above the current folder"], err=True)
        if not config.location:
            raise ConfigRefused(
                "no location is set: Rekindle does not know where to store journals and results",
                (
                    TextRemedy(f"name it: {same(location='s3a://bucket/rekindle')}"),
                    TextRemedy("or write `location = …` into rekindle.toml"),
                ),
            )
        return config


def with_settings(command: Command) -> Command:
    """Add the options that find a location and every other setting; the command gets `settings`."""

    @wraps(command)
    def call(
        *arguments: Any,
        location: str | None,
        storage: tuple[str, ...],
        set_: tuple[str, ...],
        config: str | None,
        **others: Any,
    ) -> Any:
        flags = dict(_pairs("--set", set_))
        flags |= {STORAGE + name: value for name, value in _pairs("--storage", storage)}
        flags |= {"location": location} if location is not None else {}
        for key, value in flags.items():
            hidden.refuse_hidden("--storage" if key.startswith(STORAGE) else "--set", key.removeprefix(STORAGE), value)
        return command(*arguments, settings=Settings(flags, config or ""), **others)

    decorators = (
        click.option("--location", metavar="URL", help="Where runs store journals and results: a path or a URL."),
        click.option(
            "--storage",
            multiple=True,
            metavar="KEY=VALUE",
            help="An option of the storage client, such as endpoint or region.",
        ),
        click.option(
            "--set", "set_", multiple=True, metavar="KEY=VALUE", help="Any setting, such as backoff.kind=none."
        ),
        click.option("--config", metavar="FILE", help="The settings file, instead of the nearest rekindle.toml."),
    )
    return _decorated(call, decorators)  # type: ignore[return-value]


def with_parameters(command: Command) -> Command:
    """Add `--param`; the command gets `parameters`."""

    @wraps(command)
    def call(*arguments: Any, param: tuple[str, ...], **others: Any) -> Any:
        return command(*arguments, parameters=parameters_of(param), **others)

    option = click.option(
        "--param", "-p", multiple=True, metavar="NAME=VALUE", help="A parameter of the run, such as day=2026-11-13."
    )
    return _decorated(call, (option,))  # type: ignore[return-value]


def pipeline_argument(command: Command) -> Command:
    return click.argument("pipeline", metavar="PIPELINE")(command)


def run_argument(command: Command) -> Command:
    return click.argument("run", metavar="[RUN]", required=False)(command)


def parameters_of(given: Iterable[str]) -> dict[str, str]:
    """`day=2026-11-13` as a parameter. One that is given twice is refused: nobody knows which was meant."""
    found: dict[str, str] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            hint = f"name it, such as: {corrected('param', item, 'day=2026-11-13')}"
            raise ParameterRefused(f"--param {item} has no name or no value", hint)
        if name in found:
            again = same(param=tuple(f"{name}={found[name]}" for name in found))
            raise ParameterRefused(f"--param {name} is given twice", f"give it once, such as: {again}")
        found[name] = value
    return found


def _pairs(option: str, given: Iterable[str]) -> Iterable[tuple[str, str]]:
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            again = corrected(OPTIONS[option], item, f"{name or 'KEY'}=VALUE")
            raise ConfigRefused(f"{option} {name} has no value", f"give it one: {again}")
        yield name, value


def _decorated(call: Callable[..., Any], decorators: Iterable[Callable[..., Any]]) -> Callable[..., Any]:
    for decorate in reversed(tuple(decorators)):
        call = decorate(call)
    return call
