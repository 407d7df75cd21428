"""A case, how it may end, and the list of all of them.

Rules
- A case is one function. Its docstring is one sentence that says what the program does.
- The outcomes that a case may have are declared beside it. Any other outcome is a failure of the campaign.
- "refused" is one of our own errors before any attempt is in the journal; "failed" is one of them after that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cases.context import Context

DETAIL_CHARACTERS_MAX = 220


class Outcome(Enum):
    """How a case ended, compared with bare Spark on the uncut program."""

    EQUAL = "equal"
    REFUSED = "refused"
    LOST_WORK = "lost work"
    DIFFERENT = "different"
    FAILED = "failed"
    RAW = "raw"


Allowed = frozenset[Outcome]
EQUAL: Allowed = frozenset({Outcome.EQUAL})
EQUAL_OR_REFUSED: Allowed = frozenset({Outcome.EQUAL, Outcome.REFUSED})
EQUAL_OR_STOPPED: Allowed = frozenset({Outcome.EQUAL, Outcome.REFUSED, Outcome.FAILED})
REFUSED: Allowed = frozenset({Outcome.REFUSED})
# Bare Spark promises nothing here: the outcome is shown, and only an exception is a failure.
UNPROMISED: Allowed = frozenset({Outcome.EQUAL, Outcome.REFUSED, Outcome.DIFFERENT})


@dataclass(frozen=True, slots=True)
class Finding:
    """What a case came to, and the rows, the error or the counts that show it."""

    outcome: Outcome
    detail: str = ""

    def __post_init__(self) -> None:
        line = " ".join(self.detail.split())
        short = line if len(line) <= DETAIL_CHARACTERS_MAX else f"{line[: DETAIL_CHARACTERS_MAX - 2]} …"
        object.__setattr__(self, "detail", short)


Play = Callable[["Context"], Finding]


@dataclass(frozen=True, slots=True)
class Case:
    """One program. A quick one takes less than 5 s on a warm session, and runs in CI."""

    number: str
    sentence: str
    play: Play
    allowed: Allowed
    is_quick: bool


CASES: dict[str, Case] = {}


def add(number: str, sentence: str, play: Play, allowed: Allowed = EQUAL, *, is_quick: bool = True) -> None:
    """Put a case on the list, where its number must be free."""
    assert number not in CASES, f"two cases have the number {number}"
    CASES[number] = Case(number, " ".join(sentence.split()), play, allowed, is_quick)


def case(number: str, allowed: Allowed = EQUAL, *, is_quick: bool = True) -> Callable[[Play], Play]:
    """Declare a function as a case; its docstring is the sentence."""

    def declare(play: Play) -> Play:
        add(number, inspect.getdoc(play) or "", play, allowed, is_quick=is_quick)
        return play

    return declare
