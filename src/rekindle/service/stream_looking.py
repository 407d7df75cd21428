"""Look at a stream without being its master: its journal, the logs of its checkpoints, the life of its driver. Nothing
is written."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.errors import NotFound, StoreFailed
from rekindle.journal.history import read
from rekindle.journal.keys import parameters_of, stream_folder
from rekindle.journal.lease import LivenessState, sign_of_life
from rekindle.observe.stream_story import RegionStory, region_story
from rekindle.observe.stream_view import CommittedBatch, StreamLine, StreamView, stream_line, stream_view
from rekindle.pipeline.did_you_mean import did_you_mean
from rekindle.remedies import CommandRemedy
from rekindle.results.checkpoint_log import checkpoint_folder, last_commit, planned, positions
from rekindle.runtime.ownership import codec_of
from rekindle.service.life import life_text
from rekindle.service.streaming import look
from rekindle.storage.store import Store
from rekindle.streams.stream_machine import STREAM
from rekindle.streams.stream_state import StreamBase, StreamState


@dataclass(frozen=True, slots=True)
class SeenStream:
    """A stream as its journal in a store has it, and its driver: in words, and whether there is certainly none."""

    store: Store
    state: StreamState
    number: int
    life: str
    is_alone: bool

    def __str__(self) -> str:
        return f"{self.state.pipeline}/{self.number}"

    def line(self, parameters: dict[str, str] | None) -> StreamLine:
        return stream_line(self.state, self.number, parameters, driver=self.life, is_alone=self.is_alone)


def see(store: Store, pipeline: str, run: str, number: int, stale_seconds: float) -> SeenStream:
    """Read one stream. Raises `NotFound` where it has no journal yet."""
    found = look(store, pipeline, run)
    if found.state is None:
        raise NotFound(f"stream {pipeline}/{number} has no journal: it never began", CommandRemedy("runs"))
    try:
        sign = sign_of_life(store, stream_folder(pipeline, run), found.position, stale_seconds)
    except StoreFailed:
        return SeenStream(store, found.state, number, "driver unknown: the store does not tell the time", False)
    return SeenStream(store, found.state, number, life_text(sign), sign.life is not LivenessState.LIVING)


def view(seen: SeenStream) -> StreamView:
    """All that there is to show of a stream, with the last batches of its checkpoints."""
    store, state = seen.store, seen.state
    line = seen.line(parameters_of(store, state.pipeline).get(state.run))
    batches = {name: last_batch(store, state, name) for name in state.last_specs}
    return stream_view(state, line, batches, life=seen.life, is_alone=seen.is_alone)


def explain(seen: SeenStream, region: str) -> RegionStory:
    """What happened to one region, and what the batch that comes next reads."""
    store, state = seen.store, seen.state
    if region not in state.last_specs:
        raise NotFound(
            f"stream {seen} has no region {region}",
            did_you_mean(region, state.last_specs) or f"its regions are {', '.join(state.last_specs)}",
        )
    root = stream_folder(state.pipeline, state.run)
    checkpoint = _checkpoint(root, state, region)
    history = read(store, root, codec_of(STREAM))
    batch = max(last_commit(store, checkpoint), state.regions[region].batch)
    # Of what was decided before a base only what it came to is known.
    records = (
        (one.sequence, one.epoch, tuple(event for event in one.events if not isinstance(event, StreamBase)))
        for one in history.records
    )
    (shown,) = (one for one in view(seen).regions if one.name == region)
    return region_story(records, shown, state, planned(store, checkpoint, batch + 1))


def last_batch(store: Store, state: StreamState, region: str) -> CommittedBatch:
    """The last one that the checkpoint of a region has committed."""
    checkpoint = _checkpoint(stream_folder(state.pipeline, state.run), state, region)
    number = last_commit(store, checkpoint)
    return CommittedBatch(number, positions(store, checkpoint, number) or {} if number >= 0 else {})


def _checkpoint(root: str, state: StreamState, region: str) -> str:
    return f"{root}/{checkpoint_folder(region, state.regions[region].generation)}"
