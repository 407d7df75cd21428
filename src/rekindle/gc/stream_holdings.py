"""What is there of the results between the regions of a stream, how large, and why it is kept: by the entries of the
batches and the positions of the readers. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.gc.collect_results import results_of
from rekindle.gc.holdings import StepHolding
from rekindle.gc.passed_batches import PassedBatches
from rekindle.journal.keys import stream_folder
from rekindle.observe.words import count_text
from rekindle.publish.stream_entries import RESULTS, entries_folder
from rekindle.runtime.pins import RunPin
from rekindle.storage.store import Store

NEWEST = "the newest batch stays"


def stream_holdings(store: Store, pipeline: str, run: str, pin: RunPin | None) -> Iterator[StepHolding]:
    """Each result that has batches, with the reason. Batches of a memory result are counted, and have no bytes."""
    folder = f"{stream_folder(pipeline, run)}/"
    for one in results_of(store, pipeline, run):
        names = store.list_after(f"{folder}{RESULTS}/{one.region}/{entries_folder(one.region, one.generation)}")
        batches = [int(name) for name in names if name.isdecimal()]
        if batches:
            size = one.look(store, folder, lambda modified: False).bytes_left
            why = str(pin) if pin is not None else _why(one)
            yield StepHolding(step=one.region, partitions=len(batches), of=max(batches) + 1, bytes=size, why=why)


def _why(one: PassedBatches) -> str:
    return f"{one.slowest} is {count_text(one.behind, 'batch', 'batches')} behind" if one.behind > 0 else NEWEST
