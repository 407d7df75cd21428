"""Targets that depend on the parameters of the run: a brace in a path or a name stands for a parameter.

Rules
- `{day}` is the text of the parameter `day` as it stands in the key of the run, so that a date and its text give one
  target. `{day:%Y/%m}` is that date written in another way. `{{` and `}}` are braces of the name itself.
- A value may not hold a slash, a brace or a control character, nor be empty or only dots: what comes from outside does
  not lead to another directory.
- A target is complete before anything of the run is read or written. A brace that names no parameter is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from string import Formatter
from typing import Any, TypeVar, cast

from rekindle.errors import Refused
from rekindle.publish.targets import Target

AnyTarget = TypeVar("AnyTarget", bound=Target)
FORBIDDEN = re.compile(r"[/\\{}\x00-\x1f\x7f]")
LITERAL = "for a brace in the name itself write {{ and }}"


def names_of(target: Target) -> tuple[str, ...]:
    """The parameters that a target names, each once. Refuses braces that are no parameter."""
    return tuple(dict.fromkeys(name for text in _texts(target).values() for _, name, _ in _pieces(text) if name))


def filled(target: AnyTarget, values: Mapping[str, str]) -> AnyTarget:
    """The target of a run with these parameters, which are given as the texts of its key."""
    texts = {field: "".join(_written(text, values)) for field, text in _texts(target).items()}
    return replace(target, **cast(Any, texts)) if texts != _texts(target) else target


def has_braces(target: Target) -> bool:
    return any("{" in text or "}" in text for text in _texts(target).values())


def _texts(target: Target) -> dict[str, str]:
    found = {field: getattr(target, field) for field in target.by_parameters}
    return {field: text for field, text in found.items() if text is not None}


def _pieces(text: str) -> Iterator[tuple[str, str, str]]:
    """Plain text, the parameter after it and how it is written; no parameter at the end."""
    try:
        pieces = list(Formatter().parse(text))
    except ValueError as error:
        raise Refused(f"{text} has a brace without its counterpart: {error}", LITERAL) from None
    for before, name, spec, conversion in pieces:
        if name is not None and (not name.isidentifier() or conversion):
            told = f"{{{name}{f'!{conversion}' if conversion else ''}}}"
            raise Refused(f"{text}: {told} is not a parameter", f"write {{day}} for the parameter day; {LITERAL}")
        yield before, name or "", spec or ""


def _written(text: str, values: Mapping[str, str]) -> Iterator[str]:
    for before, name, spec in _pieces(text):
        yield before
        if name:
            yield _checked(text, name, values[name]) if not spec else _as_date(text, name, values[name], spec)


def _checked(text: str, name: str, value: str) -> str:
    if FORBIDDEN.search(value) or not value.strip(". "):
        raise Refused(
            f"{text}: the parameter {name} is {value!r}, which cannot be part of a target",
            "give a value without slashes and braces; or give a function: @pipeline.sink(lambda …: rk.files(…))",
        )
    return value


def _as_date(text: str, name: str, value: str, spec: str) -> str:
    try:
        return datetime.fromisoformat(value).strftime(spec)
    except ValueError:
        raise Refused(
            f"{text}: {{{name}:{spec}}} writes a date, and the parameter {name} is {value!r}",
            f"give {name} as a date such as 2026-11-01, or write {{{name}}}",
        ) from None
