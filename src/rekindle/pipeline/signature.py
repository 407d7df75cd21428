"""A user's function, read: its name, where it stands, and what its parameters can be given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from traceback import walk_tb
from types import CodeType
from typing import Any

from rekindle.errors import GraphRefused
from rekindle.pipeline.declared import REQUIRED, SESSION, Argument, Binding
from rekindle.pipeline.did_you_mean import did_you_mean
from rekindle.pipeline.identity.packages import RUNS_STEPS, is_users_file, top_of

Inputs = Mapping[str, str] | Sequence[str]


def name_of(function: Callable[..., Any]) -> str:
    """The name a function was defined with; none for a lambda or an object that is called."""
    name = getattr(function, "__name__", "")
    return "" if name == "<lambda>" else name


def place_of(function: Callable[..., Any]) -> str:
    """`file.py:12`, without the folder: it is read by people and compared between machines."""
    code = _code_of(function)
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else "?"


def line_of(error: BaseException, function: Callable[..., Any]) -> str:
    """The line of the user's own code that an error came through last; that of the function if there is none."""
    found = place_of(function)
    for frame, line in walk_tb(error.__traceback__):
        path, home = frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))
        if is_users_file(path) and top_of(home) not in RUNS_STEPS:
            found = f"{Path(path).name}:{line}"
    return found


def arguments_of(function: Callable[..., Any], inputs: Inputs | None) -> tuple[Argument, ...]:
    """The parameters of a function. `inputs` names the steps that some of them are given: by the parameter's name, or
    in order, the last ones for `*args`. What it does not name is decided when all steps are known."""
    parameters = _parameters(function)
    bound = _bound(function, parameters, inputs)
    return tuple(one for parameter in parameters for one in _arguments(parameter, bound))


def _arguments(parameter: inspect.Parameter, bound: Mapping[str, list[str]]) -> Iterator[Argument]:
    name, steps = parameter.name, bound.get(parameter.name, [])
    is_keyword_only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    if steps or parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        yield from (Argument(name, Binding.INPUT, step, REQUIRED, is_keyword_only) for step in steps)
    elif name == SESSION:
        yield Argument(name, Binding.SESSION, "", REQUIRED, is_keyword_only)
    else:
        yield Argument(name, Binding.PARAMETER, "", parameter.default, is_keyword_only)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise GraphRefused(f"{function!r} is not a function with readable parameters: {error}") from error
    for one in found:
        if one.kind is inspect.Parameter.VAR_KEYWORD:
            raise GraphRefused(
                f"{place_of(function)}: **{one.name} is not allowed: the inputs of a step need names",
                hint="name each input and parameter of the function",
            )
    return found


def _bound(
    function: Callable[..., Any], parameters: Sequence[inspect.Parameter], inputs: Inputs | None
) -> dict[str, list[str]]:
    if inputs is None:
        return {}
    names = [one.name for one in parameters]
    if isinstance(inputs, Mapping):
        for name in inputs:
            if name not in names:
                raise GraphRefused(
                    f"{place_of(function)}: inputs= names {name}, which is not a parameter of the function",
                    hint=did_you_mean(name, names) or f"its parameters are {', '.join(names)}",
                )
        return {name: [step] for name, step in inputs.items()}
    return _in_order(function, parameters, [inputs] if isinstance(inputs, str) else list(inputs))


def _in_order(
    function: Callable[..., Any], parameters: Sequence[inspect.Parameter], steps: list[str]
) -> dict[str, list[str]]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [one.name for one in parameters if one.kind in kinds and one.name != SESSION]
    bound = {name: [step] for name, step in zip(names, steps, strict=False)}
    rest = steps[len(names) :]
    star = next((one.name for one in parameters if one.kind is inspect.Parameter.VAR_POSITIONAL), None)
    if rest and star is None:
        raise GraphRefused(
            f"{place_of(function)}: inputs= names {len(steps)} steps, but the function takes {len(names)}",
            hint=f"give it the parameters for {', '.join(rest)}, or *args",
        )
    return bound | ({star: rest} if star and rest else {})


def _code_of(function: Callable[..., Any]) -> CodeType | None:
    while isinstance(function, partial):
        function = function.func
    function = inspect.unwrap(function)
    found = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return found if isinstance(found, CodeType) else None
