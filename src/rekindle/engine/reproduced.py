"""One vertex, tried again by hand: what is asked for, and what comes of it. Values without a word of the engine's own.

- The inputs are what the vertex reads: the committed files of the kept partitions it reads, or the rows that Spark
  would hand to its one task.
- Nothing of it is written, committed or journaled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rekindle.engine.adapter import PrepareRequest, StreamRequest
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.state.commands import Input
from rekindle.model.failures import Cause
from rekindle.streams.source_records import SourceRecord


@dataclass(frozen=True, slots=True)
class ReproductionRequest:
    """A vertex to try. `inputs` are the kept partitions it reads and nothing else; `failure` is how it failed.
    Without a partition: all of the step, or the Spark tasks below its partitions that read the files of the failure."""

    step: str
    partition: int | None
    inputs: tuple[Input, ...]
    failure: Cause | None = None

    def __str__(self) -> str:
        return self.step if self.partition is None else f"{self.step}[{self.partition}]"


@dataclass(frozen=True, slots=True)
class ReproductionResult:
    """What came of it: the first rows as a table and how many there are; or the exception in one line, with the user's
    own frames, and all that Spark says."""

    table: str = ""
    count: int = 0
    failure: str = ""
    frames: tuple[str, ...] = ()
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproducedVertex:
    """A vertex, ready to be tried in this process. `rows` and `inputs` are DataFrames which nothing has computed yet:
    an exception of the step comes up when `rows` are asked for. `said` is what is worth knowing before."""

    vertex: str
    rows: Any
    inputs: Mapping[str, Any]
    said: tuple[str, ...]
    attempt: Callable[[int], ReproductionResult]
    show: Callable[[Any, int], str]

    def __str__(self) -> str:
        return "\n".join((self.vertex, *(f"  {line}" for line in self.said)))


@dataclass(frozen=True, slots=True)
class ReproductionSetup:
    """A pipeline as its code is now, of which single vertices can be opened; that starts no Spark job."""

    spec: RunSpec
    open: Callable[[ReproductionRequest], ReproducedVertex]


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A batch of a streaming region to try, without records that the region goes on without."""

    region: str
    batch: int
    without: tuple[SourceRecord, ...] = ()


class RegionReplayer(Protocol):
    """The part of an adapter that `reproduce` needs for a stream."""

    def replay_region(self, session: Any, request: StreamRequest, asked: BatchRequest) -> ReproducedVertex:
        """The batch as its checkpoint recorded it, over the code as it is now. No target is looked at."""
        ...


class Reproducer(Protocol):
    """The part of an adapter that `reproduce` needs."""

    def workbench(self, session: Any, wanted: PrepareRequest) -> ReproductionSetup:
        """Compile and analyse, as for a run. No target is looked at."""
        ...
