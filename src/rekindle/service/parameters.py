"""Parameters of a run: what they may be, and the texts that stand for them in its key."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal

from rekindle.config import is_secret
from rekindle.errors import Notice, ParameterRefused

Parameter = str | int | float | bool | date | datetime | Decimal | None


def texts_of(parameters: Mapping[str, Parameter]) -> dict[str, str]:
    """As they stand in the run's key: equal for a date and its text, so that a shell can give it too."""
    return {name: _text(name, value) for name, value in parameters.items()}


def warn_of_secrets(names: Iterable[str]) -> None:
    """Say so where the name of a parameter looks like that of a secret. Nothing is refused: `token` may be a word of a
    text, too."""
    for name in names:
        if is_secret(name):
            told = (
                f"parameter {name} looks like a secret. Parameters are stored in plain text, and `rekindle runs` shows "
                "them. Pass the name under which a step finds the secret, not the secret"
            )
            warnings.warn(told, Notice, stacklevel=3)


def _text(name: str, value: Parameter) -> str:
    match value:
        case str():
            return value
        case date():
            return value.isoformat()
        case None | bool() | int() | float() | Decimal():
            return str(value)
        case _:
            raise ParameterRefused(
                f"{name} is a {type(value).__name__}, and cannot be part of the key of a run",
                hint="give text, a number, a date or a time, and make the rest of it in a step",
            )
