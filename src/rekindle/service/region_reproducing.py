"""From a batch of a streaming region to the same batch in this process. The journal is read, and not written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rekindle.engine.reproduced import BatchRequest, RegionReplayer, ReproducedVertex
from rekindle.errors import NotFound
from rekindle.journal.keys import find_claim
from rekindle.model.ids import parse_vertex
from rekindle.pipeline.did_you_mean import did_you_mean
from rekindle.results.checkpoint_log import checkpoint_folder
from rekindle.runtime.opening import RunConstants
from rekindle.service.running import RunRequest
from rekindle.service.streaming import is_stream, look, name_of, request_of
from rekindle.streams.stream_state import StreamState


def stream_of(wish: RunRequest) -> str:
    """The stream that is meant; empty if the run that is meant is a batch, or there is none."""
    held = None if wish.options.run else find_claim(wish.store, wish.pipeline, wish.key)
    name = wish.options.run or (held.run if held is not None else "")
    return name if name and is_stream(wish.store, wish.pipeline, name) else ""


def reproduce_region(wish: RunRequest, make: Callable[[], RegionReplayer], run: str, vertex: str) -> ReproducedVertex:
    """A batch, opened: `priced[2]`, or `priced` for the one after the last that the region committed."""
    state = look(wish.store, wish.pipeline, run).state
    name, batch = parse_vertex(vertex) or (vertex, None)
    if state is None or name not in state.spec.names:
        names = () if state is None else state.spec.names
        hint = did_you_mean(name, names) or f"its regions are {', '.join(names)}"
        raise NotFound(f"stream {run} has no region {name}", hint)
    region = state.regions[name]
    asked = BatchRequest(
        region=name,
        batch=_last_batch(wish, state, name) if batch is None else batch,
        without=tuple(one.record for one in region.quarantined),
    )
    request = request_of(wish, run, state, RunConstants(state.run_time_ms, state.seed, {}))
    session = wish.session() if callable(wish.session) else wish.session
    opened = make().replay_region(session, request, asked)
    failed = (f"failed in the stream: {region.cause.root.text}",) if region.cause is not None else ()
    return replace(opened, said=(*failed, *opened.said))


def _last_batch(wish: RunRequest, state: StreamState, name: str) -> int:
    """The last one whose offsets were written: it failed, or is the newest."""
    folder = f"{name_of(wish.pipeline, state.run)}/{checkpoint_folder(name, state.regions[name].generation)}/offsets/"
    found = [int(one) for one in wish.store.list_after(folder) if one.isdecimal()]
    if not found:
        raise NotFound(f"{name} has read no batch yet", "run the stream first")
    return max(found)
