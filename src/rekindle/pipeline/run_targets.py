"""The targets of one run: templates and functions of its parameters, complete before anything else happens.

Rules
- A brace, or a parameter of a target's function, is given what the steps are given under that name: the parameter of
  the run, else the one default that the steps have for it.
- A function gives a target without braces: one whose author forgot the f of `f"…"` would publish into a folder called
  `{day}`.
- The same parameters must give the same target. That cannot be proved of a function: a start of the same run with
  another target is refused by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from rekindle.errors import GraphRefused, Refused
from rekindle.pipeline.declared import REQUIRED, Binding, Declared
from rekindle.pipeline.signature import line_of, place_of
from rekindle.publish import templates
from rekindle.publish.targets import Target

TargetFunction = Callable[..., Target]
Texts = Callable[[Mapping[str, Any]], dict[str, str]]
SAY_SO = '@pipeline.sink(rk.table("gold.daily")), or rk.files(path), rk.directory(path)'


def is_target(given: object) -> bool:
    return isinstance(given, get_args(Target))


def asked_by(one: Declared) -> dict[str, Any]:
    """The parameters of the run that the target of a sink asks for, each with its default."""
    if one.choose_target is not None:
        return {name: parameter.default for name, parameter in _parameters(one.choose_target).items()}
    return dict.fromkeys(templates.names_of(one.target), REQUIRED) if one.target is not None else {}


def defaults(steps: Iterable[Declared], name: str) -> list[Any]:
    """The defaults that steps have for a parameter of the run, each once."""
    arguments = (argument for one in steps for argument in one.arguments)
    found = [one for one in arguments if (one.name, one.binding) == (name, Binding.PARAMETER)]
    return list(dict.fromkeys(one.default for one in found if one.default is not REQUIRED))


def completed(steps: Sequence[Declared], parameters: Mapping[str, Any], texts_of: Texts) -> tuple[Declared, ...]:
    """The steps of a run with these parameters, each sink with its target. `check` has passed."""
    asked = {name: default for one in steps for name, default in asked_by(one).items()}
    usual = {name: ([*defaults(steps, name), default])[0] for name, default in asked.items()}
    values = usual | {name: value for name, value in parameters.items() if name in asked}
    texts = texts_of(values)
    return tuple(_completed(one, values, texts) for one in steps)


def _completed(one: Declared, values: Mapping[str, Any], texts: Mapping[str, str]) -> Declared:
    try:
        if one.choose_target is not None:
            return replace(one, target=_chosen(one, one.choose_target, values), choose_target=None)
        return one if one.target is None else replace(one, target=templates.filled(one.target, texts))
    except GraphRefused:
        raise
    except Refused as error:
        raise GraphRefused(f"{one.place}: {one.name}: {error.message}", error.remedies) from None


def _chosen(one: Declared, choose: TargetFunction, values: Mapping[str, Any]) -> Target:
    try:
        target = choose(**{name: values[name] for name in _parameters(choose)})
    except Refused:
        raise
    except Exception as error:
        told = f"the target of {one.name} could not be made: {type(error).__name__}: {error}"
        raise GraphRefused(f"{line_of(error, choose)}: {told}", "correct the function of the target") from error
    if not is_target(target):
        told = f"the function of the target of {one.name} returned {target!r}, which is not a target"
        raise GraphRefused(f"{place_of(choose)}: {told}", SAY_SO)
    if templates.has_braces(target):
        told = f"the function of the target of {one.name} returned {target.shown}, with a brace in it"
        raise GraphRefused(f"{place_of(choose)}: {told}", 'fill it in the function: rk.files(f"…/day={day}")')
    return target


def _parameters(choose: TargetFunction) -> dict[str, inspect.Parameter]:
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = dict(inspect.signature(choose).parameters)
    if any(one.kind not in by_name for one in found.values()):
        raise GraphRefused(
            f"{place_of(choose)}: the function of a target has a parameter that cannot be given by name",
            "name each parameter of the run that the target depends on: @pipeline.sink(lambda day: rk.files(…))",
        )
    return found
