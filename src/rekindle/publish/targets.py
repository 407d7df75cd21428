"""Where a sink's result goes. Values only: what can be said, and refused, before anything runs.

Rules
- A target says in one line what a reader sees while it is published; `plan` prints it.
- A target that cannot be replaced in one instant must be asked for as such: `replace(path, atomic=False)`.
- A target checks itself when it is made, so that a mistake is shown at the line that made it.
- Paths are absolute, so that Spark, the store and the next driver mean the same place.
- Only a session-catalog table of Parquet files can be published to: its location is the one thing that changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from rekindle.errors import Refused
from rekindle.storage.schemes import is_local, one_spelling, plain_path

SESSION_CATALOG = "spark_catalog"
APPEND = "append"
MODES = ("overwrite", APPEND)
ADDS_SEEN = "; appending copies what is there, and replaces what the same parameters appended before"
IDENTIFIER = re.compile(r"[A-Za-z0-9_]+")


class Answer(Protocol):
    """The answer to a put-if-absent: its value is "created", "exists" or "unknown"."""

    @property
    def value(self) -> str: ...


class PointerStore(Protocol):
    """The three calls that publishing needs of the storage at a target's location; the journal's store has them."""

    def put_if_absent(self, key: str, body: bytes) -> Answer:
        """Create `key` unless it exists; of all writers exactly one is told "created"."""
        ...

    def get(self, key: str) -> bytes | None:
        """The bytes of `key`, or None where there is no such object."""
        ...

    def list_after(self, folder: str, after: str = "") -> list[str]:
        """Names of the objects directly in a folder that sort after `after`, sorted."""
        ...


@dataclass(frozen=True, slots=True)
class Table:
    """A table of Spark's session catalog. Each publication is a version directory and one change of the location."""

    name: str
    mode: str
    location: str | None

    @property
    def shown(self) -> str:
        return f"table {self.name}"

    @property
    def adds(self) -> bool:
        """What other keys (pipeline and parameters) published stays; the same key replaces its own rows."""
        return self.mode == APPEND

    @property
    def seen(self) -> str:
        """What a reader sees while it is published."""
        adds = ADDS_SEEN if self.adds else ""
        return (
            "the old version or the new one, whole; a session that has read the table sees the old one "
            f"until REFRESH TABLE{adds}"
        )

    def identifier(self, database: str) -> tuple[str, str]:
        """(database, table), with the session's database where the name has none."""
        *rest, table = self.name.split(".")
        return (rest[-1] if rest else database), table

    def __post_init__(self) -> None:
        parts = self.name.split(".")
        if not all(IDENTIFIER.fullmatch(part) for part in parts) or len(parts) > 3:
            raise Refused(f"{self.name!r} is not a table name", "write table, database.table or spark_catalog.…")
        if len(parts) == 3 and parts[0] != SESSION_CATALOG:
            raise Refused(
                f"{self.name} is not in Spark's session catalog, and Rekindle cannot change its location",
                "publish to a table of spark_catalog, or to files(path)",
            )
        _check_mode(self.shown, self.mode)
        if self.location is not None:
            _check_path(self.location)


@dataclass(frozen=True, slots=True)
class Directory:
    """A new directory: written once, by one run."""

    path: str

    @property
    def shown(self) -> str:
        return f"directory {self.path}"

    @property
    def seen(self) -> str:
        if is_local(self.path):
            return "no directory, then the whole one: it appears by one rename"
        return "files that appear one by one; the directory is whole when it has its _SUCCESS"

    def __post_init__(self) -> None:
        _check_path(self.path)


@dataclass(frozen=True, slots=True)
class Files:
    """Versioned files: `versions/<version>/part-*` and numbered pointers, the highest of which names the version."""

    path: str
    mode: str

    @property
    def shown(self) -> str:
        return f"files {self.path}"

    @property
    def adds(self) -> bool:
        """What other keys (pipeline and parameters) published stays; the same key replaces its own rows."""
        return self.mode == APPEND

    @property
    def seen(self) -> str:
        adds = ADDS_SEEN if self.adds else ""
        return f"the version of the newest pointer, whole; an older version stays readable{adds}"

    def __post_init__(self) -> None:
        _check_path(self.path)
        _check_mode(self.shown, self.mode)


@dataclass(frozen=True, slots=True)
class Replace:
    """A bare directory whose files are exchanged one by one."""

    path: str

    @property
    def shown(self) -> str:
        return f"directory {self.path}, replaced in place"

    @property
    def seen(self) -> str:
        return (
            "NOT ATOMIC: rows of the old and the new result together, or some of them, until the publication "
            "is complete; after a crash until the run is resumed. Files that lie in it before the first publication "
            "are removed; directories below it, and files that others put there later, are not: it is refused then"
        )

    def __post_init__(self) -> None:
        _check_path(self.path)


Target = Table | Directory | Files | Replace


def table(name: str, mode: str = "overwrite", location: str | None = None) -> Table:
    """A catalog table; `location` is where a new one keeps its versions, else the catalog's place for it."""
    return Table(name, mode, location)


def directory(path: str) -> Directory:
    """A directory that does not exist yet."""
    return Directory(path)


def files(path: str, mode: str = "overwrite") -> Files:
    """Versioned files below `path`; read the newest with `read_newest`."""
    return Files(path, mode)


def replace(path: str, *, atomic: bool = True) -> Replace:
    """A bare directory, replaced file by file: only as `atomic=False`."""
    if atomic:
        raise Refused(
            f"{path}: a bare directory cannot be replaced in one instant, a reader may see old and new rows",
            "ask for it with replace(path, atomic=False), or use files(path) or table(name)",
        )
    return Replace(path)


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


def _check_mode(shown: str, mode: str) -> None:
    if mode not in MODES:
        raise Refused(f"{shown}: mode {mode!r} is not known", f"use one of {', '.join(MODES)}")


def _check_path(path: str) -> None:
    parts = urlsplit(path)
    if not parts.path.startswith("/") and not parts.netloc:
        raise Refused(f"{path!r} is not an absolute path", "write the whole path or URL of the target")
    if not parts.path.strip("/"):
        raise Refused(f"{path!r} is the root of its storage", "give the target a directory of its own")
