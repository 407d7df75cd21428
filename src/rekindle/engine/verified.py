"""What is kept and what was published, looked at again: files as they are now, and rows made anew. Values without a
word of the engine's own.

- Looking changes nothing: nothing is written, committed, journaled or deleted.
- A digest is that of a partition's rows, as the journal has it. No digest is no answer, never an equal one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from rekindle.engine.adapter import PrepareRequest
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.state.commands import Input
from rekindle.model.kinds import Determinism
from rekindle.model.partitions import Partitions


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """Files to be read: (partition, path below the folder, bytes), with the schema they were written with."""

    folder: str
    files: tuple[tuple[int, str, int], ...]
    schema: str


class DamageKind(Enum):
    """What is wrong with a file before its rows are compared."""

    MISSING = "the file is missing"
    LENGTH = "the file has another length"
    UNREADABLE = "the file cannot be read"


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """One file that is not what was written."""

    damage: DamageKind
    path: str
    said: str = ""


@dataclass(frozen=True, slots=True)
class FileCheck:
    """What one read of files found: the digest of each that could be read, and faults. `is_read` is False if the schema
    can have no digest: then only names and lengths were looked at."""

    digests: Mapping[int, bytes]
    faults: Mapping[int, DamagedFile]
    is_read: bool = True


@dataclass(frozen=True, slots=True)
class RecomputedPartitions:
    """Partitions made again. `nothing` is the digest of one without rows, empty where the schema can have none.
    `is_bound`: these are all partitions, under numbers that mean something in this application only. `failure` is why
    it could not be done."""

    digests: Mapping[int, bytes]
    nothing: bytes
    is_bound: bool = False
    failure: str = ""


@dataclass(frozen=True, slots=True)
class PublishedFiles:
    """What a target holds of one run: its files, (name, bytes), in the order of the partitions that have rows; None if
    it holds nothing of it. `by` is the run that published last, None if there is nothing. `is_written_again`: rows lie
    in other files than those committed."""

    shown: str
    folder: str
    files: tuple[tuple[str, int], ...] | None
    by: int | None
    is_written_again: bool = False


@dataclass(frozen=True, slots=True)
class VerificationSetup:
    """A pipeline as its code is now. `whole` are the steps of which no partition can be made alone, and how determinate
    all their rows together are; `again` makes partitions of a step from these inputs; `published` looks into the target
    of a sink for what a run, by its order, brought: None where the step is published no more."""

    spec: RunSpec
    whole: Mapping[str, Determinism]
    again: Callable[[str, Partitions, tuple[Input, ...]], RecomputedPartitions]
    published: Callable[[str, int], PublishedFiles | None]


class Verifier(Protocol):
    """The part of an adapter that `verify` needs."""

    def look(self, session: Any, stored: StoredFiles) -> FileCheck:
        """Compare names and lengths, then read every file that is left, once."""
        ...

    def bench(self, session: Any, wanted: PrepareRequest) -> VerificationSetup:
        """Compile and analyse, as for a run. Starts no job."""
        ...
