"""The list of all cases, in the order of their numbers."""

from __future__ import annotations

import re

from cases import case, code_changes, distribution, frames, order, processes, targets, two_drivers, verdicts

MODULES = (order, targets, distribution, code_changes, frames, processes, two_drivers, verdicts)


def _place(number: str) -> tuple[int, str]:
    found = re.match(r"(\d+)(.*)", number)
    assert found is not None, f"a case's number begins with digits: {number}"
    return int(found[1]), found[2]


CASES = {number: case.CASES[number] for number in sorted(case.CASES, key=_place)}
