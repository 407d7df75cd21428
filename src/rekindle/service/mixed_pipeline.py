"""A pipeline with sinks of batches beside sinks of streams: a batch run first, then the stream.

Rules
- A sink is one of a stream if a source above it is one. Sources are built once more to know that, and only where a
  pipeline has sinks that do not read the source which was found to be a stream.
- The sinks of batches, with all that they read, are a run of their own, by the same parameters: what is published is
  done, whoever starts the stream again, until its code or its inputs change. Then it is run and published anew. So a
  source of the stream may read what such a sink publishes.
- A first start of the stream waits for that run, and does not begin without it. Later ones go on if it fails: no region
  is kept from its input by a batch. Then the start ends as the run did.
- What the user says of a step is said to the part that has it; of a step that no part has, to both: it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from rekindle.errors import RekindleError
from rekindle.journal.keys import find_claim, next_order
from rekindle.observe.stream_told import StreamPlan
from rekindle.observe.summary import RunSummary
from rekindle.pipeline.declared import Declared, Role
from rekindle.pipeline.shards import with_shards
from rekindle.runtime.opening import RunConstants
from rekindle.service import running, streaming
from rekindle.service.options import RunOptions
from rekindle.service.running import MakeAdapter, RunRequest, fresh_name, wanted_of
from rekindle.service.streaming import PrepareStream

# Stands in the key of the run of the sinks of batches, beside its parameters.
BESIDE = "beside the stream"


@dataclass(frozen=True, slots=True)
class PipelineParts:
    """The stream, and the run of the sinks of batches where there are some."""

    stream: RunRequest
    batch: RunRequest | None = None


def parts_of(wish: RunRequest, make: MakeAdapter, source: str = "") -> PipelineParts:
    """`source` is one that was found to be a stream."""
    sinks = [one for one in wish.steps if one.role is Role.SINK]
    unknown = [one.name for one in sinks if source not in above(wish.steps, one.name)]
    if not unknown or len(sinks) == 1:
        return PipelineParts(wish)
    session = wish.session() if callable(wish.session) else wish.session
    wish = replace(wish, session=session)
    order = next_order(wish.store, wish.pipeline)
    wanted = wanted_of(wish, fresh_name(), order, RunConstants.fresh())
    streams = make().streaming_sinks(session, replace(wanted, steps=with_shards(wanted.steps)))
    batches = [one.name for one in sinks if one.name not in streams]
    if not batches or not streams:
        return PipelineParts(wish)
    return PipelineParts(_part(wish, streams), _beside(_part(wish, batches)))


def run(
    wish: RunRequest, make: MakeAdapter, prepare: PrepareStream, say: Callable[[str], None], source: str = ""
) -> RunSummary:
    """Until what there is of batches is published, and the stream has ended."""
    parts = parts_of(wish, make, source)
    if parts.batch is None:
        return streaming.run(parts.stream, prepare, say)
    named = wish.options.run
    if named and not wish.options.new and not streaming.is_stream(wish.store, wish.pipeline, named):
        return running.run(_said(parts.batch, run=named), make)
    failed: RekindleError | None = None
    say(f"{', '.join(parts.batch.targets)} of {wish.pipeline}: a run of its own, before the stream")
    try:
        is_new = wish.options.new or running.is_outdated(parts.batch, make)
        for line in str(running.run(_said(parts.batch, new=is_new), make)).splitlines():
            say(line)
    except RekindleError as error:
        if not _has_begun(parts.stream):
            raise
        failed = error
        for line in (*str(error).splitlines(), "the stream goes on"):
            say(line)
    summary = streaming.run(parts.stream, prepare, say)
    if failed is not None:
        raise failed
    return summary


def plan(wish: RunRequest, make: MakeAdapter, prepare: PrepareStream) -> StreamPlan:
    """What `run` would do now."""
    parts = parts_of(wish, make)
    if parts.batch is None:
        return streaming.plan(parts.stream, prepare)
    before = running.plan(_said(parts.batch, new=running.is_outdated(parts.batch, make)), make)
    return replace(streaming.plan(parts.stream, prepare), before=before)


def above(steps: Sequence[Declared], name: str) -> set[str]:
    """All that a step reads, and what that reads."""
    inputs = {one.name: one.inputs for one in steps}
    found, todo = set[str](), [name]
    while todo:
        new = [one for one in inputs[todo.pop()] if one not in found]
        found.update(new)
        todo += new
    return found


def _part(wish: RunRequest, sinks: Iterable[str]) -> RunRequest:
    named = {name for sink in sinks for name in (sink, *above(wish.steps, sink))}
    own = tuple(one for one in wish.steps if one.name in named)
    others = {one.name for one in wish.steps if one.name not in named}
    return replace(wish, steps=own, options=_said_to(wish.options, others))


def _beside(part: RunRequest) -> RunRequest:
    """Flags that are said once are journaled with the stream: that it began is told then."""
    options = replace(part.options, run="", new_checkpoint=(), start_from="", on_begun=lambda: None)
    return replace(part, options=options, key={**part.key, BESIDE: "batches"})


def _said(part: RunRequest, *, run: str = "", new: bool = False) -> RunRequest:
    return replace(part, options=replace(part.options, run=run, new=new))


def _said_to(options: RunOptions, others: set[str]) -> RunOptions:
    """Without what is said of these steps."""

    def own(names: Sequence[str]) -> list[str]:
        return [one for one in names if one.partition("[")[0] not in others]

    return replace(
        options,
        accept_change=own(options.accept_change),
        replace=own(options.replace),
        without=own(options.without),
        take_target=own(options.take_target),
        new_checkpoint=own(options.new_checkpoint),
    )


def _has_begun(stream: RunRequest) -> bool:
    if stream.options.new:
        return False
    held = find_claim(stream.store, stream.pipeline, stream.key)
    name = stream.options.run or (held.run if held else "")
    return bool(name) and streaming.is_stream(stream.store, stream.pipeline, name)
