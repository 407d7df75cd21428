"""What every target is, before anything runs, and what targets share.

Rules
- A target says in one line what a reader sees while it is published; `plan` prints it.
- A target that cannot be replaced in one instant must be asked for as such: `replace(path, atomic=False)`.
- A target checks itself when it is made, so that a mistake is shown at the line that made it.
- Paths are absolute, so that Spark, the store and the next driver mean the same place.
- How it is published is the engine's: one file for each kind there, too (`engine/spark/publish/sinks.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from rekindle.errors import Refused
from rekindle.storage.schemes import is_local, one_spelling, plain_path

OVERWRITE, PARTITION, APPEND, MERGE = "overwrite", "partition", "append", "merge"
MODES = (OVERWRITE, PARTITION, APPEND)
ADDS_SEEN = "; appending replaces what the same parameters appended before, and leaves everything else"


class PublishTarget(Protocol):
    """Where the result of a sink goes: a value.

    shown             its name, for people
    seen              what a reader sees while it is published
    spelling          equal for two targets that are known to be one before anything is asked
    is_versioned      a publication is a directory that never changes and one pointer to it: until the pointer is put,
                      nothing of it can be seen, and the pipeline itself may read older versions
    is_written_once   one run publishes into it, and no other ever
    by_parameters     its fields that may name parameters of the run in braces (templates.py)
    """

    @property
    def shown(self) -> str: ...

    @property
    def seen(self) -> str: ...

    @property
    def spelling(self) -> str: ...

    @property
    def is_versioned(self) -> bool: ...

    @property
    def is_written_once(self) -> bool: ...

    @property
    def by_parameters(self) -> tuple[str, ...]: ...


UNKNOWN, PUT_TRIES_MAX = "unknown", 5


class StoreAnswer(Protocol):
    """The answer to a put-if-absent: its value is "created", "exists" or "unknown"."""

    @property
    def value(self) -> str: ...


class PointerStore(Protocol):
    """The five calls that publishing needs of the storage at a target's location; the journal's store has them."""

    def put_if_absent(self, key: str, body: bytes) -> StoreAnswer:
        """Create `key` unless it exists; of all writers exactly one is told "created"."""
        ...

    def get(self, key: str) -> bytes | None:
        """The bytes of `key`, or None where there is no such object."""
        ...

    def get_many(self, folder: str, names: Sequence[str]) -> Iterator[bytes | None]:
        """The bytes of each name in a folder, in order; in parallel where the store is far away."""
        ...

    def list_after(self, folder: str, after: str = "") -> list[str]:
        """Names of the objects directly in a folder that sort after `after`, sorted."""
        ...

    def list_folders(self, folder: str) -> list[str]:
        """Names of the folders directly in a folder, sorted, without a slash."""
        ...


def is_certainly_put(store: PointerStore, key: str, body: bytes) -> bool:
    """Whether an object of this key is certainly there, ours or another one. An answer that is unknown is asked for
    again, a few times."""
    return any(store.put_if_absent(key, body).value != UNKNOWN for _ in range(PUT_TRIES_MAX))


def url(path: str) -> str:
    """The path with its scheme, in the one spelling that Spark and the stores share."""
    if is_local(path):
        return "file:/" + plain_path(path).strip("/")
    return path.rstrip("/")


def same_place(base: str) -> str:
    """Equal for two spellings of one place."""
    scheme, colon, rest = one_spelling(base).partition(":")
    return f"{scheme}{colon}/{re.sub('/+', '/', rest).strip('/')}"


def store_of(base: str) -> str:
    """The bucket, or the like, in which a place lies: one store, with one way to answer."""
    return "/".join(same_place(base).split("/")[:2])


def check_mode(shown: str, mode: str, known: tuple[str, ...] = MODES) -> None:
    """Refuse a mode that there is not."""
    if mode not in known:
        raise Refused(f"{shown}: mode {mode!r} is not known", f"use one of {', '.join(known)}")


def check_path(path: str) -> None:
    """Refuse a path that two processes could understand differently, or that holds everything."""
    if path.startswith("{"):
        return  # A template: it is checked again when the run has given it its value.
    parts = urlsplit(path)
    if not parts.path.startswith("/") and not parts.netloc:
        raise Refused(f"{path!r} is not an absolute path", "write the whole path or URL of the target")
    if not parts.path.strip("/"):
        raise Refused(f"{path!r} is the root of its storage", "give the target a directory of its own")
