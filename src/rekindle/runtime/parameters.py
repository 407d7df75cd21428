"""Parameters of a run: what they may be, and the texts that stand for them in its key."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal

from rekindle.errors import ParameterRefused

Parameter = str | int | float | bool | date | datetime | Decimal | None


def texts_of(parameters: Mapping[str, Parameter]) -> dict[str, str]:
    """As they stand in the run's key: equal for a date and its text, so that a shell can give it too."""
    return {name: _text(name, value) for name, value in parameters.items()}


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
