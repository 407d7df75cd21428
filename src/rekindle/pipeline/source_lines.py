"""The line of the user's code in which something that Spark's plan names was written.

Spark does not carry it: a plan knows an operator or expression by its class, and PySpark notes lines for few of them.
So the source of the steps is searched for the word that makes it, whether it stands in Python or in the text of a
query. Where the word is not found, in a helper from elsewhere say, no line is told.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
# Spark's names that are not the word a user writes, without underscores and in small letters.
WRITTEN = {
    "average": ("avg", "mean"),
    "currentdate": ("currentdate", "curdate", "today"),
    "currenttimestamp": ("currenttimestamp", "now"),
    "deduplicate": ("dropduplicates",),
    "first": ("first", "firstvalue"),
    "flatmapgroupsinpandas": ("applyinpandas",),
    "globallimit": ("limit",),
    "last": ("last", "lastvalue"),
    "locallimit": ("limit",),
    "pythonudf": ("udf", "pandasudf", "arrowudf"),
    "sample": ("sample", "randomsplit", "sampleby", "tablesample"),
    "stddevsamp": ("stddev", "stddevsamp", "std"),
    "variancesamp": ("variance", "varsamp"),
}


def with_lines(doubts: Sequence[str], functions: Sequence[Callable[..., Any]]) -> tuple[str, ...]:
    """Each doubt, which begins with a name of Spark's, with the first line of these functions that has the word."""
    lines = [line for function in functions for line in _lines(function)]
    return tuple(_with_line(doubt, lines) for doubt in doubts)


def _with_line(doubt: str, lines: Sequence[tuple[str, frozenset[str]]]) -> str:
    name = doubt.split()[0].lower()
    wanted = WRITTEN.get(name, (name,))
    place = next((place for place, words in lines if not words.isdisjoint(wanted)), "")
    return f"{doubt} at {place}" if place else doubt


def _lines(function: Callable[..., Any]) -> Iterator[tuple[str, frozenset[str]]]:
    """File and line, and the words of it."""
    try:
        found, first = inspect.getsourcelines(function)
        file = Path(inspect.getsourcefile(function) or "").name
    except (OSError, TypeError):
        return
    for number, line in enumerate(found, first):
        yield f"{file}:{number}", frozenset(word.replace("_", "").lower() for word in WORD.findall(line))
