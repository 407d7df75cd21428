"""gc of one run: look, survey, note, delete; or close it as its master.

Rules
- Nothing is deleted before the diary says what and why. What cannot be noted is not deleted.
- Waste is removed by whoever finds it: twice is harmless. A directory that no journal knows is removed only if the
  journal, read again after the files were seen, still does not know it.
- A run is closed by taking it over: the journal decides between gc and a resume, and the later one is refused. gc takes
  only the run that it judged: not one that somebody had meanwhile, even if they left again, nor one that was pinned.
- The store's clock is asked once: a file that came later is only taken for younger than it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rekindle.errors import AppendRejected, AppendUnknown, Fenced, Refused, StillOwned, StoreFailed
from rekindle.gc import audit_log as diary
from rekindle.gc.audit_log import AuditLog
from rekindle.gc.delete_only_engine import DeleteOnlyEngine
from rekindle.gc.inspect_run import RunInspection, look_at
from rekindle.gc.policy import FileUse, GcAction, GcDecision, Retention, RunCondition, judge_run, use_of
from rekindle.gc.remover import Limits, Remover
from rekindle.gc.survey import FileSet, Survey
from rekindle.journal.lease import STALE_SECONDS
from rekindle.journal.prune import prune
from rekindle.master.state.run_state import RunState
from rekindle.runtime import pins
from rekindle.runtime.opening import close, release
from rekindle.storage.one_clock import with_one_clock
from rekindle.storage.store import Store

CLOSED_FOR_GOOD = "run"
RELEASED = "results"
FOLDERS = "directories"
FILES = "files"
JOURNAL = "journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class GcItem:
    """Something that goes, or would go: what it is, how much, why, and since when it is there."""

    what: str
    why: str
    files: int
    bytes: int
    oldest_ms: int | None
    folders: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GcReport:
    """What gc made of one run, or of one target. `young` files are waste that is not old enough; `trouble` says why
    less was done. Of a stream and its targets it is told how much stays."""

    pipeline: str
    run: str
    number: int
    act: GcAction
    because: str
    left_ms: int | None = None
    findings: tuple[GcItem, ...] = ()
    young: int = 0
    trouble: str = ""
    is_failed: bool = False
    target: str = ""
    kind: str = "batch"
    kept_files: int = 0
    kept_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GcRules:
    """How gc works: how long things are kept, how fast it deletes, and what it may do at all. A run with more than
    `pages_max` pages, or a heap with more than `files_max` files, is left to a gc without these limits; 0 is none."""

    terms: Retention
    limits: Limits = field(default_factory=Limits)
    stale_seconds: float = STALE_SECONDS
    is_dry: bool = False
    may_close: bool = True
    pages_max: int = 0
    files_max: int = 0


class _Overtaken(Exception):
    """Somebody did something with the run after it was judged."""


class RunCollector:
    """One gc over the runs of one pipeline. Several threads may tend runs."""

    def __init__(self, store: Store, pipeline: str, rules: GcRules) -> None:
        self._real = store
        self._store = with_one_clock(store)
        self._pipeline = pipeline
        self._rules = rules
        self._now = self._store.now()
        self._pins = pins.all_pins(store, pipeline)
        self._remover = Remover(store, rules.limits)
        self._diary = AuditLog(store, pipeline, round(self._now * 1000))

    def tend(self, run: str, number: int, *, is_asked: bool = False) -> GcReport:
        """Do what the rules allow with one run. What the store does not do is told, and the next run is next."""
        try:
            look = self._look(run, is_asked)
            verdict = judge_run(look.facts, self._rules.terms)
            return self._act(run, number, look, verdict)
        except (StoreFailed, AppendUnknown, AppendRejected) as error:
            return self._report(
                run, number, GcDecision(GcAction.LEAVE, "the store failed"), trouble=error.message, failed=True
            )
        except Refused as error:
            return self._report(
                run, number, GcDecision(GcAction.LEAVE, RunCondition.UNREADABLE.value), trouble=error.message
            )
        except Exception as error:
            told = f"{type(error).__name__}: {error}".split("\n")[0]
            return self._report(run, number, GcDecision(GcAction.LEAVE, "gc failed"), trouble=told, failed=True)

    def forget_old(self) -> int:
        """Remove what the diary tells of long ago."""
        return 0 if self._rules.is_dry else diary.forget_old(self._store, self._pipeline, round(self._now * 1000))

    def _act(self, run: str, number: int, look: RunInspection, verdict: GcDecision) -> GcReport:
        if verdict.act is GcAction.LEAVE:
            return self._report(run, number, verdict, trouble=look.trouble)
        if verdict.act in (GcAction.CLOSE, GcAction.RELEASE) and not self._rules.may_close:
            verdict = GcDecision(GcAction.SWEEP, verdict.because)
        survey = Survey(look=look, terms=self._rules.terms, now=self._now).walk(self._store, self._rules.pages_max)
        if verdict.act in (GcAction.CLOSE, GcAction.RELEASE):
            return self._close(run, number, look, verdict, survey)
        heaps = self._confirmed(run, survey.ripe(self._rules.files_max))
        if not self._rules.is_dry:
            self._remove(look, heaps)
        return self._report(run, number, verdict, (*_found(heaps), *self._tidy(look, survey)), survey.young())

    def _close(self, run: str, number: int, look: RunInspection, verdict: GcDecision, survey: Survey) -> GcReport:
        everything = survey.results
        finding = GcItem(
            what=CLOSED_FOR_GOOD if verdict.act is GcAction.CLOSE else RELEASED,
            why=verdict.because,
            files=everything.files,
            bytes=everything.bytes,
            oldest_ms=_oldest(everything),
        )
        if self._rules.is_dry:
            return self._report(run, number, verdict, (finding,))
        self._note(look, verdict.act.value, verdict.because, [everything], (f"{look.folder}/",))
        try:
            self._take(run, look, verdict.act)
        except (_Overtaken, StillOwned, Fenced) as error:
            told = str(error).split("\n")[0]
            return self._report(
                run, number, GcDecision(GcAction.LEAVE, "another process changed the run first"), trouble=told
            )
        closed = self._look(run, is_asked=False)
        self._remove(closed, Survey(look=closed, terms=self._rules.terms, now=self._now).walk(self._store).ripe())
        return self._report(run, number, verdict, (finding,))

    def _take(self, run: str, look: RunInspection, act: GcAction) -> None:
        begun = []

        def check(state: RunState | None) -> None:
            if state is None or state.epoch != look.epoch:
                raise _Overtaken("the run was resumed after gc read its journal")
            pins.begin_closing(self._real, self._pipeline, run)
            begun.append(run)
            if not look.facts.is_pinned and pins.find_pin(self._store, self._pipeline, run) is not None:
                raise _Overtaken("the run was pinned after gc read its journal")

        broom = DeleteOnlyEngine(look.folder, self._remover)
        try:
            take = close if act is GcAction.CLOSE else release
            take(self._real, look.folder, broom, stale_seconds=self._rules.stale_seconds, check=check)
        finally:
            if begun:
                pins.end_closing(self._real, self._pipeline, run)

    def _confirmed(self, run: str, heaps: list[FileSet]) -> list[FileSet]:
        """Of what no journal knew, that which it does not know after the files were seen."""
        if all(heap.why != FileUse.UNKNOWN.value for heap in heaps):
            return heaps
        again = self._look(run, is_asked=False)
        return [heap for heap in heaps if heap.attempt is None or self._is_still_waste(heap, again)]

    def _is_still_waste(self, heap: FileSet, again: RunInspection) -> bool:
        return heap.takes is not None or (not again.trouble and use_of(heap.attempt, again.known).is_waste)

    def _remove(self, look: RunInspection, heaps: list[FileSet]) -> None:
        whole = [heap for heap in heaps if heap.takes is None]
        if whole:
            folders = tuple(heap.folder for heap in whole)
            self._note(look, "sweep", "; ".join(sorted({heap.why for heap in whole})), whole, folders)
        for heap in whole:
            self._remover.remove_all(f"{look.folder}/{heap.folder}")
        for heap in heaps:
            if heap.takes is not None:
                self._remove_single(look, heap)

    def _remove_single(self, look: RunInspection, heap: FileSet) -> None:
        """The same question again, of what is there now."""
        assert heap.takes is not None
        folder = f"{look.folder}/{heap.folder}"
        for page in self._store.walk(folder):
            taken = [entry for entry in page if heap.takes(entry)]
            if taken:
                counted = FileSet(folder=heap.folder, why=heap.why)
                for entry in taken:
                    counted.add(entry)
                names = tuple(entry.name for entry in taken)
                self._note(look, "sweep", heap.why, [counted], (heap.folder,), names)
                self._remover.remove(folder, names)

    def _tidy(self, look: RunInspection, survey: Survey) -> tuple[GcItem, ...]:
        """A gc that died while it gave the space of a closed journal back is finished; heartbeats go last."""
        beats = survey.beats
        if not (look.known.is_run_closed and beats.files):
            return ()
        if not self._rules.is_dry:
            self._note(look, "prune", beats.why, [beats], ("journal/", "snapshot/", "heartbeat/"))
            prune(self._store, look.folder)
        return (GcItem(what=JOURNAL, why=beats.why, files=beats.files, bytes=beats.bytes, oldest_ms=_oldest(beats)),)

    def _note(
        self,
        look: RunInspection,
        act: str,
        why: str,
        heaps: list[FileSet],
        folders: tuple[str, ...],
        names: tuple[str, ...] = (),
    ) -> None:
        files, size = sum(heap.files for heap in heaps), sum(heap.bytes for heap in heaps)
        oldest = min((heap.oldest for heap in heaps if heap.files), default=None)
        oldest_ms = None if oldest is None else round(oldest * 1000)
        self._diary.note(
            diary.AuditEntry(
                run=look.folder,
                act=act,
                why=why,
                files=files,
                bytes=size,
                oldest_ms=oldest_ms,
                folders=folders,
                names=names,
            )
        )

    def _look(self, run: str, is_asked: bool) -> RunInspection:
        folder = f"{self._pipeline}/{run}"
        stale = self._rules.stale_seconds
        return look_at(self._store, folder, self._now, stale, is_pinned=run in self._pins, is_asked=is_asked)

    def _report(
        self,
        run: str,
        number: int,
        verdict: GcDecision,
        findings: tuple[GcItem, ...] = (),
        young: int = 0,
        *,
        trouble: str = "",
        failed: bool = False,
    ) -> GcReport:
        because, left_ms = verdict.because, verdict.left_ms
        return GcReport(
            pipeline=self._pipeline,
            run=run,
            number=number,
            act=verdict.act,
            because=because,
            left_ms=left_ms,
            findings=findings,
            young=young,
            trouble=trouble,
            is_failed=failed,
        )


def _found(heaps: list[FileSet]) -> tuple[GcItem, ...]:
    """One line for each reason."""
    found: dict[tuple[str, str], FileSet] = {}
    folders: dict[tuple[str, str], int] = {}
    for heap in heaps:
        key = (FILES if heap.takes else FOLDERS), heap.why
        total = found.setdefault(key, FileSet(folder="", why=heap.why))
        total.oldest = min(total.oldest, heap.oldest) if total.files else heap.oldest
        total.files += heap.files
        total.bytes += heap.bytes
        folders[key] = folders.get(key, 0) + 1
    return tuple(
        GcItem(
            what=what, why=why, files=heap.files, bytes=heap.bytes, oldest_ms=_oldest(heap), folders=folders[what, why]
        )
        for (what, why), heap in found.items()
    )


def _oldest(heap: FileSet) -> int | None:
    return round(heap.oldest * 1000) if heap.files else None
