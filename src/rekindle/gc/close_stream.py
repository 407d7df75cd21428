"""Give a stream up: close its journal, and delete what it has at its location.

Rules
- The journal is closed first: nobody opens the stream again, also if we die after that. Then its regions are fenced:
  a driver that was frozen ends at its next log entry. Then its files go. What a gc that died left goes by the next one.
- The closing record, the records that fence sleepers and the fences of the regions stay: a driver that wakes up in a
  year finds them. The targets stay, with all their rows and the mark whose they were.
- Each region gets two numbers more than its fence has: a driver that was frozen before it put its own has the first.
- Files go page by page; what comes while we look goes by the next gc, like what a driver that wakes up writes.
- A stream with a living driver, one that is pinned, and one whose batches somebody reads are left alone. We say that we
  close it before we look at pins, and who pins looks for that after the pin is there (runtime/pins.py).
- Nothing is deleted before the audit log says what and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from rekindle.errors import Refused, StoreFailed
from rekindle.gc.audit_log import AuditEntry, AuditLog
from rekindle.gc.collect_run import CLOSED_FOR_GOOD, GcItem, GcReport, GcRules
from rekindle.gc.collect_stream import STREAM
from rekindle.gc.passed_batches import pins_of
from rekindle.gc.policy import GcAction, Retention, is_ripe
from rekindle.gc.remover import Remover
from rekindle.journal.keys import stream_folder
from rekindle.journal.lease import refuse_loss, sign_of_life
from rekindle.journal.owner import this_process
from rekindle.journal.prune import prune
from rekindle.journal.takeover import refuse_living
from rekindle.publish.stream_entries import generation_of
from rekindle.publish.target import is_certainly_put
from rekindle.remedies import CommandRemedy
from rekindle.runtime.ownership import close_journal, look_at_journal
from rekindle.runtime.pins import begin_closing, end_closing, find_pin
from rekindle.storage.store import Store, StoredObject
from rekindle.streams.stream_machine import STREAM as MACHINE
from rekindle.streams.stream_state import StreamState
from rekindle.streams.stream_stimuli import CloseStream

ASKED = "the user gave it up"
CLOSED = "it is closed"
# What stays of a closed stream, by the first folder of its name.
FENCE = "fence"
STAYS = frozenset({FENCE, "journal", "heartbeat", "snapshot"})
SPARE = 2
AT_ONCE = Retention(grace_ms=0, retention_ms=0)

Goes = Callable[[StoredObject], bool]


def close_stream(store: Store, pipeline: str, run: str, number: int, rules: GcRules) -> GcReport:
    """Close one stream now, and delete its checkpoints and results. Raises `Refused` where it may not go."""
    folder, now = stream_folder(pipeline, run), store.now()
    seen = look_at_journal(MACHINE, store, folder)
    if seen.state is not None:
        refuse_loss(store, folder, seen.position)
        refuse_living(folder, sign_of_life(store, folder, seen.position, rules.stale_seconds), rules.stale_seconds)
    elif not seen.position.is_closed:
        raise Refused(f"stream {pipeline}/{number} never began", CommandRemedy("runs"))
    found = _counted(_left(store, folder), ASKED)
    diary = AuditLog(store, pipeline, round(now * 1000))
    if rules.is_dry:
        if seen.state is not None:
            _refuse_needed(store, pipeline, run, f"{pipeline}/{number}", seen.state)
        return _report(pipeline, run, number, GcAction.CLOSE, found)
    if seen.state is None:
        return tend_closed(store, pipeline, run, number, diary, replace(rules, terms=AT_ONCE))
    begin_closing(store, pipeline, run)
    try:
        _refuse_needed(store, pipeline, run, f"{pipeline}/{number}", seen.state)
        _note(diary, run, folder, found)
        closing = CloseStream(str(this_process()))
        close_journal(MACHINE, store, folder, lambda state: closing, stale_seconds=rules.stale_seconds)
    finally:
        end_closing(store, pipeline, run)
    _fence(store, folder, seen.state)
    _remove(store, folder, rules, lambda one: True)
    prune(store, folder)
    return _report(pipeline, run, number, GcAction.CLOSE, found)


def tend_closed(store: Store, pipeline: str, run: str, number: int, diary: AuditLog, rules: GcRules) -> GcReport:
    """What a gc that died, or a driver that woke up, left of a closed stream."""
    folder, now = stream_folder(pipeline, run), store.now()

    def is_old(one: StoredObject) -> bool:
        return is_ripe((now - one.modified) * 1000, rules.terms)

    found = _counted(_left(store, folder, is_old), CLOSED)
    if not rules.is_dry:
        if found.files:
            _note(diary, run, folder, found)
            _fence(store, folder, None)
            _remove(store, folder, rules, is_old)
        prune(store, folder)
    return _report(pipeline, run, number, GcAction.SWEEP if found.files else GcAction.LEAVE, found)


def _refuse_needed(store: Store, pipeline: str, run: str, named: str, state: StreamState) -> None:
    held = find_pin(store, pipeline, run)
    if held is not None:
        raise Refused(f"stream {named} is {held}", CommandRemedy("results unpin", run=named))
    now = store.now()
    for name, region in state.regions.items():
        for pin, _ in pins_of(store, f"{stream_folder(pipeline, run)}/", name, generation_of(run, region.generation)):
            if pin.until >= now:
                left = f"{(pin.until - now) / 3600:.1f} h"
                raise Refused(
                    f"a batch reads the result of {name} of stream {named}, which is kept for it for {left} more",
                    "release the stream after that",
                )


def _left(store: Store, folder: str, goes: Goes = lambda one: True) -> Iterator[list[StoredObject]]:
    """What is there that does not stay, page by page."""
    for page in store.walk(f"{folder}/"):
        yield [one for one in page if one.name.split("/", 1)[0] not in STAYS and goes(one)]


def _counted(pages: Iterable[list[StoredObject]], why: str) -> GcItem:
    files = size = 0
    oldest: float | None = None
    for page in pages:
        files, size = files + len(page), size + sum(one.bytes for one in page)
        oldest = min([*(one.modified for one in page), *([] if oldest is None else [oldest])], default=None)
    oldest_ms = None if oldest is None else round(oldest * 1000)
    return GcItem(what=CLOSED_FOR_GOOD, why=why, files=files, bytes=size, oldest_ms=oldest_ms)


def _fence(store: Store, folder: str, state: StreamState | None) -> None:
    begun = set(store.list_folders(f"{folder}/{FENCE}/"))
    for region in begun | set(state.regions if state is not None else ()):
        numbers = store.list_after(f"{folder}/{FENCE}/{region}/")
        highest = max((int(name) for name in numbers if name.isdecimal()), default=0)
        for one in range(highest + 1, highest + 1 + SPARE):
            if not is_certainly_put(store, f"{folder}/{FENCE}/{region}/{one}", b""):
                raise StoreFailed(f"the fence of {region} was not certainly put")


def _remove(store: Store, folder: str, rules: GcRules, goes: Goes) -> None:
    remover = Remover(store, rules.limits)
    for page in _left(store, folder, goes):
        remover.remove(f"{folder}/", [one.name for one in page])


def _note(diary: AuditLog, run: str, folder: str, found: GcItem) -> None:
    diary.note(
        AuditEntry(
            run=run,
            act="close",
            why=found.why,
            files=found.files,
            bytes=found.bytes,
            oldest_ms=found.oldest_ms,
            folders=(f"{folder}/",),
        )
    )


def _report(pipeline: str, run: str, number: int, act: GcAction, found: GcItem) -> GcReport:
    findings = () if act is GcAction.LEAVE else (found,)
    return GcReport(
        pipeline=pipeline, run=run, number=number, act=act, because=found.why, findings=findings, kind=STREAM
    )
