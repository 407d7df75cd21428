"""The frames of one region: its functions are called once for each query, in a session of the query's own.

- A streaming DataFrame cannot be started twice with other settings, and a session has one manager of queries: a query
  that hangs must not hold up the next one. So each query has a session, and each session its frames.
- A step that is read by two sinks is computed in both queries if it is proved to be determinate, or declared: both get
  the same rows. Otherwise it is cut (region_cuts.py). Sources are read by each query from a position of its own.
- Batch inputs are those that are pinned (pinned_reader.py), so that each query reads the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.adapter import PrepareRequest
from rekindle.engine.spark.jvm import stream_calls
from rekindle.engine.spark.plan.describe import describe, or_refused
from rekindle.engine.spark.plan.identity import parameter_text, value_settings, versions
from rekindle.engine.spark.plan.layout import verdict_of
from rekindle.engine.spark.plan.packed import compiled_told, functions_told, told
from rekindle.engine.spark.publish.stream_result import ResultReader
from rekindle.engine.spark.stream.batch_replay import SEGMENTS, leaves_of
from rekindle.engine.spark.stream.region_shards import shard_of
from rekindle.errors import GraphRefused
from rekindle.master.facts.run_spec import Fingerprint
from rekindle.pipeline.declared import Declared, Role
from rekindle.pipeline.identity.fingerprint import hashed, parts
from rekindle.streams.region_changes import SETTINGS_PART, TARGET_PART
from rekindle.streams.stream_spec import RegionSpec

HINT = "correct it and run again; nothing was started"
# Leaves of a plan that are streams, and those that give the same rows to everybody who reads them from the beginning.
STREAM_LEAVES = ("StreamingRelation", "StreamingRelationV2")
SAME_AGAIN = ("FileSource", SEGMENTS, "kafka")
WATERMARK = "EventTimeWatermark"
BATCH_SINK = "return rows of that stream, or read another source"
# The frame of a step over the batch inputs that are pinned.
ReadInputs = Callable[[str, DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class RegionFrames:
    """The steps of one region with their frames, producers first, the sink last."""

    sink: Declared
    steps: tuple[Declared, ...]
    frames: Mapping[str, DataFrame]

    @property
    def frame(self) -> DataFrame:
        return self.frames[self.sink.name]

    @property
    def streams(self) -> tuple[str, ...]:
        """The sources that are streams."""
        return tuple(one.name for one in self.steps if one.role is Role.SOURCE and self.frames[one.name].isStreaming)

    def leaves(self) -> tuple[str, ...]:
        """The streams in the order in which a checkpoint numbers them."""
        return tuple(map(hashed, stream_calls.streams_of(self.frame)))

    def names(self) -> dict[str, str]:
        return names_of(self.frame)

    def columns(self) -> dict[str, str]:
        return {field.name: field.dataType.simpleString() for field in self.frame.schema.fields}

    def operators(self) -> tuple[str, ...]:
        """Those that keep state, in the order of the plan."""
        return tuple(one for one in stream_calls.stateful(self.frame, ()) if one != WATERMARK)

    def stateful(self) -> tuple[str, ...]:
        """The steps at or below which state is kept: a change of one of them changes what the state means. The lowest
        watermark of a query says when state is final, also one that stands above it; and a step above it counts too if
        it has more than projections: Spark moves a filter by a key below the aggregate."""
        if not self.operators():
            return ()
        found: set[str] = set()
        for one in reversed(self.steps):
            frame, read = self.frames[one.name], [self.frames[name] for name in one.inputs]
            if one.name in found or stream_calls.stateful(frame, read) or stream_calls.may_reach_below(frame, read):
                found |= {one.name, *one.inputs}
        return tuple(one.name for one in self.steps if one.name in found)

    def doubts(self, name: str) -> tuple[str, ...]:
        """Why a step is not proved to be determinate; none if it is, or was declared to be."""
        one = next(one for one in self.steps if one.name == name)
        if one.declared_deterministic is not None:
            return () if one.declared_deterministic else ("deterministic=False",)
        found = verdict_of(self.frames[name]).because
        by_time = (
            f"the stream {one}" for one in stream_calls.streams_of(self.frames[name]) if not one.startswith(SAME_AGAIN)
        )
        return *(one for one in found if one not in STREAM_LEAVES), *by_time

    def fingerprints(self, wanted: PrepareRequest, code: Callable[..., Any] | None = None) -> dict[str, Fingerprint]:
        """Each step in named parts: its code, its parameters, the plan that it made of what it reads, and the functions
        in that plan as Spark is given them: what a function holds may be known only then. `code` is the function that
        its target calls."""
        found = {one.name: self._fingerprint(one, wanted) for one in self.steps}
        return found if code is None else {**found, TARGET_PART: parts(code)}

    def spec_now(self, judged: RegionSpec, wanted: PrepareRequest, code: Callable[..., Any] | None) -> RegionSpec:
        """The region as these frames are, with the settings that it was judged with."""
        return msgspec.structs.replace(
            judged,
            sources=self.streams,
            columns=self.columns(),
            leaves=self.leaves(),
            names=self.names(),
            operators=self.operators(),
            stateful=self.stateful(),
            fingerprints={**self.fingerprints(wanted, code), SETTINGS_PART: judged.fingerprints[SETTINGS_PART]},
        )

    def _fingerprint(self, one: Declared, wanted: PrepareRequest) -> Fingerprint:
        if isinstance(one.function, ResultReader):
            return {"columns": hashed(one.function.schema.json())}
        plan = told(self.frames[one.name])
        found = {
            "plan": f"#{plan.shape}",
            **functions_told(plan.commands),
            **compiled_told(plan),
            **parts(one.function),
        }
        for name, value in one.parameter_values(wanted.parameters).items():
            found[f"parameter:{name}"] = parameter_text(name, value)
        return found


def names_of(frame: DataFrame) -> dict[str, str]:
    """The names that the user gave to the streams of a plan, with their places; none if one of them has none."""
    found = {leaf.named: hashed(leaf.stream) for leaf in leaves_of(frame)}
    return {} if "" in found else found


def settings_of(spark: SparkSession) -> Fingerprint:
    """What changes values in every step: settings and versions."""
    return {**value_settings(spark), **versions(spark)}


def members(steps: Sequence[Declared], sink: Declared) -> tuple[Declared, ...]:
    """All that is computed for a sink, producers first, itself last."""
    named = {one.name: one for one in steps}
    needed, todo = {sink.name}, [sink.name]
    while todo:
        for name in named[todo.pop()].inputs:
            if name not in needed:
                needed.add(name)
                todo.append(name)
    return *(one for one in steps if one.name in needed and one is not sink), sink


def build(session: SparkSession, wanted: PrepareRequest, sink: Declared, read: ReadInputs) -> RegionFrames:
    """Call the functions of a region, and `read` what is pinned of each. Raises `GraphRefused` where they cannot be one
    streaming query."""
    frames: dict[str, DataFrame] = {}
    steps = members(wanted.steps, sink)
    for one in steps:
        given = {name: frames[name] for name in one.inputs}
        with or_refused(one.name, one.function, HINT):
            made = describe(one, session, given, wanted.parameters, wanted.constants, is_stream=True)
            frames[one.name] = shard_of(session, one, read(one.name, made))
    _refuse_shard(RegionFrames(sink, steps, frames))
    if sink.role is Role.SINK and not frames[sink.name].isStreaming:
        raise GraphRefused(f"{sink.place}: {sink.name} reads a stream and returns none of its rows", BATCH_SINK)
    return RegionFrames(sink, steps, frames)


def _refuse_shard(frames: RegionFrames) -> None:
    """What a region of one shard cannot do right: it has a part of the rows."""
    end = frames.sink
    if end.shard is None:
        return
    every = [one.name for one in frames.steps if one.name in frames.streams and one.shard is None]
    if every:
        raise GraphRefused(
            f"{end.place}: {end.shard_of} is in {end.shard.of} shards and reads the stream {every[0]}, which is not: "
            "each of them would read all of it",
            f"say shards={end.shard.of} at {every[0]} too, or leave them out",
        )
    if frames.operators():
        raise GraphRefused(
            f"{end.place}: {end.shard_of} keeps state ({', '.join(frames.operators())}), and its source is read in "
            f"{end.shard.of} shards: the state of each would miss the rows of the others",
            "leave out shards, or publish the rows first and keep state in a stream that reads them all",
        )
