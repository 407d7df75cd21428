"""Fingerprints of unchanged code in other processes, folders and environments: they must not differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from cases.case import Finding, Outcome, case
from cases.context import Context

PRINTED = (
    "import json, sys, step; from rekindle.pipeline.identity.fingerprint import parts; "
    "print(json.dumps(parts(step.priced)))"
)


def fingerprints(folder: Path, text: str, variables: Mapping[str, str]) -> dict[str, str]:
    """The parts of the fingerprint of `priced` in a file in that folder, found by a process of its own."""
    folder.mkdir(parents=True)
    (folder / "step.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", PRINTED],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def compared(context: Context, text: str, variables: Mapping[str, str]) -> Finding:
    one = fingerprints(context.folder / "here", text, {})
    other = fingerprints(context.folder / "there", text, variables)
    changed = sorted(part for part in one.keys() | other.keys() if one.get(part) != other.get(part))
    if changed:
        return Finding(Outcome.LOST_WORK, f"seen as changed: {', '.join(changed)}")
    return Finding(Outcome.EQUAL)


@case("26")
def environment_in_a_step(context: Context) -> Finding:
    """A step uses one variable of the environment, and another variable differs in the next process."""
    text = "from os import environ\ndef priced(orders): return orders.where(environ.get('CASE_DAY', '1'))\n"
    return compared(context, text, {"CASE_OTHER": "1"})


@case("27")
def folder_of_the_file(context: Context) -> Finding:
    """A step uses HERE = dirname(__file__), and the file is in another folder in the next process."""
    text = (
        "from os.path import dirname\nHERE = dirname(__file__)\n"
        "def priced(orders): return orders.sparkSession.read.parquet(HERE + '/orders')\n"
    )
    return compared(context, text, {})


@case("28")
def globals_of_a_process(context: Context) -> Finding:
    """A step uses a mappingproxy, a ContextVar and sys.stdout that are globals of its module."""
    text = (
        "import contextvars, sys, types\n"
        "RATES = types.MappingProxyType({'a': 1})\nDAY = contextvars.ContextVar('day', default=1)\nOUT = sys.stdout\n"
        "def priced(orders):\n    print(DAY.get(), file=OUT)\n    return orders.limit(RATES['a'])\n"
    )
    return compared(context, text, {})
