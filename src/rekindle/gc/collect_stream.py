"""gc of the files of streams in one target: what tries left behind whose batch another try committed, and what
compactions replaced (replaced_batches.py has the rules of that).

Rules
- A batch counts by its entry, which is put only if it is absent, and stays until a compaction has the batch. So a
  directory of a batch whose entry names another directory never counts: whoever wrote it, and however late that driver
  wakes up, the store refuses its entry. In the directory that an entry names, the same is true of a file that the entry
  does not list.
- The fence is no proof. A driver looks at it and may be frozen before it puts its entry: then an older epoch commits
  the batch. So what belongs to a batch without an entry stays, whatever its epoch.
- Where a file that an entry names is gone, nothing of its batch goes: what another try wrote may be all that is left
  of these rows.
- Nothing younger than the grace time goes. Generations that are no streams of this pipeline here are somebody else's.
- Nothing is deleted before the audit log says what and why. Owners are never touched, nor is what a stream has at its
  location: its journal, its checkpoints and its fences.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from rekindle.errors import AppendRejected, AppendUnknown, Refused, StoreFailed
from rekindle.gc.audit_log import AuditLog
from rekindle.gc.batch_removal import batch_item, remove_batches
from rekindle.gc.collect_run import GcReport, GcRules
from rekindle.gc.policy import GcAction, is_ripe
from rekindle.gc.remover import Remover
from rekindle.gc.replaced_batches import MADE, ReplacedBatches, old_views, replaced_batches
from rekindle.publish.stream_entries import BatchEntry, data_folders, find_entry, generation_folder, run_of
from rekindle.results.leftovers import without_checksum
from rekindle.storage.schemes import is_local
from rekindle.storage.store import Store, StoredObject

SUPERSEDED = "another try committed its batch"
UNLISTED = "its task did not commit, and its batch is committed"
REPLACED = "a compaction has its rows"
LEFT = "its compactor did not finish, and another one did"
UNSHOWN = "another view took its place"
KEPT_TARGET = "every batch that counts stays"
DAMAGED = "a batch of it that counts is damaged"
# The kind of a report.
STREAM = "stream"
# BATCH-EPOCH-UUID, made by java/StreamFiles.
TRY = re.compile(r"(\d+)-\d+-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# part-TASK-ATTEMPT…, made by java/StreamCommitProtocol.
PART = re.compile(r"part-(\d+)-(\d+)\b.*")

# The files of a batch by the directories of its tries.
Tries = dict[str, list[StoredObject]]


@dataclass(slots=True)
class _Findings:
    """Of one target: what goes, by reason; what is too young; what stays; and what is wrong."""

    waste: dict[str, list[StoredObject]] = field(
        default_factory=lambda: {why: [] for why in (UNSHOWN, REPLACED, LEFT, SUPERSEDED, UNLISTED)}
    )
    young: int = 0
    files: int = 0
    bytes: int = 0
    trouble: str = ""


class StreamTargetCollector:
    """One gc over the targets of the streams of one pipeline. `now` is the time of the store, in seconds; `runs` are
    the streams of this pipeline here."""

    def __init__(self, rules: GcRules, diary: AuditLog, now: float, runs: Collection[str]) -> None:
        self._rules, self._diary, self._now, self._runs = rules, diary, now, frozenset(runs)

    def tend(self, store: Store, pipeline: str, base: str) -> GcReport:
        """Do what the rules allow with one target."""
        try:
            found = _Findings()
            for region, generation in data_folders(store):
                if run_of(generation) in self._runs:
                    self._look(store, region, generation, found)
            if is_local(base) and not found.trouble:
                found.waste[UNSHOWN] += old_views(store, base, self._is_ripe)
            if not self._rules.is_dry:
                remover = Remover(store, self._rules.limits)
                for why, files in found.waste.items():
                    remove_batches(remover, self._diary, base, why, files)
            return _report(pipeline, base, found, because=DAMAGED if found.trouble else KEPT_TARGET)
        except (StoreFailed, AppendUnknown, AppendRejected) as error:
            failed = _Findings(trouble=error.message)
            return _report(pipeline, base, failed, because="the store failed", is_failed=True)

    def _look(self, store: Store, region: str, generation: str, found: _Findings) -> None:
        folder = generation_folder(region, generation)
        try:
            replaced = replaced_batches(store, region, generation, self._is_ripe)
        except Refused as damaged:
            found.trouble = damaged.message
            return
        tries: dict[int, Tries] = defaultdict(lambda: defaultdict(list))
        made: Tries = defaultdict(list)
        seen: dict[str, int] = {}
        for page in store.walk(folder):
            for entry in page:
                directory, _, name = entry.name.partition("/")
                told = TRY.fullmatch(directory)
                found.files, found.bytes = found.files + 1, found.bytes + entry.bytes
                seen[folder + entry.name] = entry.bytes
                its = tries[int(told.group(1))] if told is not None else made
                its[directory].append(StoredObject(name, entry.bytes, entry.modified))
        if missing := replaced.missing(seen):
            found.trouble = f"{missing} is gone or damaged, and a compaction names it: nothing of {region} was deleted"
            return
        self._judge_replaced(folder, tries, replaced, found)
        self._judge_made(folder, made, replaced, found)
        for batch, its in tries.items():
            if batch <= replaced.decides.through or not _has_more_than_one_try(its):
                continue
            try:
                kept = find_entry(store, region, generation, batch)
            except Refused as damaged:
                found.trouble = damaged.message
                continue
            if kept is not None and _is_whole(store, kept, its, folder, found):
                self._judge(folder, its, kept, found)

    def _judge_replaced(
        self, folder: str, tries: Mapping[int, Tries], replaced: ReplacedBatches, found: _Findings
    ) -> None:
        """What a compaction has: entries first, then files."""
        found.waste[REPLACED] += replaced.objects
        for batch, its in tries.items():
            if batch > replaced.newest.through:
                continue
            for directory, files in its.items():
                waste = [one for one in files if not replaced.is_needed(folder + directory, one.name)]
                is_over = batch <= replaced.decides.through
                self._sort_out(f"{folder}{directory}", [(one, is_over) for one in waste], REPLACED, found)

    def _judge_made(self, folder: str, made: Tries, replaced: ReplacedBatches, found: _Findings) -> None:
        """Directories of compactors."""
        for directory, files in made.items():
            told = MADE.fullmatch(directory)
            if told is None or not replaced.is_left(number := int(told.group(1))):
                continue
            waste = [one for one in files if not replaced.is_needed(folder + directory, one.name)]
            why = REPLACED if number < replaced.decides.number else LEFT
            self._sort_out(f"{folder}{directory}", [(one, True) for one in waste], why, found)

    def _sort_out(self, directory: str, waste: Iterable[tuple[StoredObject, bool]], why: str, found: _Findings) -> None:
        for one, is_over in waste:
            if not is_over or not self._is_ripe(one.modified):
                found.young += 1
                continue
            found.waste[why].append(StoredObject(f"{directory}/{one.name}", one.bytes, one.modified))
            found.files, found.bytes = found.files - 1, found.bytes - one.bytes

    def _is_ripe(self, modified: float) -> bool:
        return is_ripe((self._now - modified) * 1000, self._rules.terms)

    def _judge(self, folder: str, tries: Tries, kept: BatchEntry, found: _Findings) -> None:
        """Sort out the files of a batch whose entry is there, with all that it names."""
        for directory, files in tries.items():
            is_kept = folder + directory == kept.directory
            waste = [one for one in files if not (is_kept and without_checksum(one.name) in kept.files)]
            if any(not self._is_ripe(one.modified) for one in waste):
                found.young += len(waste)
                continue
            goes = [StoredObject(f"{folder}{directory}/{one.name}", one.bytes, one.modified) for one in waste]
            found.waste[UNLISTED if is_kept else SUPERSEDED] += goes
            found.files, found.bytes = found.files - len(goes), found.bytes - sum(one.bytes for one in goes)


def _has_more_than_one_try(tries: Tries) -> bool:
    """Of the batch, or of one of its tasks. Of all others no entry is read: they are nearly all."""
    if len(tries) > 1:
        return True
    parts = {told.groups() for files in tries.values() for one in files if (told := PART.fullmatch(one.name))}
    return any(count > 1 for count in Counter(task for task, _ in parts).values())


def _is_whole(store: Store, kept: BatchEntry, tries: Tries, folder: str, found: _Findings) -> bool:
    """Whether all that the entry names is there. What came while we looked is seen by the next gc."""
    seen = {one.name: one.bytes for one in tries.get(kept.directory.removeprefix(folder), ())}
    for name, length in kept.files.items():
        if name not in seen and store.modified(f"{kept.directory}/{name}") is not None:
            return False
        if seen.get(name) != length:
            found.trouble = (
                f"{kept.directory}/{name} is {'damaged' if name in seen else 'gone'}, and its batch counts: "
                "nothing of that batch was deleted"
            )
            return False
    return True


def _report(pipeline: str, base: str, found: _Findings, *, because: str, is_failed: bool = False) -> GcReport:
    return GcReport(
        pipeline=pipeline,
        run="",
        number=0,
        act=GcAction.LEAVE if is_failed else GcAction.SWEEP,
        because=because,
        findings=tuple(batch_item(why, files) for why, files in found.waste.items() if files),
        young=found.young,
        trouble=found.trouble,
        is_failed=is_failed,
        target=base,
        kind=STREAM,
        kept_files=found.files,
        kept_bytes=found.bytes,
    )
