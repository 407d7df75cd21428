"""Rekindle: fine-grained recovery for PySpark pipelines.

A name is loaded when it is asked for: the command line must not wait a quarter of a second for what it does not use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rekindle.api import (
        Pipeline,
        Plan,
        RunOptions,
        RunSummary,
        StepSummary,
        StreamPlan,
        StreamSummary,
        previous,
        read_kafka,
        read_newest,
        read_result,
    )
    from rekindle.errors import (
        Fenced,
        GraphRefused,
        Refused,
        RekindleError,
        RunFailed,
        StillOwned,
        StoreFailed,
    )
    from rekindle.onramp import run
    from rekindle.pipeline.constants import run_time, seed
    from rekindle.pipeline.declared import Shard
    from rekindle.publish.targets import (
        delta,
        directory,
        each_batch,
        each_partition,
        files,
        iceberg,
        kafka,
        replace,
        table,
    )

__all__ = [
    "Fenced",
    "GraphRefused",
    "Pipeline",
    "Plan",
    "Refused",
    "RekindleError",
    "RunFailed",
    "RunOptions",
    "RunSummary",
    "Shard",
    "StepSummary",
    "StillOwned",
    "StoreFailed",
    "StreamPlan",
    "StreamSummary",
    "__version__",
    "delta",
    "directory",
    "each_batch",
    "each_partition",
    "files",
    "iceberg",
    "kafka",
    "previous",
    "read_kafka",
    "read_newest",
    "read_result",
    "replace",
    "run",
    "run_time",
    "seed",
    "table",
]

__version__ = "0.1.0"

_HOMES = {
    "api": (
        "Pipeline",
        "Plan",
        "RunOptions",
        "RunSummary",
        "StepSummary",
        "StreamPlan",
        "StreamSummary",
        "previous",
        "read_kafka",
        "read_newest",
        "read_result",
    ),
    "pipeline.constants": ("run_time", "seed"),
    "pipeline.declared": ("Shard",),
    "publish.targets": (
        "delta",
        "directory",
        "each_batch",
        "each_partition",
        "files",
        "iceberg",
        "kafka",
        "replace",
        "table",
    ),
    "errors": ("Fenced", "GraphRefused", "Refused", "RekindleError", "RunFailed", "StillOwned", "StoreFailed"),
    "onramp": ("run",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
