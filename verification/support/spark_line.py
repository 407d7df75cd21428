"""Tests of what not every Spark has: on an older one they are skipped, with that reason and no other one.

A test says what it needs by `needs`. One that is a row of SQL is told by its words: see `lacking_in`.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable

import pytest

LACKING = "this Spark has no "
# What a test may need, the release that has it first, and the words of SQL that tell of it.
SINCE: dict[str, tuple[tuple[int, int], str]] = {
    "checksums of map outputs": ((4, 1), ""),
    "data sources in Python": ((4, 0), ""),
    "collations": ((4, 0), r"(?i)collat"),
    "variants": ((4, 0), r"(?i)parse_json|variant"),
    "function of this name": (
        (4, 0),
        r"\b(?:zeroifnull|nullifzero|dayname|monthname|listagg|string_agg|randstr|uniform|try_url_decode|to_xml)\(",
    ),
    "newer function of this name": ((4, 1), r"\b(?:quote|make_time|to_time|current_time)\(|\btime'"),
    "calendar intervals in Python": ((4, 0), r"make_interval\(1\)\)"),
}
HERE = tuple(int(one) for one in importlib.metadata.version("pyspark").split(".")[:2])


def is_lacking(what: str) -> bool:
    return SINCE[what][0] > HERE


def needs(what: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(is_lacking(what), reason=f"{LACKING}{what}")


def lacking_in(texts: Iterable[str]) -> str:
    """What the SQL in these texts needs and this Spark lacks; empty if nothing."""
    text = "\n".join(texts)
    found = (what for what, (_, words) in SINCE.items() if words and is_lacking(what) and re.search(words, text))
    return next(found, "")
