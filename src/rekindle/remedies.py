"""What a user can do about an error, as values. Nothing below a face names a flag: a remedy says which options a start
needs, or which command shows more, and each face renders it once.

- Python, here: `start a new run: rk.RunOptions(new=True)`. That is the text of `error.hint`.
- The command line (`cli/next_command.py`): a whole command with everything that the user typed.

Several remedies stand in the order in which they are told; the text of a later one says how it belongs to those before
it: `or …`, `then …`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

SAME = "run the same again"
# Options that were said about one start alone. Who goes on with what came of it must not say them again.
ONCE = ("new", "force", "replace_", "new_checkpoint", "from_")


class StartKind(Enum):
    """Which run a start is about: a new one; the same as before, which was refused or can be tried again; or the one
    that stopped, which goes on."""

    NEW = "new"
    AGAIN = "again"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class TextRemedy:
    """Something that no command of Rekindle does."""

    text: str

    def in_python(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRemedy:
    """Start the pipeline, with these options beside those that were given. `to` is what it is for. `drops` are
    steps, sinks and vertices that were given and must not be again, `leaves` are options of which that is true.
    `conf` and `master` are for the Spark session, `config` is a settings file. `is_stream`: no script reads it again by
    itself."""

    to: str = ""
    kind: StartKind = StartKind.AGAIN
    accept_change: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    take_target: tuple[str, ...] = ()
    new_checkpoint: tuple[str, ...] = ()
    start_from: str = ""
    republish: bool = False
    force: bool = False
    drops: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    conf: tuple[tuple[str, str], ...] = ()
    master: str = ""
    config: str = ""
    is_stream: bool = False

    @property
    def options(self) -> dict[str, tuple[str, ...] | bool | str]:
        """The options that are asked for, by the names that they have in Python."""
        every: dict[str, tuple[str, ...] | bool | str] = {
            "new": self.kind is StartKind.NEW,
            "accept_change": self.accept_change,
            "replace": self.replace,
            "without": self.without,
            "take_target": self.take_target,
            "new_checkpoint": self.new_checkpoint,
            "start_from": self.start_from,
            "republish": self.republish,
            "force": self.force,
        }
        return {name: value for name, value in every.items() if value}

    def in_python(self) -> str:
        return _headed(self.to, ", ".join(self._in_python()) or SAME)

    def _in_python(self) -> Iterator[str]:
        given = {name: list(value) if isinstance(value, tuple) else value for name, value in self.options.items()}
        if given:
            yield f"rk.RunOptions({', '.join(f'{name}={value!r}' for name, value in given.items())})"
        elif self.drops:
            yield f"{SAME} without {' and '.join(self.drops)} in rk.RunOptions(…)"
        if self.replace and not self.is_stream:
            yield "or just start a script with rk.run(…) again"
        if self.master:
            yield f"SparkSession.builder.master({self.master!r})"
        for name, value in self.conf:
            yield f"SparkSession.builder.config({name!r}, {value!r})"
        if self.config:
            yield f"set REKINDLE_CONFIG={shlex.quote(self.config)}"


@dataclass(frozen=True, slots=True)
class CommandRemedy:
    """Another command, by its name: `show`, `runs`, `doctor`. `run` and `vertex` are what it is about."""

    command: str
    to: str = ""
    run: str = ""
    vertex: str = ""

    def in_python(self) -> str:
        if self.vertex:
            return _headed(self.to, f"pipeline.{self.command}(…, {self.vertex!r})")
        return _headed(self.to, f"`{' '.join(filter(None, ('rekindle', self.command, self.run)))}`")


Remedy = TextRemedy | StartRemedy | CommandRemedy
# What an error may be given: text, one remedy, or several.
Hint = str | Remedy | Sequence[Remedy]
# A face: what it makes of a remedy, in one line.
Say = Callable[[Remedy], str]


def new_run(to: str = "start a new run", *, conf: tuple[tuple[str, str], ...] = ()) -> StartRemedy:
    return StartRemedy(to=to, kind=StartKind.NEW, conf=conf)


# About a result that came too late: its target holds what a later run published.
OVERTAKEN = (TextRemedy("leave it if the later run is right"), new_run("or compute this one anew, over it"))


def remedies_of(hint: Hint) -> tuple[Remedy, ...]:
    match hint:
        case "":
            return ()
        case str():
            return (TextRemedy(hint),)
        case TextRemedy() | StartRemedy() | CommandRemedy():
            return (hint,)
        case _:
            return tuple(hint)


def in_python(remedy: Remedy) -> str:
    """As somebody reads it who wrote a script or a notebook."""
    return remedy.in_python()


def _headed(to: str, what: str) -> str:
    return f"{to}: {what}" if to else what
