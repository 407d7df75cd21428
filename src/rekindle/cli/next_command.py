"""Remedies as commands that can be pasted into a shell.

- A command carries every option that the user typed and that it accepts: where the runs are, how to reach the store,
  settings, Spark's master and properties, parameters. The master of a run is not that of a command that looks at steps
  on this machine, and the other way round. What was said about one start alone (`--force`, `--replace`) goes
  along only where that start was refused, because then nothing came of it.
- A secret stands in it as a variable of the shell (`hidden.word_of`), and the shell refuses the command while that
  variable is not set. Which ones are not, `unset` tells.
- Where the user named no file of a pipeline, it says PIPELINE.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from rekindle.cli import hidden
from rekindle.cli.registry import COMMANDS
from rekindle.cli.typed import Typed, typed
from rekindle.remedies import CommandRemedy, Remedy, StartKind, StartRemedy, TextRemedy

PIPELINE = "PIPELINE"
PROGRAM = "rekindle"
# Said about where and how, not about one start.
LASTING = ("config", "set_", "storage", "location", "strategy", "take_target", "master", "conf", "param")
STRATEGY = "failover.strategy="
# Commands that start Spark here, to look at steps.
HERE = ("reproduce", "check", "verify")
# Commands that take the file of a pipeline; others take its name.
WITH_FILE = ("plan", "run", "resume", "reproduce", "check", "verify")
CHILD = "parent"
SUPERVISED = "supervised"

Values = Mapping[str, Any]


def lines_of(remedies: Sequence[Remedy]) -> Iterator[str]:
    """Each remedy in a line of its own."""
    yield from map(line_of, _others(remedies))


def line_of(remedy: Remedy) -> str:
    return "".join(map(_shown, _pieces(remedy)))


def unset(remedies: Sequence[Remedy]) -> list[str]:
    """The variables that the next commands name and that the environment does not have."""
    found = [piece for one in _others(remedies) for piece in _pieces(one) if isinstance(piece, hidden.Variable)]
    return list(dict.fromkeys(one.name for one in found if not one.is_set))


def _others(remedies: Sequence[Remedy]) -> Sequence[Remedy]:
    """Without the command that was typed just now, unless there is no other: `doctor` does not send to `doctor`."""
    here = " ".join(typed().words)
    return [
        one for one in remedies if not (isinstance(one, CommandRemedy) and one == CommandRemedy(here, one.to))
    ] or remedies


def _shown(piece: str | hidden.Variable) -> str:
    return piece if isinstance(piece, str) else piece.shown


def _pieces(remedy: Remedy) -> Iterator[str | hidden.Variable]:
    if isinstance(remedy, TextRemedy):
        yield remedy.text
        return
    if remedy.to:
        yield f"{remedy.to}: "
    words, first, then = _named(remedy) if isinstance(remedy, CommandRemedy) else _start(remedy)
    yield from _line(words, first, then)


def same(*, leaves: Sequence[str] = (), **more: Any) -> str:
    """The command that was typed, with these options beside the others, and without those in `leaves`. Options have the
    names of the command's own arguments."""
    now = typed()
    then = {name: value for name, value in now.values.items() if name not in (*leaves, *more)}
    return "".join(map(_shown, _line(now.words, more, then)))


def corrected(name: str, wrong: str, right: str) -> str:
    """The command that was typed, in which one value of an option is another one."""
    given = typed().values.get(name, ())
    return same(**{name: tuple(right if one == wrong else one for one in given)})


def _line(words: Sequence[str], first: Values, then: Values) -> Iterator[str | hidden.Variable]:
    if not words:
        yield "type the same command again"
        return
    yield " ".join((PROGRAM, *words))
    for word in _words(_command(words), first, then):
        yield " "
        yield from hidden.quoted(word)


def _named(remedy: CommandRemedy) -> tuple[tuple[str, ...], Values, Values]:
    """The names of the command, what is new in it, and what it has from the one that was typed."""
    now, words = typed(), tuple(remedy.command.split())
    about = {"run": remedy.run or _run(now), "vertex": remedy.vertex, "step": remedy.vertex, "pipeline": _file(now)}
    if words[0] not in WITH_FILE:
        del about["pipeline"]
    return words, {}, {**_lasting(now, words[0]), **about}


