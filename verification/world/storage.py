"""What outlives every process: the ledger of records, the files of attempts, and the targets of publications.

- A record is put under a number that must be free. The answer may be lost, and a put may land late.
- A file is known by attempt, partition and task try; its contents are a label. Damage shows when it is read.
- A target holds one publication and the fence it came with, and takes only later ones.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from rekindle.master.facts.events import AttemptClosed, AttemptOpened, EpochOpened, Event, Fence, TombstoneWritten
from rekindle.model.ids import AttemptId
from world.values import Label

Events = tuple[Event, ...]
FileKey = tuple[AttemptId, int, int]


class Put(Enum):
    """The answer to a put under a number."""

    CREATED = "created"
    EXISTS = "exists"
    UNKNOWN = "unknown"


class Record:
    """Events under a number, and who wrote them."""

    __slots__ = ("events", "is_own", "writer")

    def __init__(self, writer: int, events: Events) -> None:
        self.writer = writer
        self.events = events
        self.is_own = False


class Ledger:
    """The simulated journal: records by number, with room for slow and lost answers."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.late: list[tuple[int, Record]] = []
        self.opened: set[AttemptId] = set()
        self.ended: set[AttemptId] = set()
        self.owner = -1
        self.is_closed = False
        self.landed: Callable[[Record], None] = lambda record: None

    def put(self, number: int, record: Record) -> Put:
        if self.is_closed or number < len(self.records):
            return Put.EXISTS
        assert number == len(self.records), "a gap in the journal"
        self.records.append(record)
        for event in record.events:
            self._index(record.writer, event)
        record.is_own = self.owner == record.writer
        self.landed(record)
        return Put.CREATED

    def _index(self, writer: int, event: Event) -> None:
        match event:
            case AttemptOpened(attempt):
                self.opened.add(attempt)
            case AttemptClosed(attempt):
                self.ended.add(attempt)
            case EpochOpened():
                self.owner = writer
            case TombstoneWritten():
                self.is_closed = True
            case _:
                pass

    def holds(self, number: int, record: Record) -> bool:
        """Does exactly this record stand under the number?"""
        return number < len(self.records) and self.records[number] is record

    def land_late(self) -> None:
        """Puts that were delayed arrive now, where their number is still free."""
        for number, record in self.late:
            if number == len(self.records) and not self.is_closed:
                self.put(number, record)
        self.late.clear()

    def events(self) -> list[Event]:
        return [event for record in self.records for event in record.events]


class Damage(Enum):
    """What is wrong with a file."""

    NONE = "none"
    TRUNCATED = "truncated"
    FLIPPED = "flipped"


class File:
    """A result partition as one task try wrote it; for caching and memory results a block on an executor."""

    __slots__ = ("damage", "executor", "label")

    def __init__(self, label: Label, executor: int | None = None) -> None:
        self.label = label
        self.damage = Damage.NONE
        self.executor = executor


class Storage:
    """Files and targets."""

    def __init__(self) -> None:
        self.files: dict[FileKey, File] = {}
        self.sealed: set[AttemptId] = set()
        self.deleted: set[AttemptId] = set()
        self.targets: dict[str, tuple[Fence, tuple[Label, ...]]] = {}

    def write(self, key: FileKey, file: File) -> bool:
        """A task's file appears. Behind a seal it appears nowhere that counts."""
        if key[0] in self.sealed or key[0] in self.deleted:
            return False
        self.files[key] = file
        return True

    def tries(self, attempt: AttemptId) -> dict[int, int]:
        """For each partition of the attempt the first whole file there is."""
        found: dict[int, int] = {}
        for one, partition, number in self.files:
            if one == attempt:
                found[partition] = min(number, found.get(partition, number))
        return found

    def delete(self, attempt: AttemptId) -> None:
        self.deleted.add(attempt)
        for key in [key for key in self.files if key[0] == attempt]:
            del self.files[key]

    def publish(self, sink: str, fence: Fence, labels: tuple[Label, ...]) -> Fence | None:
        """Put it into the target; the later fence that stands there, if one does."""
        standing = self.targets.get(sink)
        if standing is not None and standing[0] > fence:
            return standing[0]
        self.targets[sink] = (fence, labels)
        return None
