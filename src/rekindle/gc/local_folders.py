"""What Spark's JVMs keep in local folders: found, weighed, and removed only where it is ours and certainly dead.

Rules
- A folder is ours if our marker lies in it (java/LocalFolders). It belongs to the one process that the marker names.
- It is dead if that process is certainly gone, as seen from this host. From another host or container nobody is seen
  dead.
- Blocks that a shuffle service may still serve are told of and stay.
- Whatever has no marker is somebody's: it is weighed and never touched. A folder around ours goes only if it is empty
  then.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from pathlib import Path

import msgspec

from rekindle.journal.owner import Owner, is_seen_alive, is_seen_dead

MARKER = "_rekindle.json"
BLOCKS = "blockmgr-"
SPARKS = (BLOCKS, "spark-", "executor-")
DEPTH_MAX = 3


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """Whose a folder is. `is_served`: a shuffle service may hand out its blocks when the process is gone."""

    application: str
    host: str
    pid: int
    boot: str = ""
    namespace: str = ""
    started: int = 0
    is_served: bool = False

    @property
    def owner(self) -> Owner:
        return Owner(self.host, self.pid, self.boot, self.namespace, self.started)


class FolderOwner(Enum):
    """What is known of the process that a folder belongs to."""

    LIVING = "its process is alive"
    UNSEEN = "its process cannot be seen from here: another host, another container, or before a restart of this one"
    DEAD = "its process is gone"
    SERVED = "its process is gone, but a shuffle service may serve it"
    UNKNOWN = "it has no marker of Rekindle"


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of one JVM, or one that nobody marked. `application` is empty for that."""

    path: Path
    whose: FolderOwner
    application: str
    files: int
    bytes: int


def find(root: Path) -> list[Folder]:
    """What Spark has below a folder that it was given for its local files."""
    return list(_below(root, 1))


def remove(root: Path, folders: Iterable[Folder]) -> list[Folder]:
    """Remove those below a folder that are ours and dead, and say which they were. What goes meanwhile by itself is no
    error. The folder itself is somebody's, whatever its name."""
    gone = [
        folder for folder in folders if folder.whose is FolderOwner.DEAD and _whose(folder.path)[0] is FolderOwner.DEAD
    ]
    for folder in gone:
        shutil.rmtree(folder.path, ignore_errors=True)
        for above in takewhile(lambda path: path != root, folder.path.parents):
            if above.name.startswith(SPARKS):
                with contextlib.suppress(OSError):
                    above.rmdir()
    return [folder for folder in gone if not folder.path.exists()]


def _below(folder: Path, depth: int) -> Iterator[Folder]:
    for child in sorted(_children(folder)):
        whose, application = _whose(child)
        is_one = whose is not FolderOwner.UNKNOWN or child.name.startswith(BLOCKS) or depth == DEPTH_MAX
        inner = [] if is_one else list(_below(child, depth + 1))
        yield from inner
        files, size = _weight(child, {one.path for one in inner})
        if is_one or files:
            yield Folder(child, whose, application, files, size)


def _children(folder: Path) -> list[Path]:
    try:
        return [Path(one.path) for one in os.scandir(folder) if one.is_dir(follow_symlinks=False) and _is_sparks(one)]
    except OSError:
        return []


def _is_sparks(entry: os.DirEntry[str]) -> bool:
    return entry.name.startswith(SPARKS)


def _whose(folder: Path) -> tuple[FolderOwner, str]:
    try:
        marker = msgspec.json.decode((folder / MARKER).read_bytes(), type=Marker)
    except (OSError, msgspec.MsgspecError):
        return FolderOwner.UNKNOWN, ""
    if not is_seen_dead(marker.owner):
        return FolderOwner.LIVING if is_seen_alive(marker.owner) else FolderOwner.UNSEEN, marker.application
    is_served = marker.is_served and folder.name.startswith(BLOCKS)
    return FolderOwner.SERVED if is_served else FolderOwner.DEAD, marker.application


def _weight(folder: Path, without: set[Path]) -> tuple[int, int]:
    files = size = 0
    for above, inner, names in os.walk(folder):
        inner[:] = [name for name in inner if Path(above, name) not in without]
        for name in names:
            with contextlib.suppress(OSError):
                size += Path(above, name).lstat().st_size
                files += 1
    return files, size
