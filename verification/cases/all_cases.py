"""The list of all cases, in the order of their numbers."""

from __future__ import annotations

import re

from cases import (
    case,
    code_changes,
    distribution,
    frames,
    hidden_inputs,
    more_order,
    order,
    processes,
    targets,
    two_drivers,
    types_and_names,
    verdicts,
)

MODULES = (
    order,
    targets,
    distribution,
    code_changes,
    frames,
    processes,
    two_drivers,
    verdicts,
    more_order,
    hidden_inputs,
    types_and_names,
)


def _place(number: str) -> tuple[int, str]:
    found = re.match(r"(\d+)(.*)", number)
    assert found is not None, f"a case's number begins with digits: {number}"
    return int(found[1]), found[2]


CASES = {number: case.CASES[number] for number in sorted(case.CASES, key=_place)}
