"""What a program of the corpus is.

`§` in a text or a helper is 1 before the change and 2 after it; a program without it has no change. Each defines
`step(df)`: `df` has the columns `id` and `x`. `part` begins the name of a part that must have changed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

CHANGE = "§"
IMPORTS = """
import collections, contextvars, ctypes, dataclasses, enum, functools, importlib, io, itertools, logging, operator, os
import random, sys, threading, types, typing, weakref
from pathlib import Path
from pyspark.sql import SparkSession, Window, functions as F
from pyspark.sql.functions import udf
from pyspark.sql.types import IntegerType, LongType, StringType
"""
ROWS = "def step(df): return df.withColumn('y', udf(row, IntegerType())('x'))"
GIVEN = "def step(df): return df.withColumn('y', f('x'))"


@dataclass(frozen=True, slots=True)
class Program:
    """`is_script`: the file is run and not imported, so that its functions are packed whole. `is_frame`: the frame is
    given by a script, and no function stands behind it."""

    name: str
    body: str
    part: str = ""
    helpers: Mapping[str, str] = field(default_factory=dict)
    is_script: bool = False
    is_frame: bool = False

    @property
    def has_change(self) -> bool:
        return any(CHANGE in text for text in self.files("1", is_raw=True).values())

    def files(self, value: str, *, is_raw: bool = False) -> dict[str, str]:
        texts = {f"prog_{self.name}.py": IMPORTS + textwrap.dedent(self.body), **self.helpers}
        return texts if is_raw else {name: text.replace(CHANGE, value) for name, text in texts.items()}


def rows(name: str, head: str, part: str = "", **more: object) -> Program:
    return Program(name, f"{textwrap.dedent(head)}\n{ROWS}\n", part, **more)  # type: ignore[arg-type]


def given(name: str, head: str, part: str = "", **more: object) -> Program:
    return Program(name, f"{textwrap.dedent(head)}\n{GIVEN}\n", part, **more)  # type: ignore[arg-type]


def step(name: str, returns: str, part: str, head: str = "", **more: object) -> Program:
    text = f"{textwrap.dedent(head)}\ndef step(df):\n    spark = df.sparkSession\n    return {returns}\n"
    return Program(name, text, part, **more)  # type: ignore[arg-type]
