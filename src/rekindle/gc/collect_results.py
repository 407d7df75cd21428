"""gc of what streams have at their location: batches of results that every reader has passed (passed_batches.py).

Their journals, checkpoints and fences stay, and so does all of a stream whose journal cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec

from rekindle.errors import RekindleError
from rekindle.gc.audit_log import AuditLog
from rekindle.gc.batch_removal import batch_item, remove_batches
from rekindle.gc.close_stream import tend_closed
from rekindle.gc.collect_run import GcReport, GcRules
from rekindle.gc.collect_stream import STREAM
from rekindle.gc.passed_batches import NO_BATCH, PassedBatches, passed_batches
from rekindle.gc.policy import GcAction, is_ripe
from rekindle.gc.remover import Remover
from rekindle.journal.keys import stream_folder
from rekindle.journal.lease import refuse_loss
from rekindle.runtime.ownership import look_at_journal
from rekindle.runtime.pins import find_pin
from rekindle.storage.store import Store, StoredObject
from rekindle.streams.stream_machine import STREAM as MACHINE

PASSED = "every reader has passed its batch"
KEPT_STREAM = "it is a stream: its journal, checkpoints and fences stay"


def tend_streams(store: Store, pipeline: str, places: Iterable[tuple[str, int]], rules: GcRules) -> Iterator[GcReport]:
    """The streams of a pipeline, by name and number."""
    now = store.now()
    diary = AuditLog(store, pipeline, round(now * 1000))
    for run, number in places:
        folder, trouble = f"{stream_folder(pipeline, run)}/", ""
        passed: list[StoredObject] = []
        files = size = 0
        try:
            if look_at_journal(MACHINE, store, stream_folder(pipeline, run)).position.is_closed:
                yield tend_closed(store, pipeline, run, number, diary, rules)
                continue
            for one in results_of(store, pipeline, run):
                passed += one.look(store, folder, lambda at: is_ripe((now - at) * 1000, rules.terms)).objects
            if not rules.is_dry:
                remove_batches(Remover(store, rules.limits), diary, run, PASSED, passed, folder=folder)
            for page in store.walk(folder):
                files, size = files + len(page), size + sum(one.bytes for one in page)
        except (RekindleError, msgspec.MsgspecError, AssertionError, ValueError, KeyError) as error:
            trouble, passed = str(error).split("\n")[0], []
        yield GcReport(
            pipeline=pipeline,
            run=run,
            number=number,
            act=GcAction.SWEEP if passed else GcAction.LEAVE,
            because=KEPT_STREAM,
            findings=(batch_item(PASSED, passed),) if passed else (),
            trouble=trouble,
            is_failed=bool(trouble),
            kind=STREAM,
            kept_files=files,
            kept_bytes=size,
        )


def results_of(store: Store, pipeline: str, run: str) -> list[PassedBatches]:
    """What every reader has passed, of each result of a stream; none before it was opened. Of a stream that is pinned
    nothing counts as passed."""
    folder = stream_folder(pipeline, run)
    seen = look_at_journal(MACHINE, store, folder)
    if seen.state is None:
        return []
    # One whose end was lost may not know of a reader, or of a new checkpoint of one.
    refuse_loss(store, folder, seen.position)
    found = passed_batches(store, f"{folder}/", seen.state)
    is_pinned = find_pin(store, pipeline, run) is not None
    return [replace(one, through=NO_BATCH) for one in found] if is_pinned else found
