"""Options of the commands that start or plan a run, as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from rekindle.cli import hidden
from rekindle.cli.next_command import corrected
from rekindle.cli.options import Settings
from rekindle.config import Config
from rekindle.errors import ConfigRefused
from rekindle.failover.restart import Strategy
from rekindle.service.options import RunOptions, as_settings_say
from rekindle.streams.source_starts import OFFSETS_WORD

Command = TypeVar("Command", bound=Callable[..., Any])
STRATEGY = "failover.strategy"
STRATEGIES = tuple(one.value for one in Strategy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the user says about this start beside the run's key. None of it is part of the key."""

    accept_change: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    force: bool = False
    without: tuple[str, ...] = ()
    republish: bool = False
    take_target: tuple[str, ...] = ()
    new_checkpoint: tuple[str, ...] = ()
    start_from: str = ""
    master: str = ""
    conf: tuple[tuple[str, str], ...] = ()
    strategy: str = ""


def options_of(config: Config, choices: Choices) -> RunOptions:
    """How a run is started or planned, from settings and flags."""
    return replace(
        as_settings_say(config),
        accept_change=choices.accept_change,
        replace=choices.replace,
        force=choices.force,
        without=choices.without,
        republish=choices.republish,
        take_target=choices.take_target,
        new_checkpoint=choices.new_checkpoint,
        start_from=choices.start_from,
        strategy=choices.strategy or None,
    )


def with_choices(command: Command) -> Command:
    """Add the options; the command gets `choices`, and its `settings` know the strategy."""

    @wraps(command)
    def call(
        *arguments: Any,
        settings: Settings,
        accept_change: tuple[str, ...],
        replace_: tuple[str, ...],
        force: bool,
        without: tuple[str, ...],
        republish: bool,
        take_target: tuple[str, ...],
        new_checkpoint: tuple[str, ...],
        from_: str | None,
        strategy: str | None,
        master: str | None,
        conf: tuple[str, ...],
        **others: Any,
    ) -> Any:
        choices = Choices(
            accept_change=accept_change,
            replace=replace_,
            force=force,
            without=without,
            republish=republish,
            take_target=take_target,
            new_checkpoint=new_checkpoint,
            start_from=_start(from_ or ""),
            master=master or "",
            conf=_conf(conf),
            strategy=strategy or settings.flags.get(STRATEGY, ""),
        )
        if strategy:
            settings = replace(settings, flags={**settings.flags, STRATEGY: strategy})
        return command(*arguments, settings=settings, choices=choices, **others)

    for decorate in reversed(_OPTIONS):
        call = decorate(call)
    return call  # type: ignore[return-value]


def with_spark(command: Command) -> Command:
    """Add --master and --conf alone; the command gets `choices`, in which nothing else is said."""

    @wraps(command)
    def call(*arguments: Any, master: str | None, conf: tuple[str, ...], **others: Any) -> Any:
        return command(*arguments, choices=Choices(master=master or "", conf=_conf(conf)), **others)

    for decorate in reversed(_SPARK_OPTIONS):
        call = decorate(call)
    return call  # type: ignore[return-value]


_SPARK_OPTIONS = (
    click.option("--master", metavar="URL", help="The Spark master, such as local[4] or spark://host:7077."),
    click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A Spark property for the session."),
)
_OPTIONS = (
    click.option(
        "--accept-change", multiple=True, metavar="STEP", help="Keep the committed results of STEP although it changed."
    ),
    click.option(
        "--replace",
        "replace_",
        multiple=True,
        metavar="STEP",
        help="Read the changed source of STEP again; of a stream, from its next batch on.",
    ),
    click.option(
        "--without",
        multiple=True,
        metavar="STEP[PARTITION]",
        help="Publish without a partition that failed. The target and the journal record the hole.",
    ),
    click.option(
        "--republish",
        is_flag=True,
        help="Publish sinks again whose inputs changed after they were published, all of them together.",
    ),
    click.option(
        "--take-target",
        multiple=True,
        metavar="SINK",
        help="Take over the target of SINK from runs of another location, which published into it before.",
    ),
    click.option(
        "--new-checkpoint",
        multiple=True,
        metavar="REGION",
        help="Of a stream: give REGION a new checkpoint, which adds to the rows in its target. Needs --from.",
    ),
    click.option(
        "--from",
        "from_",
        metavar="START",
        help="Where a new checkpoint begins to read: earliest reads all input again, latest leaves out what is there, "
        "a time (2026-01-31T06:00:00Z) what is older, offsets:FILE what Kafka has before the offsets in FILE.",
    ),
    click.option("--force", is_flag=True, help="Take the run over although its driver may still be alive."),
    click.option(
        "--strategy",
        type=click.Choice(STRATEGIES),
        help="Failover strategy: which vertices restart after a failure. Without it a resumed run keeps its own.",
    ),
    *_SPARK_OPTIONS,
)


def _start(given: str) -> str:
    """What is said; offsets are read from their file."""
    if not given.startswith(OFFSETS_WORD):
        return given
    path = Path(given.removeprefix(OFFSETS_WORD))
    try:
        return f"{OFFSETS_WORD}{path.read_text()}"
    except OSError as error:
        raise ConfigRefused(
            f"--from {given}: {error.strerror or error}", 'name a file with JSON such as {"topic": {"0": 42}}'
        ) from error


def _conf(given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(map(_property, given))


def _property(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not equals or not key:
        again = corrected("conf", given, f"{key or 'spark.sql.shuffle.partitions'}=64")
        raise ConfigRefused(f"--conf {key or '=…'} has no value", f"give it one, such as: {again}")
    hidden.refuse_hidden("--conf", key, value)
    hidden.remember(conf=[(key, value)])
    return key, value
