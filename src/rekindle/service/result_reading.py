"""`rk.read_result`: the result of a step of a stream, read as a batch.

Rules
- The result is that of the newest stream of the pipeline, and of the newest checkpoint of the step. What counts is its
  log: a batch has one version for ever, so that two who read up to the same batch have the same rows.
- The batches are pinned first and looked at then: none of them is released before the time that was said. So is the
  stream: one that somebody gives up meanwhile is refused.
- Where the rows are records of a topic, the log says which of them count; how long they stay is the topic's setting.
- No batch between two others is left out: where the first one that was asked for is gone, that is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rekindle.engine.adapter import ResultFiles, ResultRecords
from rekindle.engine.location import run_root
from rekindle.errors import NotFound, Refused
from rekindle.journal.keys import STREAMS, listed, streams_of
from rekindle.publish.batch_pins import BatchPin, put_pin
from rekindle.publish.stream_entries import RESULTS, batches_after, counted_entries, generation_of
from rekindle.remedies import CommandRemedy, TextRemedy
from rekindle.runtime.pins import refuse_closing
from rekindle.service.streaming import look
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store, open_target
from rekindle.streams.stream_state import StreamState

HOUR_SECONDS = 3600.0
CACHING = "caching"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRequest:
    """The batches after one up to another of the result of a step; None for the oldest and for the newest that are
    there. They are pinned for so many hours."""

    pipeline: str
    step: str
    location: str
    storage: dict[str, str]
    after: int | None = None
    up_to: int | None = None
    pin_hours: float = 24.0


def find_result(wanted: ResultRequest) -> list[ResultFiles | ResultRecords]:
    """What has the batches, by the regions that made them: shards of a step are regions each."""
    store = open_store(wanted.location, wanted.storage)
    state = _newest_stream(store, wanted)
    regions = [one for one in state.spec.regions if one.declared_name == wanted.step and one.result]
    if not regions:
        there = [one.declared_name for one in state.spec.regions if one.result]
        raise NotFound(
            f"{wanted.pipeline} has no step {wanted.step} with a result that other regions read",
            f"its results are {', '.join(dict.fromkeys(there)) or 'none'}",
        )
    if any(one.result != CACHING for one in regions):
        raise Refused(
            f"the result of {wanted.step} is in the memory of its stream, and no batch can read it",
            f'say result="{CACHING}" at {wanted.step}',
        )
    if len(regions) > 1 and (wanted.after, wanted.up_to) != (None, None):
        raise Refused(
            f"{wanted.step} is in {len(regions)} shards, each of which counts its batches itself",
            "leave out after and up_to",
        )
    found: list[ResultFiles | ResultRecords] = [_files(wanted, state, one.name) for one in regions]
    refuse_closing(store, wanted.pipeline, state.run)
    look(store, wanted.pipeline, state.run)
    return found


def _newest_stream(store: Store, wanted: ResultRequest) -> StreamState:
    streams = set(streams_of(store, wanted.pipeline))
    runs = [run for _, run in sorted(listed(store, wanted.pipeline).items(), reverse=True) if run in streams]
    if not runs:
        raise NotFound(
            f"there is no stream of {wanted.pipeline} at {store.name}",
            (CommandRemedy("runs", "see what there is"), TextRemedy("or say location=")),
        )
    state = look(store, wanted.pipeline, runs[0]).state
    if state is None:
        raise NotFound(f"stream {runs[0]} of {wanted.pipeline} never began", CommandRemedy("runs"))
    return state


def _files(wanted: ResultRequest, state: StreamState, region: str) -> ResultFiles | ResultRecords:
    base = f"{run_root(wanted.location, wanted.pipeline, f'{STREAMS}/{state.run}')}/{RESULTS}/{region}"
    store = open_target(base, wanted.storage)
    generation = generation_of(state.run, state.regions[region].generation)
    after = wanted.after
    if after is None:
        after = min(batches_after(store, region, generation, -1), default=0) - 1
    put_pin(store, region, generation, BatchPin(after, store.now() + wanted.pin_hours * HOUR_SECONDS))
    there = batches_after(store, region, generation, after)
    if not there:
        raise NotFound(
            f"the result of {region} has no batch after batch {after} yet", "wait until the stream has made one"
        )
    after = there[0] - 1 if wanted.after is None else after
    up_to = there[-1] if wanted.up_to is None else wanted.up_to
    batches = [*range(after + 1, up_to + 1)]
    found = dict(zip(batches, counted_entries(store, region, generation, batches), strict=True))
    missing = [batch for batch, entry in found.items() if entry is None]
    _refuse_missing(region, missing or [up_to][: not batches], there[-1])
    if topic := next((entry.elsewhere for entry in found.values() if entry is not None and entry.elsewhere), ""):
        columns = state.spec.region(region).columns
        return ResultRecords(
            base=base, region=region, generation=generation, topic=topic, columns=columns, after=after, last=up_to
        )
    files = tuple(file for entry in found.values() if entry is not None for file in entry.listed)
    return ResultFiles(base, files)


def _refuse_missing(region: str, missing: Sequence[int], newest: int) -> None:
    if not missing:
        return
    if missing[0] > newest:
        raise NotFound(
            f"the result of {region} has no batch {missing[-1]} yet: its newest is batch {newest}",
            "say a smaller up_to, or wait for it",
        )
    raise Refused(
        f"batch {missing[0]} of the result of {region} is gone: every reader had passed it, and it was released",
        "say a later batch for after, or leave it out: then the oldest batch that is there comes first",
    )
