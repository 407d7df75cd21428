"""A check of `rekindle doctor`: one thing that was looked at, and what it came to."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class CheckStatus(Enum):
    """What a check came to; the value is the mark before its line."""

    FINE = "ok"
    WARNING = "warn"
    PROBLEM = "bad"


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    verdict: CheckStatus
    found: str
    next: str = ""
