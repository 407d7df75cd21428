"""Local or mounted disk as a store.

- A new object is written to an exclusive temporary file, fsynced, linked to its name, the directory fsynced:
  the link is the only instant at which it appears, it appears whole, and it fails where the name exists.
- Names that start with a dot are ours and are never listed: a writer that dies leaves at most one of them, and
  whoever writes into the folder an hour later removes it.
- `EXISTS` is answered only after the directory was fsynced too: its writer may have died before that.
- A key with a level `..` is refused: no name that somebody wrote into the store leads out of it.
- Before the link every error is a certain no (`StoreFailed`). From the link on, an error is `UNKNOWN`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from rekindle.errors import JournalRefused, StoreDenied, StoreFailed
from rekindle.storage.store import LEFTOVER_SECONDS, PAGE, TEMPORARY, Put, StoredObject

# What stays as it is until somebody acts. A full disk is none of them: others may make room.
DENIED = frozenset((errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP))

T = TypeVar("T")
Step = Callable[[str], None]


def _no_step(name: str) -> None:
    """Outside of crash tests nobody watches the steps."""


class LocalDisk:
    """A directory as a store. `step` is told the name of each system call before and after it."""

    def __init__(self, root: Path | str, step: Step = _no_step) -> None:
        self.root = Path(root)
        self._step = step
        self._durable_folders: set[Path] = set()

    @property
    def name(self) -> str:
        return self.root.as_posix()

    def put_if_absent(self, key: str, body: bytes) -> Put:
        path = self._path(key)
        temporary = self._write_temporary(path, body)
        try:
            return self._link(temporary, path)
        finally:
            with contextlib.suppress(OSError):
                self._do("unlink", lambda: temporary.unlink())

    def put(self, key: str, body: bytes) -> None:
        path = self._path(key)
        temporary = self._write_temporary(path, body)
        try:
            temporary.replace(path)
            self._fsync_folder(path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise self._failed("write", key, error) from error

    def get(self, key: str) -> bytes | None:
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failed("read", key, error) from error

    def get_many(self, folder: str, names: Sequence[str]) -> Iterator[bytes | None]:
        base = f"{self.root}/{self._inside(folder).rstrip('/')}/"
        for name in names:
            try:
                descriptor = os.open(base + self._inside(name), os.O_RDONLY)
            except OSError:
                yield self.get(folder + name)
                continue
            try:
                yield _read_all(descriptor)
            except OSError as error:
                raise self._failed("read", folder + name, error) from error
            finally:
                os.close(descriptor)

    def list_after(self, folder: str, after: str = "") -> list[str]:
        return sorted(
            entry.name
            for entry in self._scan(folder)
            if entry.name > after and not entry.name.startswith(".") and not entry.is_dir()
        )

    def list_folders(self, folder: str) -> list[str]:
        return sorted(e.name for e in self._scan(folder) if e.is_dir() and not e.name.startswith("."))

    def walk(self, folder: str) -> Iterator[list[StoredObject]]:
        page: list[StoredObject] = []
        for entry in self._below(self._inside(folder).rstrip("/"), ""):
            page.append(entry)
            if len(page) == PAGE:
                yield page
                page = []
        if page:
            yield page

    def _below(self, folder: str, above: str) -> Iterator[StoredObject]:
        """Links are not followed: what they lead to is not ours. Only one to a file is shown: whoever moved a folder
        elsewhere needs the one to it, also while that cannot be reached."""
        try:
            with os.scandir(f"{self.root}/{folder}") as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        yield from self._below(f"{folder}/{entry.name}", f"{above}{entry.name}/")
                        continue
                    if entry.is_symlink() and not _leads_to_file(entry):
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        yield StoredObject(above + entry.name, found.st_size, found.st_mtime)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._failed("list", folder, error) from error

    def delete(self, key: str) -> None:
        try:
            self._path(key).unlink(missing_ok=True)
        except NotADirectoryError:
            return
        except OSError as error:
            raise self._failed("delete", key, error) from error

    def delete_many(self, folder: str, names: Sequence[str]) -> None:
        """Neither a folder above the one named nor one with something in it is removed."""
        emptied: set[str] = set()
        for name in names:
            self.delete(folder + name)
            levels = name.split("/")[:-1]
            emptied.update("/".join(levels[:depth]) for depth in range(len(levels) + 1))
        for inside in sorted(emptied, key=len, reverse=True):
            with contextlib.suppress(OSError):
                self._path(folder + inside).rmdir()

    def modified(self, key: str) -> float | None:
        try:
            return self._path(key).stat().st_mtime
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failed("read the time of", key, error) from error

    def now(self) -> float:
        temporary = self._write_temporary(self.root / "clock", b"")
        try:
            return temporary.stat().st_mtime
        finally:
            temporary.unlink(missing_ok=True)

    def _write_temporary(self, path: Path, body: bytes) -> Path:
        temporary = path.parent / f"{TEMPORARY}{uuid.uuid4().hex}"
        try:
            self._make_folder(path.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = self._do("open", lambda: os.open(temporary, flags, 0o644))
            try:
                self._do("write", lambda: _write_all(descriptor, body))
                self._do("fsync", lambda: os.fsync(descriptor))
            finally:
                os.close(descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise self._failed("write", path.name, error) from error
        return temporary

    def _link(self, temporary: Path, path: Path) -> Put:
        try:
            self._do("link", lambda: os.link(temporary, path))
            answer = Put.CREATED
        except FileExistsError:
            answer = Put.EXISTS
        except OSError:
            return Put.UNKNOWN
        try:
            self._do("fsync-folder", lambda: self._fsync_folder(path.parent))
        except OSError:
            return Put.UNKNOWN
        return answer

    def _do(self, name: str, act: Callable[[], T]) -> T:
        self._step(f"before {name}")
        result = act()
        self._step(f"after {name}")
        return result

    def _make_folder(self, folder: Path) -> None:
        """Create a folder. Its levels are made durable once, also where another process created them."""
        if folder in self._durable_folders and folder.is_dir():
            return
        self._do("mkdir", lambda: folder.mkdir(parents=True, exist_ok=True))
        for level in (folder, *folder.parents):
            if level == self.root.parent:
                break
            self._do("fsync-parent", partial(self._fsync_folder, level.parent))
        self._durable_folders.add(folder)
        self._sweep(folder)

    def _sweep(self, folder: Path) -> None:
        """Remove what writers that died left here long ago, judged by the disk's own clock."""
        with os.scandir(folder) as entries:
            left = [entry.path for entry in entries if entry.name.startswith(TEMPORARY)]
        if not left:
            return
        now = self.now()
        for path in map(Path, left):
            with contextlib.suppress(OSError):
                if now - path.stat().st_mtime > LEFTOVER_SECONDS:
                    path.unlink()

    def _fsync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _path(self, key: str) -> Path:
        return self.root / self._inside(key)

    def _inside(self, key: str) -> str:
        if key.startswith("/") or ".." in key.split("/"):
            raise JournalRefused(f"{key!r} is outside of {self.name}; Rekindle does not touch it")
        return key

    def _scan(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._path(folder)) as entries:
                return list(entries)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._failed("list", folder, error) from error

    def _failed(self, act: str, key: str, error: OSError) -> StoreFailed:
        kind = StoreDenied if error.errno in DENIED else StoreFailed
        did_not = f"{self.name} did not {act} {key}".rstrip()
        return kind(f"{did_not}: {error.strerror or error}")


def _write_all(descriptor: int, body: bytes) -> None:
    view = memoryview(body)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_all(descriptor: int) -> bytes:
    body = os.read(descriptor, 65536)
    if len(body) < 65536:
        return body
    parts = [body]
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _leads_to_file(link: os.DirEntry[str]) -> bool:
    try:
        return link.is_file()
    except OSError:
        return False
