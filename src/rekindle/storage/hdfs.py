"""HDFS as a store, over WebHDFS: no JVM is needed.

- A new object is written to a file of a name that nobody else has, closed, and renamed without overwriting: the rename
  is one act of the namenode, the only instant at which the object appears, whole, and it fails where the name exists.
- A file is never created under its own name: a writer that dies would leave an empty one there, and block its number.
- Before the rename every error is a certain no (`StoreFailed`), and what was tried is tried again under another name,
  also where HDFS had no datanode that kept up.
  A rename is sent once. One without an answer is `UNKNOWN`, and its source is removed: it cannot be done later.
- Temporary files have names that begin with a dot, and are never listed; whoever writes into the folder an hour later
  removes those of writers that died.
- The path of the URL is taken as it stands: `%`, `#` and `?` are letters, as they are for Spark.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NoReturn, TypeVar

import msgspec

from rekindle.errors import JournalRefused, StoreDenied, StoreFailed
from rekindle.storage.hadoop_settings import no_kerberos, servers_of
from rekindle.storage.store import LEFTOVER_SECONDS, PAGE, TEMPORARY, Put, StoredObject
from rekindle.storage.webhdfs import UNKNOWN_USER, HdfsClient, HdfsRefused, NoAnswer, NoServer

PARALLEL = 16
# Between tries of what may be done twice.
PAUSES_SECONDS = (0.1, 1.0)
EXISTS, ABSENT = "FileAlreadyExistsException", "FileNotFoundException"
# What stays as it is until somebody acts. A quota is none of them: others may make room.
DENIED = frozenset(
    (
        "AccessControlException",
        "SecurityException",
        "AuthorizationException",
        "ParentNotDirectoryException",
        "InvalidPathException",
        "IllegalArgumentException",
        "UnsupportedOperationException",
    )
)
# What a busy HDFS says of a block that it has not yet, or of a call that it wants again: it passes.
BUSY = frozenset(("IOException", "RetriableException", "ServerTooBusyException"))
WEB = (HdfsRefused, NoAnswer, NoServer)

T = TypeVar("T")


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    path_suffix: str
    type: str
    length: int
    modification_time: int

    @property
    def is_folder(self) -> bool:
        return self.type == "DIRECTORY"

    @property
    def modified(self) -> float:
        return self.modification_time / 1000


class _Found(msgspec.Struct, frozen=True):
    status: _Status = msgspec.field(name="FileStatus")


class _Statuses(msgspec.Struct, frozen=True):
    status: list[_Status] = msgspec.field(name="FileStatus")


class _Partial(msgspec.Struct, frozen=True):
    statuses: _Statuses = msgspec.field(name="FileStatuses")


class _Listing(msgspec.Struct, frozen=True, rename="camel"):
    partial_listing: _Partial
    remaining_entries: int


class _Listed(msgspec.Struct, frozen=True):
    listing: _Listing = msgspec.field(name="DirectoryListing")


class HdfsStore:
    """A folder of HDFS as a store."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None, timeout_seconds: float = 20.0) -> None:
        self._url = url.rstrip("/")
        authority, _, path = self._url.partition("://")[2].partition("/")
        self._root = f"/{path}".rstrip("/")
        servers = servers_of(authority, options or {})
        self._web = HdfsClient(servers.urls, servers.user, timeout_seconds)
        self._swept: set[str] = set()

    @property
    def name(self) -> str:
        return self._url

    def put_if_absent(self, key: str, body: bytes) -> Put:
        path = self._path(key)
        made = self._write_temporary(key, body)
        try:
            # A gateway that does not know the option answers with a word, and may have done something else.
            return Put.UNKNOWN if self._renamed(made, path, "NONE") else Put.CREATED
        except HdfsRefused as error:
            self._forget(made)
            if error.name == EXISTS:
                return Put.EXISTS
            self._fail("write", key, error)
        except NoServer as error:
            self._forget(made)
            self._fail("write", key, error)
        except NoAnswer:
            self._forget(made)
            return Put.UNKNOWN

    def put(self, key: str, body: bytes) -> None:
        made = self._write_temporary(key, body)
        try:
            if self._renamed(made, self._path(key), "OVERWRITE"):
                raise NoAnswer("the server does not say whether it replaced the object")
        except WEB as error:
            self._forget(made)
            self._fail("write", key, error)

    def get(self, key: str) -> bytes | None:
        path = self._path(key)
        return self._asked("read", key, lambda: self._web.read(path))

    def get_many(self, folder: str, names: Sequence[str]) -> Iterator[bytes | None]:
        if not names:
            return
        with ThreadPoolExecutor(min(PARALLEL, len(names)), "rekindle-read") as pool:
            yield from pool.map(lambda name: self.get(folder + name), names)

    def list_after(self, folder: str, after: str = "") -> list[str]:
        return sorted(one.path_suffix for one in self._visible(folder, after) if not one.is_folder)

    def list_folders(self, folder: str) -> list[str]:
        return sorted(one.path_suffix for one in self._visible(folder) if one.is_folder)

    def walk(self, folder: str) -> Iterator[list[StoredObject]]:
        page: list[StoredObject] = []
        folders = [""]
        while folders:
            above = folders.pop()
            for one in self._below(folder + above):
                name = above + one.path_suffix
                if one.is_folder:
                    folders.append(f"{name}/")
                    continue
                page.append(StoredObject(name, one.length, one.modified))
                if len(page) == PAGE:
                    yield page
                    page = []
        if page:
            yield page

    def delete(self, key: str) -> None:
        path = self._path(key)
        self._asked("delete", key, lambda: self._web.ask("DELETE", path, recursive="false"))

    def delete_many(self, folder: str, names: Sequence[str]) -> None:
        """Neither a folder above the one named nor one with something in it is removed."""
        if not names:
            return
        with ThreadPoolExecutor(min(PARALLEL, len(names)), "rekindle-delete") as pool:
            list(pool.map(lambda name: self.delete(folder + name), names))
        levels = [name.split("/")[:-1] for name in names]
        emptied = {"/".join(one[:depth]) for one in levels for depth in range(len(one) + 1)}
        for inside in sorted(emptied, key=len, reverse=True):
            with suppress(*WEB):
                self._web.ask("DELETE", self._path(folder + inside), recursive="false")

    def modified(self, key: str) -> float | None:
        found = self._status(self._path(key), key)
        return None if found is None else found.modified

    def now(self) -> float:
        made = self._write_temporary("clock", b"")
        try:
            found = self._status(made, "clock")
        finally:
            self._forget(made)
        if found is None:
            raise StoreFailed(f"{self.name} does not show a file that was just written ({made})")
        return found.modified

    def _write_temporary(self, key: str, body: bytes) -> str:
        """The path of a new file beside the key, closed and durable. Each try has a name of its own."""
        folder = key.rpartition("/")[0]
        self._sweep(folder)

        def write() -> str:
            made = self._path(f"{folder}/{TEMPORARY}{uuid.uuid4().hex}".lstrip("/"))
            try:
                self._web.create(made, body)
            except (NoAnswer, HdfsRefused):
                self._forget(made)
                raise
            return made

        return self._tried("write", key, write)

    def _renamed(self, made: str, path: str, option: str) -> bytes:
        return self._web.ask("RENAME", made, destination=path, renameoptions=option)

    def _forget(self, made: str) -> None:
        """A file that was not renamed, or is not to be. One that stays is removed an hour later."""
        with suppress(*WEB):
            self._web.ask("DELETE", made, recursive="false")

    def _sweep(self, folder: str) -> None:
        """Remove what writers that died left here long ago, judged by the store's own clock; once per folder."""
        if folder in self._swept:
            return
        self._swept.add(folder)
        left = []
        for one in self._below(folder, TEMPORARY):
            if not one.path_suffix.startswith(TEMPORARY):
                break
            left.append(one)
        now = self.now() if left else 0.0
        for one in left:
            if now - one.modified > LEFTOVER_SECONDS:
                self._forget(self._path(f"{folder}/{one.path_suffix}".lstrip("/")))

    def _visible(self, folder: str, after: str = "") -> Iterator[_Status]:
        return (one for one in self._below(folder, after) if not one.path_suffix.startswith("."))

    def _below(self, folder: str, after: str = "") -> Iterator[_Status]:
        """What is directly in a folder, sorted by name, from behind a name."""
        path = self._path(folder)
        while True:
            listing = self._asked("list", folder, partial(self._page, path, after))
            if listing is None:
                return
            found = listing.partial_listing.statuses.status
            yield from (one for one in found if one.path_suffix)
            if not listing.remaining_entries or not found:
                return
            after = found[-1].path_suffix

    def _page(self, path: str, after: str) -> _Listing:
        return _decoded(self._web.ask("LISTSTATUS_BATCH", path, startAfter=after), _Listed).listing

    def _status(self, path: str, key: str) -> _Status | None:
        found = self._asked("read the time of", key, lambda: _decoded(self._web.ask("GETFILESTATUS", path), _Found))
        return None if found is None else found.status

    def _asked(self, act: str, key: str, ask: Callable[[], T]) -> T | None:
        """None where there is nothing of that name."""

        def ask_once() -> T | None:
            try:
                return ask()
            except HdfsRefused as error:
                if error.name == ABSENT:
                    return None
                raise

        return self._tried(act, key, ask_once)

    def _tried(self, act: str, key: str, attempt: Callable[[], T]) -> T:
        """What may be done twice. Who was not answered tries again, and so does who came to a busy server."""
        for seconds in (*PAUSES_SECONDS, None):
            try:
                return attempt()
            except (NoServer, NoAnswer) as error:
                if seconds is None:
                    self._fail(act, key, error)
                time.sleep(seconds)
            except HdfsRefused as error:
                if seconds is None or error.name not in BUSY:
                    self._fail(act, key, error)
                time.sleep(seconds)
        raise AssertionError("the last try returns or raises")

    def _fail(self, act: str, key: str, error: Exception) -> NoReturn:
        if isinstance(error, HdfsRefused) and error.name == UNKNOWN_USER:
            raise no_kerberos(self.name) from error
        is_denied = isinstance(error, HdfsRefused) and (error.name in DENIED or error.name.startswith("status "))
        kind = StoreDenied if is_denied else StoreFailed
        raise kind(f"{f'{self.name} did not {act} {key}'.rstrip()}: {str(error)[:300]}") from error

    def _path(self, key: str) -> str:
        if key.startswith("/") or ".." in key.split("/"):
            raise JournalRefused(f"{key!r} is outside of {self.name}; Rekindle does not touch it")
        return f"{self._root}/{key}".rstrip("/") or "/"


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise NoAnswer(f"the answer is not one of WebHDFS: {error}") from error
