"""gc of one target: versions that were replaced long ago, and what publishers that died left beside them.

Rules
- The newest version stays. One that was replaced stays for gc.versions_hours and the grace time after that: until then
  it can be read, and whoever began to read it goes on.
- While the run that published the newest version is not over, nothing that was replaced goes: a table, or the link of a
  directory, may still show an older version, because its publisher died before it brought that to the newest.
- A file goes when no pointer names it that stays. Its own pointer goes first: nobody can find it any more.
- A directory that no pointer names was made by a publisher that did not come to its end. It goes when the run of that
  publisher is over, which its name tells, and its files are older than the grace time.
- What `each_partition` noted of a run goes in the same way, when no pointer that stays has a part of that run: a later
  run of its key took its place.
- A target whose newest version is of another pipeline or another location is theirs.
- Nothing is deleted before the audit log says what and why. Whatever else lies there is not ours and stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from rekindle.errors import AppendRejected, AppendUnknown, StoreFailed
from rekindle.gc.audit_log import AuditEntry, AuditLog
from rekindle.gc.collect_run import FILES, GcItem, GcReport, GcRules
from rekindle.gc.policy import GcAction, Retention, is_ripe
from rekindle.gc.remover import Remover
from rekindle.publish.each_partition import NOTED
from rekindle.publish.pointers import POINTERS, SCRATCH, VERSION, VERSIONS, VIEWS, Pointer, decode, fence_in
from rekindle.results.leftovers import without_checksum
from rekindle.storage.store import Store, StoredObject

REPLACED = "its version was replaced long ago"
LEFT = "its publisher did not finish, and its run is over"
OUTDATED = "it was noted of a run that is over, and a later run took its place"
NAMES_IN_ENTRY = 1000

# What goes, by reason: folder and object.
Waste = dict[str, list[tuple[str, StoredObject]]]
# Whether the run of a number, in this location, can publish no more.
IsOver = Callable[[int], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class GcTarget:
    """A target and who asks: its pipeline, and where the runs of that pipeline are counted."""

    pipeline: str
    place: str
    base: str


@dataclass(slots=True)
class _Chain:
    """The pointers of a target: those that stay, and those whose time is over, by name."""

    stays: dict[str, Pointer] = field(default_factory=dict)
    goes: dict[str, Pointer] = field(default_factory=dict)
    entries: dict[str, StoredObject] = field(default_factory=dict)

    def names(self, *, stays: bool) -> dict[str, set[str]]:
        """The files by version directory that these pointers name."""
        found: dict[str, set[str]] = {}
        for pointer in (self.stays if stays else self.goes).values():
            for part in pointer.parts:
                found.setdefault(pointer.folder_of(part), set()).update(name for name, _ in part.files())
            found.setdefault(pointer.version, set())
        return found


class TargetCollector:
    """One gc over the targets of one pipeline. `now` is the time of the store, in seconds."""

    def __init__(self, rules: GcRules, diary: AuditLog, now: float, is_over: IsOver) -> None:
        self._rules, self._diary, self._now, self._is_over = rules, diary, now, is_over

    def tend(self, store: Store, target: GcTarget) -> GcReport:
        """Do what the rules allow with one target."""
        try:
            chain = _read(store, self._rules.terms, self._now)
            top = chain.stays[max(chain.stays)] if chain.stays else None
            if top is None or (top.owner, top.place) != (target.pipeline, target.place):
                because = "nothing is published there" if top is None else "another location publishes to it"
                return _report(target, because, act=GcAction.LEAVE)
            if not self._is_over(top.fence.order):
                chain = _Chain(stays={**chain.goes, **chain.stays}, entries=chain.entries)
            waste = self._waste(store, chain, target.place)
            if not self._rules.is_dry:
                self._remove(store, target, waste)
            return _report(target, "its newest version stays", tuple(_items(waste)))
        except (StoreFailed, AppendUnknown, AppendRejected) as error:
            return _report(target, "the store failed", trouble=error.message, act=GcAction.LEAVE)

    def _waste(self, store: Store, chain: _Chain, place: str) -> Waste:
        """What goes, pointers first."""
        needed, retired = chain.names(stays=True), chain.names(stays=False)
        found: Waste = {REPLACED: [(POINTERS, chain.entries[name]) for name in sorted(chain.goes)], LEFT: []}
        for folder in (f"{VERSIONS}/", f"{VIEWS}/", f"{SCRATCH}/"):
            for page in store.walk(folder):
                for entry in page:
                    version, _, name = entry.name.partition("/")
                    if folder == f"{VERSIONS}/" and version in needed:
                        if (file := without_checksum(name)) in retired.get(version, ()) and file not in needed[version]:
                            found[REPLACED].append((folder, entry))
                    elif folder == f"{VIEWS}/" and version in needed:
                        continue
                    elif version in retired and folder != f"{SCRATCH}/":
                        found[REPLACED].append((folder, entry))
                    elif self._is_left(version, place, entry):
                        found[LEFT].append((folder, entry))
        found[OUTDATED] = self._outdated(store, chain, place)
        return found

    def _outdated(self, store: Store, chain: _Chain, place: str) -> list[tuple[str, StoredObject]]:
        """Notes of runs that nothing is left of."""
        held = {part.run for pointer in chain.stays.values() for part in pointer.parts}
        return [
            (f"{NOTED}/", entry)
            for page in store.walk(f"{NOTED}/")
            for entry in page
            if self._is_left(folder := entry.name.partition("/")[0], place, entry) and _run_in(folder) not in held
        ]

    def _is_left(self, version: str, place: str, entry: StoredObject) -> bool:
        run = _run_in(version)
        if run is None or not is_ripe((self._now - entry.modified) * 1000, self._rules.terms):
            return False
        counted_in, order = run
        return counted_in == place and self._is_over(order)

    def _remove(self, store: Store, target: GcTarget, waste: Waste) -> None:
        remover = Remover(store, self._rules.limits)
        for why, entries in waste.items():
            for start in range(0, len(entries), NAMES_IN_ENTRY):
                some = entries[start : start + NAMES_IN_ENTRY]
                self._diary.note(
                    AuditEntry(
                        run=target.base,
                        act="versions",
                        why=why,
                        files=len(some),
                        bytes=sum(entry.bytes for _, entry in some),
                        oldest_ms=round(min(entry.modified for _, entry in some) * 1000),
                        names=tuple(folder + entry.name for folder, entry in some),
                    )
                )
                remover.remove("", [folder + entry.name for folder, entry in some])


def _read(store: Store, terms: Retention, now: float) -> _Chain:
    chain = _Chain()
    chain.entries = {entry.name: entry for page in store.walk(POINTERS) for entry in page if entry.name.isdigit()}
    names = sorted(chain.entries)
    after = dict(pairwise(names))
    for name, body in zip(names, store.get_many(POINTERS, names), strict=True):
        if body is None:
            continue
        replaced = chain.entries[after[name]].modified if name in after else now
        is_over = (now - replaced) * 1000 > terms.versions_ms + terms.grace_ms
        (chain.goes if is_over else chain.stays)[name] = decode(body)
    return chain


def _run_in(version: str) -> tuple[str, int] | None:
    """The place and the order of the run that made something of this name; None if it is not ours."""
    told = VERSION.match(version.lstrip("."))
    if told is None:
        return None
    counted_in, fence = fence_in(told)
    return counted_in, fence.order


def _items(waste: Waste) -> list[GcItem]:
    return [
        GcItem(
            what=FILES,
            why=why,
            files=len(entries),
            bytes=sum(entry.bytes for folder, entry in entries if folder != f"{VIEWS}/"),
            oldest_ms=round(min(entry.modified for _, entry in entries) * 1000),
        )
        for why, entries in waste.items()
        if entries
    ]


def _report(
    target: GcTarget,
    because: str,
    findings: tuple[GcItem, ...] = (),
    *,
    trouble: str = "",
    act: GcAction = GcAction.SWEEP,
) -> GcReport:
    return GcReport(
        pipeline=target.pipeline,
        run="",
        number=0,
        act=act,
        because=because,
        findings=findings,
        trouble=trouble,
        is_failed=bool(trouble),
        target=target.base,
    )
