"""Tail recovery as a decision table: what one found record means for whoever reads the journal.

| complete | checksum | chained | last | newer | verdict | because                               |
| -------- | -------- | ------- | ---- | ----- | ------- | ------------------------------------- |
| yes      | yes      | yes     | any  | no    | keep    | a fact                                |
| yes      | yes      | any     | any  | yes   | fenced  | a newer epoch than the reader's own   |
| yes      | yes      | no      | any  | no    | refuse  | a gap, foreign, or two writers        |
| yes      | no       | any     | any  | any   | refuse  | damaged after it was written          |
| no       | any      | any     | yes  | any   | cut     | torn: its writer never got an answer  |
| no       | any      | any     | no   | any   | refuse  | torn, and later facts stand on it     |

Complete: all bytes the header speaks of. Checksum: of the body. Chained: the expected number, `previous`
names the last kept record, and the epoch is the same or, opened by an owner, the next. Last: no record
stands on it. Newer: of a newer epoch than the reader's own; a reader without an epoch is never fenced. A
cut number is never used again: the next master writes behind it, so that no two of them can disagree about
deleting it.
"""

from __future__ import annotations

from enum import Enum
from itertools import product

import msgspec


class TailAction(Enum):
    """What to do with one record."""

    KEEP = "keep"
    CUT = "cut"
    REFUSE = "refuse"
    FENCED = "fenced"


class TailFacts(msgspec.Struct, frozen=True):
    """The five questions about one record."""

    complete: bool
    checksum: bool
    chained: bool
    last: bool
    newer: bool


class TailRule(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table. None means any."""

    complete: bool
    checksum: bool | None
    chained: bool | None
    last: bool | None
    newer: bool | None
    verdict: TailAction
    because: str

    def meets(self, seen: TailFacts) -> bool:
        return all(
            wanted is None or wanted == found
            for wanted, found in (
                (self.complete, seen.complete),
                (self.checksum, seen.checksum),
                (self.chained, seen.chained),
                (self.last, seen.last),
                (self.newer, seen.newer),
            )
        )


TABLE = (
    TailRule(
        complete=True,
        checksum=True,
        chained=True,
        last=None,
        newer=False,
        verdict=TailAction.KEEP,
        because="valid",
    ),
    TailRule(
        complete=True,
        checksum=True,
        chained=None,
        last=None,
        newer=True,
        verdict=TailAction.FENCED,
        because="a newer epoch took the number",
    ),
    TailRule(
        complete=True,
        checksum=True,
        chained=False,
        last=None,
        newer=False,
        verdict=TailAction.REFUSE,
        because="it does not follow the record before it",
    ),
    TailRule(
        complete=True,
        checksum=False,
        chained=None,
        last=None,
        newer=None,
        verdict=TailAction.REFUSE,
        because="it was damaged after it was written",
    ),
    TailRule(
        complete=False,
        checksum=None,
        chained=None,
        last=True,
        newer=None,
        verdict=TailAction.CUT,
        because="incomplete: its writer never got an answer",
    ),
    TailRule(
        complete=False,
        checksum=None,
        chained=None,
        last=False,
        newer=None,
        verdict=TailAction.REFUSE,
        because="it is incomplete, and later records depend on it",
    ),
)


def _only_row(seen: TailFacts) -> TailRule:
    (row,) = (row for row in TABLE if row.meets(seen))
    return row


_ROWS = {answers: _only_row(TailFacts(*answers)) for answers in product((False, True), repeat=5)}


def judge(seen: TailFacts) -> TailRule:
    """The one row that a record meets. The table is checked to be total and unambiguous when it is loaded."""
    return _ROWS[seen.complete, seen.checksum, seen.chained, seen.last, seen.newer]
