"""Where a stream is cut into regions: at its sinks, and at steps whose results other regions read.

- `result="caching"` and `result="memory"` cut a stream at a step: the step is the last one of a region of its own, and
  everything that reads it is in other regions, each with a position of its own in its result.
- Batches of a memory result vanish, and are made again one by one. Where nobody can do that, its result is caching, and
  the plan says why.
- A step that several regions would compute, and that is not proved to give all of them the same rows, is cut without
  being asked: its rows have one version. The cut is at the last step that the same regions share.
- For its readers the step is a source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.adapter import PrepareRequest, StreamRequest
from rekindle.engine.spark.publish.stream_result import ResultReader, result_path
from rekindle.engine.spark.session import clone
from rekindle.engine.spark.stream.batch_replay import leaves_of
from rekindle.engine.spark.stream.region_frames import RegionFrames, build, members
from rekindle.engine.spark.stream.stream_engine import SETTINGS
from rekindle.errors import GraphRefused
from rekindle.pipeline.check import BLOCKING, CACHING, MEMORY, PIPELINED, refuse_topic
from rekindle.pipeline.declared import Argument, Binding, Declared, Role
from rekindle.publish.stream_entries import generation_of

SESSION = (Argument("spark", Binding.SESSION),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutStream:
    """The declared steps of a stream, producers first, and for each that is cut the source in its place, whose `result`
    is the kind that it has. `notes` say where that is another one than the user asked for."""

    steps: tuple[Declared, ...]
    sources: Mapping[str, Declared]
    notes: tuple[str, ...] = ()

    @property
    def ends(self) -> tuple[Declared, ...]:
        """The last step of each region, producers first."""
        return tuple(one for one in self.steps if one.name in self.sources or one.role is Role.SINK)

    @property
    def readers(self) -> dict[str, tuple[str, ...]]:
        """The regions that each step is in."""
        found: dict[str, tuple[str, ...]] = {}
        for end in self.ends:
            for one in self.members(end):
                found[one.name] = (*found.get(one.name, ()), end.name)
        return found

    def steps_for(self, end: Declared) -> tuple[Declared, ...]:
        """The steps as the region that ends here sees them."""
        return tuple(one if one is end else self.sources.get(one.name, one) for one in self.steps)

    def members(self, end: Declared) -> tuple[Declared, ...]:
        """What the region that ends here computes, and the sources that it reads."""
        return members(self.steps_for(end), end)

    def reads(self, end: Declared) -> tuple[str, ...]:
        """The results of other regions that this one reads."""
        return tuple(one.name for one in self.members(end) if self.sources.get(one.name) is one)

    def shared(self, end: Declared) -> tuple[Declared, ...]:
        """The steps that another region computes, too."""
        return tuple(one for one in self.members(end) if one.role is Role.STEP and len(self._readers(one)) > 1)

    def fork(self, step: Declared) -> Declared:
        """The last step that is computed in just the regions which compute this one."""
        alike = self._readers(step)
        below = {step.name}
        found = step
        for one in self.steps:
            if below & set(one.inputs) and one.role is Role.STEP and self._readers(one) == alike:
                below.add(one.name)
                found = one
        return found

    def _readers(self, step: Declared) -> tuple[str, ...]:
        return tuple(end.name for end in self.ends if step in self.members(end))


def find_cuts(spark: SparkSession, request: StreamRequest) -> CutStream:
    """The functions of regions are called where that tells whether a cut is needed, and what its rows are."""
    cuts = CutStream(steps=tuple(request.wanted.steps), sources={})
    for one in cuts.steps:
        if one.role is Role.STEP and one.result in (CACHING, BLOCKING, MEMORY):
            frames = _frames(spark, request.wanted, cuts, one)
            if not frames.frame.isStreaming:
                refuse_topic(one)
            else:
                _refuse_kind(one)
                cuts = _with_kind(_cut(cuts, request, one, frames.frame), one, frames)
    proved: set[str] = set()
    while (found := next(_doubtful(spark, request.wanted, cuts, proved), None)) is not None:
        cuts = _cut(cuts, request, *found)
    return cuts


def of_region(wanted: PrepareRequest, cuts: CutStream, end: Declared) -> PrepareRequest:
    """The request as the region that ends here sees it."""
    return replace(wanted, steps=cuts.steps_for(end))


def _frames(spark: SparkSession, wanted: PrepareRequest, cuts: CutStream, end: Declared) -> RegionFrames:
    """Over batch inputs as they are now: rows are not looked at, and other columns are refused with the pins."""
    return build(clone(spark, SETTINGS), of_region(wanted, cuts, end), end, lambda step, frame: frame)


def _doubtful(
    spark: SparkSession, wanted: PrepareRequest, cuts: CutStream, proved: set[str]
) -> Iterator[tuple[Declared, DataFrame]]:
    """Steps at which a cut is needed. One that is `proved` for one region is so for all, and is not asked about
    again."""
    for end in cuts.ends:
        shared = [one for one in cuts.shared(end) if one.name not in proved]
        if not shared:
            continue
        frames = _frames(spark, wanted, cuts, end)
        for one in shared:
            doubts = frames.doubts(one.name)
            if not doubts:
                proved.add(one.name)
            else:
                fork = cuts.fork(one)
                _refuse_pipelined(one, fork, doubts)
                yield fork, frames.frames[fork.name]


def _cut(cuts: CutStream, request: StreamRequest, step: Declared, frame: DataFrame) -> CutStream:
    reader = ResultReader(
        step=step,
        path=result_path(request.wanted.root, step.name),
        generation=generation_of(request.generation, request.replaced.get(step.name, 0)),
        schema=frame.schema,
    )
    source = Declared(
        name=step.name,
        role=Role.SOURCE,
        function=reader,
        arguments=SESSION,
        place=step.place,
        result=CACHING,
        shard=step.shard,
        shard_of=step.shard_of,
    )
    return replace(cuts, sources={**cuts.sources, step.name: source})


def _with_kind(cuts: CutStream, step: Declared, frames: RegionFrames) -> CutStream:
    why = unreplayable(frames)
    if step.result != MEMORY:
        return cuts
    if why:
        told = f"{step.name}: {why}, so that a batch that vanished could not be made again: its result is caching"
        return replace(cuts, notes=(*cuts.notes, told))
    return replace(cuts, sources={**cuts.sources, step.name: replace(cuts.sources[step.name], result=MEMORY)})


def unreplayable(frames: RegionFrames) -> str:
    """Why nobody can make a batch of a region again alone; empty if that can be done."""
    if operators := frames.operators():
        return f"it keeps state ({', '.join(operators)})"
    unknown = [one.name for one in leaves_of(frames.frame) if not one.is_recorded]
    return f"Spark records no rows of what it reads ({', '.join(unknown)})" if unknown else ""


def _refuse_kind(step: Declared) -> None:
    if step.result == BLOCKING:
        raise GraphRefused(
            f'{step.place}: {step.name} has result="{step.result}", and it is a stream, which other regions can read '
            "only from a log of its batches",
            f'say result="{CACHING}" or result="{MEMORY}", or leave it out',
        )


def _refuse_pipelined(step: Declared, fork: Declared, doubts: Sequence[str]) -> None:
    if PIPELINED in (step.result, fork.result):
        raise GraphRefused(
            f"{step.place}: {step.name} is read by several sinks, so that each computes it, and it is not proved to "
            f"give both the same rows: {'; '.join(doubts)}",
            f"say deterministic=True at {step.name} if its rows are always the same, or leave out "
            f'result="{PIPELINED}": then one region computes it for all',
        )
