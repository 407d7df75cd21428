"""What a walk over the folder of a run finds: what is needed, and heaps of waste with their reasons.

- Memory grows with the attempts of one run and with the partitions of one attempt, never with files.
- A directory that is waste goes as a whole when its youngest file is old enough. Single files, in a directory that is
  needed, go when they themselves are.
- Whatever lies beside journal, heartbeats, snapshots and results is not ours and is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rekindle.gc.inspect_run import RunInspection
from rekindle.gc.policy import FileUse, Retention, is_ripe, use_of
from rekindle.model.ids import AttemptId
from rekindle.results.leftovers import counted_tasks, is_counted
from rekindle.results.result_paths import RESULTS, attempt_of, directory_of
from rekindle.storage.store import LEFTOVER_SECONDS, TEMPORARY, Store, StoredObject

LEFT_OVER = "no journal record refers to it"
HALF_WRITTEN = "its writer died before it was complete"
OURS = ("journal/", "heartbeat/", "snapshot/")

# Whether a file of a heap's folder, by its name in it, belongs to the heap.
Takes = Callable[[StoredObject], bool]


@dataclass(slots=True, kw_only=True)
class FileSet:
    """Files that go together. `takes` picks single ones of the folder; without it the folder goes as a whole."""

    folder: str
    why: str
    attempt: AttemptId | None = None
    takes: Takes | None = None
    files: int = 0
    bytes: int = 0
    oldest: float = 0.0
    youngest: float = 0.0

    def add(self, entry: StoredObject) -> None:
        self.oldest = min(self.oldest, entry.modified) if self.files else entry.modified
        self.youngest = max(self.youngest, entry.modified)
        self.files += 1
        self.bytes += entry.bytes


@dataclass(slots=True, kw_only=True)
class Survey:
    """The walk over one run. `now` is the store's time, `results` all files of results together."""

    look: RunInspection
    terms: Retention
    now: float
    results: FileSet = field(default_factory=lambda: FileSet(folder=f"{RESULTS}/", why=""))
    beats: FileSet = field(default_factory=lambda: FileSet(folder="", why="its run is closed"))
    heaps: dict[str, FileSet] = field(default_factory=dict)
    is_cut: bool = False
    _at: tuple[AttemptId | None, Callable[[StoredObject], None]] | None = None

    def walk(self, store: Store, pages_max: int = 0) -> Survey:
        for number, page in enumerate(store.walk(f"{self.look.folder}/"), 1):
            if pages_max and number > pages_max:
                self.is_cut = True
                break
            for entry in page:
                self._add(entry)
        return self

    def ripe(self, files_max: int = 0) -> list[FileSet]:
        """The heaps that may go now. Of a walk that was cut short none: nobody knows how young a heap's rest is."""
        heaps = [] if self.is_cut else self.heaps.values()
        old = [heap for heap in heaps if heap.takes or self._is_old(heap.youngest)]
        return [heap for heap in old if not files_max or heap.files <= files_max]

    def young(self) -> int:
        """How many files are waste that is not old enough."""
        return sum(heap.files for heap in self.heaps.values() if not heap.takes and not self._is_old(heap.youngest))

    def _add(self, entry: StoredObject) -> None:
        if entry.name.startswith(f"{RESULTS}/"):
            self.results.add(entry)
            attempt = attempt_of(entry.name)
            if self._at is None or self._at[0] != attempt:
                self._at = attempt, self._adder(attempt)
            self._at[1](entry)
        elif self._is_half_written(entry):
            self._heap("", HALF_WRITTEN, takes=self._is_half_written).add(entry)
        elif entry.name.startswith(OURS[1:]):
            self.beats.add(entry)

    def _adder(self, attempt: AttemptId | None) -> Callable[[StoredObject], None]:
        """What to do with the files of one attempt."""
        use = use_of(attempt, self.look.known)
        if use is FileUse.AFTER_CLOSE:
            return self._heap(f"{RESULTS}/", use.value).add
        if attempt is None:
            stray = self._heap(f"{RESULTS}/", use.value, takes=self._is_stray)
            return lambda entry: stray.add(entry) if self._is_old(entry.modified) else None
        folder = f"{directory_of(attempt)}/"
        if use.is_waste:
            return self._heap(folder, use.value, attempt).add
        takes = self._left_over(attempt) if use is FileUse.COUNTED else None
        if takes is None:
            return lambda entry: None
        return lambda entry: self._add_single(folder, attempt, takes, entry)

    def _add_single(self, folder: str, attempt: AttemptId, takes: Takes, entry: StoredObject) -> None:
        if takes(entry._replace(name=entry.name.removeprefix(folder))):
            self._heap(folder, LEFT_OVER, attempt, takes).add(entry)

    def _heap(self, folder: str, why: str, attempt: AttemptId | None = None, takes: Takes | None = None) -> FileSet:
        found = self.heaps.get(folder)
        if found is None:
            found = self.heaps[folder] = FileSet(folder=folder, why=why, attempt=attempt, takes=takes)
        return found

    def _left_over(self, attempt: AttemptId) -> Takes | None:
        tasks = counted_tasks(self.look.segments_of(attempt))
        if tasks is None:
            return None
        return lambda entry: self._is_old(entry.modified) and not is_counted(entry.name, tasks)

    def _is_stray(self, entry: StoredObject) -> bool:
        return self._is_old(entry.modified) and attempt_of(f"{RESULTS}/{entry.name}") is None

    def _is_half_written(self, entry: StoredObject) -> bool:
        """A temporary file of the store; one that is young may have a living writer."""
        is_temporary = entry.name.startswith(tuple(f"{folder}{TEMPORARY}" for folder in OURS))
        return is_temporary and self.now - entry.modified > LEFTOVER_SECONDS and self._is_old(entry.modified)

    def _is_old(self, modified: float) -> bool:
        return is_ripe((self.now - modified) * 1000, self.terms)
