"""Rekindle: fine-grained recovery for PySpark pipelines."""

from rekindle.api import Pipeline, RunOptions, RunSummary, StepSummary, read_newest
from rekindle.engine.constants import run_time, seed
from rekindle.engine.targets import directory, files, replace, table
from rekindle.errors import (
    Fenced,
    GraphRefused,
    Refused,
    RekindleError,
    RunFailed,
    StillOwned,
    StoreFailed,
)

__all__ = [
    "Fenced",
    "GraphRefused",
    "Pipeline",
    "Refused",
    "RekindleError",
    "RunFailed",
    "RunOptions",
    "RunSummary",
    "StepSummary",
    "StillOwned",
    "StoreFailed",
    "__version__",
    "directory",
    "files",
    "read_newest",
    "replace",
    "run_time",
    "seed",
    "table",
]

__version__ = "0.1.0"
