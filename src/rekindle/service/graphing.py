"""The graph of a pipeline, made without a run: the engine analyses the code, nothing is written."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.journal.keys import next_order
from rekindle.observe.pipeline_graph import PipelineGraph
from rekindle.observe.stream_graph import StreamGraph
from rekindle.observe.stream_view import RegionView, region_view
from rekindle.service import streaming
from rekindle.service.mixed_pipeline import parts_of
from rekindle.service.running import MakeAdapter, RunRequest, fresh_name, make_ready
from rekindle.service.stream_looking import last_batch, see, view
from rekindle.service.streaming import PrepareStream
from rekindle.streams.stream_spec import StreamSpec
from rekindle.streams.stream_state import RegionState, StreamState


def stream_graph(wish: RunRequest, make: MakeAdapter, prepare: PrepareStream, source: str) -> StreamGraph:
    """As a start of the stream would have it, with the positions that its regions have. `source` is known to be a
    stream; sinks of batches are no part of the stream."""
    wish = parts_of(wish, make, source).stream
    ready = streaming.make_ready(wish, prepare)
    ready.prepared.engine.close()
    known, spec = ready.known, ready.prepared.spec
    return StreamGraph(
        pipeline=wish.pipeline,
        spec=spec,
        strategy=wish.options.chosen_strategy or (known or wish.options.limits).strategy,
        regions=tuple(_regions(wish, known, spec)),
    )


def _regions(wish: RunRequest, known: StreamState | None, spec: StreamSpec) -> Iterator[RegionView]:
    """The regions of the code as it is now, with what became of them so far."""
    states: dict[str, str] = {}
    if known is not None:
        seen = see(wish.store, wish.pipeline, known.run, 0, wish.options.stale_seconds)
        states = {one.name: one.state for one in view(seen).regions}
    for one in spec.regions:
        if known is None or one.name not in states:
            yield region_view(RegionState(), one)
            continue
        last = last_batch(wish.store, known, one.name)
        yield region_view(known.regions[one.name], one, last, state=states[one.name])


def graph(wish: RunRequest, make: MakeAdapter) -> PipelineGraph:
    """As a new run would journal it. Raises what the run would refuse."""
    ready = make_ready(wish, make, fresh_name(), None, next_order(wish.store, wish.pipeline))
    try:
        return PipelineGraph(pipeline=wish.pipeline, spec=ready.prepared.spec, strategy=wish.options.limits.strategy)
    finally:
        ready.prepared.engine.close()
