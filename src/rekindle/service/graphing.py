"""The graph of a pipeline, made without a run: the engine analyses the code, nothing is written."""

from __future__ import annotations

from rekindle.journal.keys import next_order
from rekindle.observe.pipeline_graph import PipelineGraph
from rekindle.service.running import MakeAdapter, RunRequest, fresh_name, make_ready


def graph(wish: RunRequest, make: MakeAdapter) -> PipelineGraph:
    """As a new run would journal it. Raises what the run would refuse."""
    ready = make_ready(wish, make, fresh_name(), None, next_order(wish.store, wish.pipeline))
    try:
        return PipelineGraph(pipeline=wish.pipeline, spec=ready.prepared.spec, strategy=wish.options.limits.strategy)
    finally:
        ready.prepared.engine.close()
