"""The store port: what Rekindle asks of the storage that already holds the data.

- Put-if-absent is the one primitive: of all writers of one key, exactly one is told `CREATED`.
- `EXISTS` is a certain no: other bytes stand there, or our own from an earlier try. `UNKNOWN` is not a no.
- An object is seen whole or not at all, and what was answered `CREATED` is durable and listed from then on.
- Ages are judged by the store's own clock: `modified` and `now` come from it, never from this host.
- A folder is a prefix that ends in a slash; listings return the names in it, sorted, without the prefix. A walk is the
  only call that shows everything, names that begin with a dot too, and it promises no order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

PAGE = 1000
# How the names of half-written files begin where a store has some, and the age from which nobody writes them any more.
TEMPORARY = ".put-"
LEFTOVER_SECONDS = 3600.0


class Put(Enum):
    """The answer to a put-if-absent."""

    CREATED = "created"
    EXISTS = "exists"
    UNKNOWN = "unknown"


class StoredObject(NamedTuple):
    """One object of a walk: its name below the folder, its size, and when it was written, by the store's clock."""

    name: str
    bytes: int
    modified: float


class Store(Protocol):
    """A folder of objects. Every method may raise `StoreFailed`, which means: certainly not done."""

    @property
    def name(self) -> str:
        """How messages call this store: its url."""
        ...

    def put_if_absent(self, key: str, body: bytes) -> Put:
        """Create `key` unless it exists. Returning is the promise that the answer is durable."""
        ...

    def put(self, key: str, body: bytes) -> None:
        """Write `key`, whatever was there. Only for heartbeats: a fact never uses it."""
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

    def walk(self, folder: str) -> Iterator[list[StoredObject]]:
        """All objects below a folder, however deep, in pages of at most `PAGE`: memory does not grow with their number.
        What is deleted meanwhile may be missing; what is there all the time is shown."""
        ...

    def delete(self, key: str) -> None:
        """Remove `key`. Removing what is not there is no error."""
        ...

    def delete_many(self, folder: str, names: Sequence[str]) -> None:
        """Remove these names below a folder, in as few requests as the store can; also the folders that this empties,
        where a store has folders."""
        ...

    def modified(self, key: str) -> float | None:
        """When `key` was last written, by the store's clock, in seconds."""
        ...

    def now(self) -> float:
        """The store's time, in seconds: the time of an object written for this question."""
        ...
