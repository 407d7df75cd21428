"""`rk.each_partition`: a function of the user's takes the rows of each partition, for databases and the like.

Rules
- Nobody but the function knows what it wrote. So it is called at least once for each partition that has rows: again
  after a crash, or a failure, unless its end was noted.
- It is given a `key` that is the same whenever it is called for the same committed file of the same run: whoever keeps
  that key in the transaction of the rows writes them exactly once, and may say so for the plan.
- A partition whose file was lost is made again, and has another key then. So whoever writes exactly once also deletes,
  in that transaction, the rows of the same `batch` and `partition` with another key. Where it has no rows any more, the
  function is called without rows, for that delete.
- `batch` is the same for every run of the same parameters, and `run` counts runs: a corrected day deletes the rows of
  its batch with a lower run.
- What is noted lies below `path`: which run of which parameters was written last, and which of its partitions.
- A function is asked what it wants by the names of its parameters. One with a default, or bound by `functools.partial`,
  is the user's own unless it has a name that is known here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from rekindle.errors import Refused
from rekindle.publish.target import check_path, same_place, url

# What the functions may ask for, by name.
OF_BATCH = ("batch", "run")
OF_PARTITION = (*OF_BATCH, "partition", "key")
# What is noted of each run, below `path`.
NOTED = "noted"

Writer = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EachPartition:
    """A function that is called with the rows of each partition, and perhaps one before all of them and one after."""

    is_versioned: ClassVar[bool] = False
    by_parameters: ClassVar[tuple[str, ...]] = ("path",)
    is_written_once: ClassVar[bool] = False

    path: str
    write: Writer
    before: Writer | None = None
    after: Writer | None = None
    exactly_once: bool = False

    @property
    def shown(self) -> str:
        return f"{name_of(self.write)}() for each partition, noted in {self.path}"

    @property
    def seen(self) -> str:
        if self.exactly_once:
            return (
                "what the function writes, each row exactly once: its author says that it keeps the key with the rows"
            )
        return "what the function writes, each row at least once: after a crash it is called again with the same key"

    @property
    def spelling(self) -> str:
        return same_place(url(self.path))

    def __post_init__(self) -> None:
        check_path(self.path)
        asked_of_partition(self.write)
        for function in (self.before, self.after):
            if function is not None:
                asked_of_batch(function)


def each_partition(
    write: Writer,
    path: str,
    *,
    before: Writer | None = None,
    after: Writer | None = None,
    exactly_once: bool = False,
) -> EachPartition:
    """Call a function with the rows of each partition, on the executors.

    write                 `write(rows, key, partition, batch, run)`: it asks for what it needs by name after the rows.
                          Parameters with a default, or bound by `functools.partial`, may have other names
    path                  where it is noted what was written; a directory of its own
    before                `before(batch, run)`, called on the driver before the first partition. It is called again only
                          if it failed, or the driver died in it: never after a partition of the run may have begun
    after                 `after(batch, run)`, called on the driver after the last partition: at least once, again if
                          it failed or the driver died in it, or if a partition was lost and written again
    exactly_once          your word that `write`, in one transaction, keeps `key` with the rows, writes none if the key
                          is there, and deletes the rows of the same `batch` and `partition` with another key
    """
    return EachPartition(path=path, write=write, before=before, after=after, exactly_once=exactly_once)


def asked_of_partition(write: Writer) -> tuple[str, ...]:
    """What `write` wants to be told beside the rows, by name. Refuses what it cannot be given."""
    return asked_by_name(write, OF_PARTITION)


def asked_by_name(write: Writer, known: tuple[str, ...]) -> tuple[str, ...]:
    """Of these names those that a function asks for beside the rows, which come first."""
    parameters = _parameters(write)
    if not parameters or parameters[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise Refused(f"{name_of(write)} takes no rows", f"write def {name_of(write)}(rows, key): …")
    return tuple(_asked(write, parameters[1:], known))


def asked_of_batch(function: Writer) -> tuple[str, ...]:
    """What `before` or `after` wants to be told, by name. Refuses what it cannot be given."""
    return tuple(_asked(function, _parameters(function), OF_BATCH))


def given_to(function: Writer, values: dict[str, Any]) -> dict[str, Any]:
    """Of these values those that `before` or `after` asks for."""
    return {name: values[name] for name in asked_of_batch(function)}


def name_of(function: Writer) -> str:
    """As people call it, also where `functools.partial` stands around it."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _parameters(function: Writer) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise Refused(f"{function!r} has no parameters that can be read: {error}", "give a function") from error


def _asked(function: Writer, parameters: list[inspect.Parameter], known: tuple[str, ...]) -> Iterator[str]:
    bound = function.keywords if isinstance(function, partial) else {}
    for one in parameters:
        is_rest = one.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        is_named = one.name in known and one.kind is not inspect.Parameter.POSITIONAL_ONLY
        if is_rest or one.name in bound:
            continue
        if is_named:
            yield one.name
        elif one.default is inspect.Parameter.empty:
            raise Refused(
                f"{name_of(function)} asks for {one.name}, and may ask for {', '.join(known)}, by name",
                "take other values from the rows, from a closure, or from functools.partial",
            )
