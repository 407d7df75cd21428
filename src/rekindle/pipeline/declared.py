"""What the user declared, as values: sources, steps and sinks, and what each parameter of their functions is given.

A parameter named like a step of the pipeline is an input. `spark` is the session. Every other one is a parameter of
the run, with the default that the function gives it. Which is which is known when all steps are: `check` decides it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rekindle.model.kinds import DigestPolicy, KeepUntil
from rekindle.publish.targets import Target

SESSION, SHARD = "spark", "shard"
REQUIRED: Any = inspect.Parameter.empty


class Role(Enum):
    """What a declared function is for."""

    SOURCE = "source"
    STEP = "step"
    SINK = "sink"


class Binding(Enum):
    """What a parameter of a user's function is given."""

    INPUT = "input"
    SESSION = "session"
    PARAMETER = "parameter of the run"
    SHARD = "shard"


@dataclass(frozen=True, slots=True)
class Shard:
    """One part of a stream. `number` counts from 0, and there are `of`."""

    number: int
    of: int


WHOLE = Shard(0, 1)


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter of a user's function, in the order of its signature. `step` is the input it is given."""

    name: str
    binding: Binding
    step: str = ""
    default: Any = REQUIRED
    is_keyword_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One source, step or sink. `declared_deterministic` is the user's word, None where they said nothing; so is
    `digest`, where the run's own counts, `replicas`, `is_reusable` (by runs of other parameters) and `is_pessimistic`
    (see `Step`); `place` is the line of their file, as `file.py:12`. Until the parameters of a run are known, `target`
    may name them in braces, or `choose_target` makes it (run_targets.py). `trigger` and `output_mode` are those of a
    sink whose rows are a stream, empty where nothing was said; `quarantine` is how many records it may leave out.
    `topic` has the rows of the result of a step that is a stream, where the user named one.
    `shards` is in how many parts a source is read that is a stream, 0 where nothing was said. A copy for one of them
    (shards.py) has its `shard`, and `shard_of` is the name of which it is a copy."""

    name: str
    role: Role
    function: Callable[..., Any]
    arguments: tuple[Argument, ...]
    place: str
    result: str = "auto"
    partitions: int | None = None
    keys: tuple[str, ...] = ()
    declared_deterministic: bool | None = None
    is_eager: bool = False
    keep: KeepUntil = KeepUntil.RUN_END
    is_reusable: bool = False
    is_pessimistic: bool | None = None
    target: Target | None = None
    choose_target: Callable[..., Target] | None = None
    digest: DigestPolicy | None = None
    replicas: int | None = None
    trigger: str = ""
    output_mode: str = ""
    quarantine: int = 0
    shards: int = 0
    topic: Target | None = None
    shard: Shard | None = None
    shard_of: str = ""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The steps it reads, each once."""
        return tuple(dict.fromkeys(one.step for one in self.arguments if one.binding is Binding.INPUT))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of the run that it asks for."""
        return tuple(one.name for one in self.arguments if one.binding is Binding.PARAMETER)

    @property
    def has_layout(self) -> bool:
        return bool(self.keys) or self.partitions is not None

    @property
    def destination(self) -> str:
        """Of a sink: what is published where, in words."""
        return f"{self.name} to {self.shown_target}" if self.target is not None else ""

    @property
    def shown_target(self) -> str:
        """Of a sink: where it is published, in words."""
        return self.target.shown if self.target is not None else "its target"

    def parameter_values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the run as this function sees them: what was given, else its own defaults."""
        asked = (one for one in self.arguments if one.binding is Binding.PARAMETER)
        return {one.name: given.get(one.name, one.default) for one in asked}

    def call(self, frames: Mapping[str, Any], session: Any, given: Mapping[str, Any]) -> Any:
        """Call the user's function with its inputs, the session and the run's parameters, each where it asks."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for one in self.arguments:
            match one.binding:
                case Binding.INPUT:
                    value = frames[one.step]
                case Binding.SESSION:
                    value = session
                case Binding.PARAMETER:
                    value = given.get(one.name, one.default)
                case Binding.SHARD:
                    value = self.shard or WHOLE
            if one.is_keyword_only:
                named[one.name] = value
            else:
                positional.append(value)
        return self.function(*positional, **named)