def _start(remedy: StartRemedy) -> tuple[tuple[str, ...], Values, Values]:
    now = typed()
    first: dict[str, Any] = {_OPTION.get(name, name): value for name, value in remedy.options.items()}
    first |= {"master": remedy.master, "config": remedy.config}
    first["conf"] = tuple(f"{name}={value}" for name, value in remedy.conf)
    kind = remedy.kind
    if kind is StartKind.RESUME and not _run(now) and now.words[:1] == ("run",):
        kind, carried = StartKind.AGAIN, {**_lasting(now, "run"), "pipeline": _file(now)}
    elif kind is StartKind.AGAIN:
        carried = dict(now.values)
    else:
        carried = {**_lasting(now, kind.value), "pipeline": _file(now), "run": _run(now)}
    match kind:
        case StartKind.NEW:
            words: tuple[str, ...] = ("run",)
        case StartKind.RESUME:
            words = ("resume",)
            carried.pop("strategy", None)
            carried["set_"] = tuple(one for one in carried.get("set_", ()) if not one.startswith(STRATEGY))
        case StartKind.AGAIN:
            words = ("run",) if now.words == ("plan",) else now.words
            if CHILD in now.values:
                carried[SUPERVISED] = True
    return words, first, _without(carried, remedy, first)


# Options that name steps, sinks and vertices.
LISTS = ("accept_change", "replace_", "without", "take_target", "new_checkpoint")
# Names of options in Python that are other ones in the command's own code.
_OPTION = {"replace": "replace_", "start_from": "from_"}


def _without(carried: dict[str, Any], remedy: StartRemedy, first: Values) -> Values:
    """What was typed, but for what must not be, and for what the remedy says instead."""
    kept = {name: value for name, value in carried.items() if name not in remedy.leaves}
    said = set(dict(remedy.conf))
    kept["conf"] = tuple(one for one in kept.get("conf", ()) if one.partition("=")[0] not in said)
    for name in LISTS:
        kept[name] = tuple(one for one in kept.get(name, ()) if one not in remedy.drops)
    for name, value in first.items():
        if isinstance(value, tuple):
            kept[name] = tuple(one for one in kept.get(name, ()) if one not in value)
        elif value:
            kept.pop(name, None)
    return kept


def _lasting(now: Typed, command: str) -> dict[str, Any]:
    """What was typed about where and how, for another command; the parameters are those of the run, if it was found."""
    found = {name: now.values[name] for name in LASTING if name in now.values}
    if (command in HERE) != any(word in HERE for word in now.words[:1]):
        found.pop("master", None)
    if now.parameters is not None:
        found["param"] = tuple(f"{name}={value}" for name, value in now.parameters.items())
    return found


def _file(now: Typed) -> str:
    named = now.values.get("pipeline") if now.words[:1] and now.words[0] in WITH_FILE else None
    return str(named or PIPELINE)


def _run(now: Typed) -> str:
    return now.run or str(now.values.get("run", ""))


def _command(words: Sequence[str]) -> click.Command:
    found = importlib.import_module(COMMANDS[words[0]].module).command
    for word in words[1:]:
        found = found.commands[word]
    assert isinstance(found, click.Command)
    return found


def _words(command: click.Command, first: Values, then: Values) -> Iterator[hidden.Word]:
    """Options that are new, those that were typed, and the arguments, as this command takes them."""
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    for name in first:
        yield from (word for option in options if option.name == name for word in _option(option, first[name]))
    for option in options:
        yield from _option(option, then.get(option.name or ""))
    for argument in command.params:
        if isinstance(argument, click.Argument):
            value = first.get(argument.name or "") or then.get(argument.name or "")
            yield from [(str(value),)] if value else []


def _option(option: click.Option, value: Any) -> Iterator[hidden.Word]:
    flag = next(one for one in option.opts if one.startswith("--"))
    if value is True:
        yield (flag,)
        return
    if value is None or value is False or value == "":
        return
    for one in value if isinstance(value, tuple) else (value,):
        yield (flag,)
        yield hidden.word_of(flag, str(one))
