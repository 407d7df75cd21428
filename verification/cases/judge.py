"""Play one case and name its outcome, whatever it raises."""

from __future__ import annotations

import shutil
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

import rekindle
from cases.case import Case, Finding, Outcome
from cases.context import Context
from cases.tables import Tables
from rekindle.errors import RekindleError

SOURCE = Path(rekindle.__file__).parent


@dataclass(frozen=True, slots=True)
class Judged:
    """A case with what it came to and how long it took."""

    case: Case
    finding: Finding
    seconds: float

    @property
    def is_allowed(self) -> bool:
        return self.finding.outcome in self.case.allowed


def play(case: Case, spark: SparkSession, folder: Path, tables: Tables) -> Judged:
    """One case in a folder of its own, which is removed afterwards."""
    own = folder / f"case-{case.number}"
    started = time.monotonic()
    context = Context(spark, own, tables)
    try:
        with context.settings({}):
            finding = _finding(case, context)
    finally:
        spark.catalog.clearCache()
        shutil.rmtree(own, ignore_errors=True)
    return Judged(case, finding, time.monotonic() - started)


def _finding(case: Case, context: Context) -> Finding:
    try:
        return case.play(context)
    except RekindleError as error:
        outcome = Outcome.FAILED if context.has_started else Outcome.REFUSED
        return Finding(outcome, f"{error.code} {_first_sentence(error.message)}")
    except Exception as error:
        return Finding(Outcome.RAW, f"{type(error).__name__}: {_first_sentence(str(error))}{_where(error)}")


def _first_sentence(text: str) -> str:
    line = next((line for line in text.splitlines() if line.strip()), "")
    return line.split(". ")[0]


def _where(error: Exception) -> str:
    """The innermost line of Rekindle that the error passed, or nothing."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(str(SOURCE))]
    return f" (at {Path(ours[-1].filename).relative_to(SOURCE)}:{ours[-1].lineno})" if ours else ""
