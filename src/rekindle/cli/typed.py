"""What the user typed, and what a command learned about it on the way: the next command is made from both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click
from click.core import ParameterSource


@dataclass(frozen=True, slots=True)
class Typed:
    """One command as it was typed. `words` are its names (`results`, `release`), `values` what was given to each of its
    options and arguments that were typed. `run` and `parameters` are those of the run that it found, if it did."""

    words: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    run: str = ""
    parameters: Mapping[str, str] | None = None


_typed = Typed()


def begin(command: click.Command, arguments: Sequence[str]) -> None:
    """Before a command is called. What cannot be parsed is left out: the call itself says what is wrong with it."""
    global _typed
    words, rest = [], list(arguments)
    above: click.Context | None = None
    while rest and isinstance(command, click.Group):
        above = click.Context(command, parent=above, **command.context_settings)
        found = command.get_command(above, rest[0])
        if found is None:
            break
        command = found
        words.append(rest.pop(0))
    if isinstance(command, click.Group):
        _typed = Typed(tuple(words))
        return
    context = command.make_context(words[-1] if words else None, rest, parent=above, resilient_parsing=True)
    typed = {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE and value is not None
    }
    _typed = Typed(tuple(words), typed)


def learn(*, run: str = "", parameters: Mapping[str, str] | None = None) -> None:
    """Which run it is about: its number, and the parameters of its key."""
    global _typed
    _typed = replace(_typed, run=run or _typed.run, parameters=_typed.parameters if parameters is None else parameters)


def typed() -> Typed:
    return _typed
