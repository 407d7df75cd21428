"""A fused group as a value: all that an attempt at it must know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.plan.determinism import DeterminismVerdict
from rekindle.engine.spark.plan.layout import Layout, PlannedQuery, storable
from rekindle.model.kinds import Determinism, DigestPolicy, KeepUntil, ResultKind


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltGroup:
    """A group as it was built over stand-ins. `frame` is what its readers see, and `outline` what they observe of it
    beside its rows (see cuts.py); `stored` is what is computed and stored, in a session with the settings of the run.
    `reads` are the kept steps that it reads. `layout` is how its stand-in lies, None if nothing was built over one.
    `needs_files`: a function must be called again over real files (see `result_calls.traces`)."""

    frame: DataFrame
    stored: DataFrame
    outline: Any
    verdict: DeterminismVerdict
    reads: frozenset[str]
    layout: Layout | None = None
    needs_files: bool = False
    is_published: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A fused group: what builds its DataFrame from the kept results it reads, and how its own result lies.
    `functions` are the user's, where `build` only calls them; `source` is what it reads from outside, as its
    fingerprint has it; `planned` is the plan it was fingerprinted by: if that reads nothing but sources, the first
    attempt in this application runs that very plan. `is_digested` is what the policy `digest` comes to for it;
    `replicas` is on how many executors each of its blocks lies, if its kind has blocks. `is_published`: a sink's target
    gets its files, so that their order counts. `outline` is what its readers observe beside its rows (see cuts.py).
    `built` is what came of building it over stand-ins, None if nobody did. `has_equal_exchanges`: what its final stage
    reads is proved to come back the same (proof b), so that its exchanges are not looked at."""

    step: str
    build: Callable[[SparkSession, Mapping[str, DataFrame]], DataFrame]
    inputs: tuple[str, ...]
    keys: tuple[str, ...]
    partitions: int
    declared: Determinism | None = None
    is_eager: bool = False
    functions: tuple[Callable[..., Any], ...] = ()
    keep: KeepUntil = KeepUntil.RUN_END
    is_pessimistic: bool | None = None
    source: str = ""
    layout: Layout | None = None
    planned: PlannedQuery | None = None
    digest: DigestPolicy = DigestPolicy.NEVER
    is_digested: bool = False
    kind: ResultKind = ResultKind.BLOCKING
    replicas: int = 1
    is_published: bool = False
    outline: Any = None
    built: BuiltGroup | None = None
    has_equal_exchanges: bool = False

    def frame(self, session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """What is computed and stored."""
        return storable(self.build(session, inputs), is_published=self.is_published)

    @property
    def lies(self) -> Layout:
        """How its result lies; a step without keys must have been analysed first."""
        assert self.layout is not None or self.keys, f"the layout of {self.step} is not chosen yet"
        return self.layout or Layout(self.keys, self.partitions)
