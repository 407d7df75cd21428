"""S3, Google Cloud Storage and Azure as a store, through obstore (extra `cloud`).

- Put-if-absent is one conditional request. "Already there" and "precondition failed" are `EXISTS`.
- 409, 5xx, timeouts and dropped connections are `UNKNOWN`: the write may have landed, or may still land.
- Only an answer that names a cause no write can survive (no rights, no bucket, a bad name) is `StoreFailed`.
- A conditional write is sent once per call, so that an answer is always the answer to one try. Reads are repeated.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import obstore
from obstore import exceptions
from obstore.store import ObjectStore, from_url

from rekindle.errors import StoreFailed
from rekindle.storage.store import PAGE, Put, StoredObject

PARALLEL_READS = 32
CERTAIN = (
    exceptions.PermissionDeniedError,
    exceptions.UnauthenticatedError,
    exceptions.NotFoundError,
    FileNotFoundError,
    exceptions.InvalidPathError,
    exceptions.NotSupportedError,
)
ABSENT = (exceptions.NotFoundError, FileNotFoundError)
FAILED = (exceptions.BaseError, OSError)
THERE = (exceptions.AlreadyExistsError, exceptions.PreconditionError)


class ObjectStorage:
    """One prefix of a bucket as a store."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None, timeout_seconds: float = 20.0) -> None:
        self._url = url.rstrip("/")
        self._store = _connect(self._url, dict(options or {}), timeout_seconds, tries_more=3)
        self._once = _connect(self._url, dict(options or {}), timeout_seconds, tries_more=0)

    @property
    def name(self) -> str:
        return self._url

    def put_if_absent(self, key: str, body: bytes) -> Put:
        try:
            obstore.put(self._once, key, body, mode="create", use_multipart=False)
        except THERE:
            return Put.EXISTS
        except CERTAIN as error:
            raise self._failed("write", key, error) from error
        except FAILED:
            return Put.UNKNOWN
        return Put.CREATED

    def put(self, key: str, body: bytes) -> None:
        try:
            obstore.put(self._store, key, body, use_multipart=False)
        except FAILED as error:
            raise self._failed("write", key, error) from error

    def get(self, key: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._store, key).bytes())
        except ABSENT:
            return None
        except FAILED as error:
            raise self._failed("read", key, error) from error

    def get_many(self, folder: str, names: Sequence[str]) -> Iterator[bytes | None]:
        if not names:
            return
        with ThreadPoolExecutor(min(PARALLEL_READS, len(names)), "rekindle-read") as pool:
            yield from pool.map(lambda name: self.get(folder + name), names)

    def list_after(self, folder: str, after: str = "") -> list[str]:
        offset = folder + after if after else None
        try:
            pages = obstore.list(self._store, prefix=folder, offset=offset, chunk_size=1000)
            names = [entry["path"].removeprefix(folder) for page in pages for entry in page]
        except FAILED as error:
            raise self._failed("list", folder, error) from error
        return sorted(name for name in names if name > after and "/" not in name)

    def list_folders(self, folder: str) -> list[str]:
        try:
            found = obstore.list_with_delimiter(self._store, prefix=folder or None)["common_prefixes"]
        except FAILED as error:
            raise self._failed("list", folder, error) from error
        return sorted(prefix.rstrip("/").rsplit("/", 1)[-1] for prefix in found)

    def walk(self, folder: str) -> Iterator[list[StoredObject]]:
        try:
            for page in obstore.list(self._store, prefix=folder or None, chunk_size=PAGE):
                yield [
                    StoredObject(one["path"].removeprefix(folder), one["size"], one["last_modified"].timestamp())
                    for one in page
                ]
        except FAILED as error:
            raise self._failed("list", folder, error) from error

    def delete(self, key: str) -> None:
        try:
            obstore.delete(self._store, key)
        except ABSENT:
            return
        except FAILED as error:
            raise self._failed("delete", key, error) from error

    def delete_many(self, folder: str, names: Sequence[str]) -> None:
        try:
            obstore.delete(self._store, [folder + name for name in names])
        except ABSENT:
            for name in names:
                self.delete(folder + name)
        except FAILED as error:
            raise self._failed("delete", f"{len(names)} objects of {folder}", error) from error

    def modified(self, key: str) -> float | None:
        try:
            return obstore.head(self._store, key)["last_modified"].timestamp()
        except ABSENT:
            return None
        except FAILED as error:
            raise self._failed("read the time of", key, error) from error

    def now(self) -> float:
        key = f"_clock/{uuid.uuid4().hex}"
        self.put(key, b"now")
        try:
            found = self.modified(key)
        finally:
            self.delete(key)
        if found is None:
            raise StoreFailed(f"{self.name} does not show an object that was just written ({key})")
        return found

    def _failed(self, act: str, key: str, error: Exception) -> StoreFailed:
        cause = str(error).split("\n")[0][:300]
        return StoreFailed(f"{self.name} did not {act} {key}: {cause}")


def _connect(url: str, options: dict[str, str], timeout_seconds: float, tries_more: int) -> ObjectStore:
    client: dict[str, Any] = {"timeout": f"{timeout_seconds}s", "connect_timeout": "5s"}
    is_plain = options.get("endpoint", "").startswith("http://")
    client["allow_http"] = is_plain or options.pop("allow_http", "false") == "true"
    options.pop("allow_http", None)
    retry = {"max_retries": tries_more, "retry_timeout": timedelta(seconds=timeout_seconds)}
    connect: Any = from_url
    store: ObjectStore = connect(url, client_options=client, retry_config=retry, **options)
    return store
