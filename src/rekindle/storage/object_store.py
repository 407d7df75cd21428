"""S3, Google Cloud Storage and Azure as a store, through obstore (extra `cloud`).

- Put-if-absent is one conditional request. "Already there" and "precondition failed" are `EXISTS`.
- 409, 5xx, timeouts and dropped connections are `UNKNOWN`: the write may have landed, or may still land.
- Only an answer that names a cause no write can survive (no rights, no bucket, a bad name) is `StoreFailed`, and it is
  `StoreDenied`: a retry cannot help.
- Without credentials no request is sent. They are missing where the client asked the machine's metadata service and got
  none; where they were there before, the service may answer again.
- A conditional write is sent once per call, so that an answer is always the answer to one try. Reads are repeated.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import obstore
from obstore import exceptions
from obstore.store import ObjectStore, from_url

from rekindle.errors import Refused, StoreDenied, StoreFailed
from rekindle.remedies import StartRemedy, TextRemedy
from rekindle.storage.schemes import scheme_of
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
# Of a list the client tells the answer in its text alone: no credentials that count, no rights, no bucket.
DENIED = re.compile(r"\bstatus code: 40[134]\b")
THERE = (exceptions.AlreadyExistsError, exceptions.PreconditionError)
# Hosts that a client asks for credentials where it was given none.
AZURE, ACCOUNT = ("abfs", "abfss"), "account_name"
METADATA = ("169.254.169.254", "169.254.170.2", "metadata.google.internal")
# What a client looks for, by the scheme of the store.
CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (the files in ~/.aws are not read)",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS to the path of a key file",
    "abfs": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "abfss": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


class ObjectStorage:
    """One prefix of a bucket as a store."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None, timeout_seconds: float = 20.0) -> None:
        self._url = url.rstrip("/")
        self._store = _connect(self._url, dict(options or {}), timeout_seconds, tries_more=3)
        self._once = _connect(self._url, dict(options or {}), timeout_seconds, tries_more=0)
        self._had_credentials = False

    @property
    def name(self) -> str:
        return self._url

    @contextmanager
    def _asking(self, act: str, key: str) -> Iterator[None]:
        """Whoever was answered once had credentials: without them later, the place that gives them is out of order."""
        try:
            yield
        except FAILED as error:
            raise self._failed(act, key, error) from error
        self._had_credentials = True

    def put_if_absent(self, key: str, body: bytes) -> Put:
        try:
            obstore.put(self._once, key, body, mode="create", use_multipart=False)
        except THERE:
            self._had_credentials = True
            return Put.EXISTS
        except CERTAIN as error:
            raise self._failed("write", key, error) from error
        except FAILED as error:
            if self._has_no_credentials(error):
                raise self._failed("write", key, error) from error
            return Put.UNKNOWN
        self._had_credentials = True
        return Put.CREATED

    def put(self, key: str, body: bytes) -> None:
        with self._asking("write", key):
            obstore.put(self._store, key, body, use_multipart=False)

    def get(self, key: str) -> bytes | None:
        with self._asking("read", key), suppress(*ABSENT):
            return bytes(obstore.get(self._store, key).bytes())
        return None

    def get_many(self, folder: str, names: Sequence[str]) -> Iterator[bytes | None]:
        if not names:
            return
        with ThreadPoolExecutor(min(PARALLEL_READS, len(names)), "rekindle-read") as pool:
            yield from pool.map(lambda name: self.get(folder + name), names)

    def list_after(self, folder: str, after: str = "") -> list[str]:
        offset = folder + after if after else None
        with self._asking("list", folder):
            pages = obstore.list(self._store, prefix=folder, offset=offset, chunk_size=1000)
            names = [entry["path"].removeprefix(folder) for page in pages for entry in page]
        return sorted(name for name in names if name > after and "/" not in name)

    def list_folders(self, folder: str) -> list[str]:
        with self._asking("list", folder):
            found = obstore.list_with_delimiter(self._store, prefix=folder or None)["common_prefixes"]
        return sorted(prefix.rstrip("/").rsplit("/", 1)[-1] for prefix in found)

    def walk(self, folder: str) -> Iterator[list[StoredObject]]:
        pages = iter(obstore.list(self._store, prefix=folder or None, chunk_size=PAGE))
        while True:
            with self._asking("list", folder):
                page = next(pages, None)
            if page is None:
                return
            yield [
                StoredObject(one["path"].removeprefix(folder), one["size"], one["last_modified"].timestamp())
                for one in page
            ]

    def delete(self, key: str) -> None:
        with self._asking("delete", key), suppress(*ABSENT):
            obstore.delete(self._store, key)

    def delete_many(self, folder: str, names: Sequence[str]) -> None:
        with self._asking("delete", f"{len(names)} objects of {folder}"):
            try:
                obstore.delete(self._store, [folder + name for name in names])
            except ABSENT:
                for name in names:
                    self.delete(folder + name)

    def modified(self, key: str) -> float | None:
        with self._asking("read the time of", key), suppress(*ABSENT):
            return obstore.head(self._store, key)["last_modified"].timestamp()
        return None

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
        did_not = f"{self.name} did not {act} {key}".rstrip()
        if self._has_no_credentials(error):
            missing = TextRemedy(f"{CREDENTIALS[scheme_of(self._url)]}, or give this machine a role")
            return StoreDenied(f"{did_not}: no credentials were found", (missing, StartRemedy(to="then")))
        cause = str(error).split("\n")[0][:300]
        is_denied = isinstance(error, CERTAIN) or DENIED.search(str(error))
        return (StoreDenied if is_denied else StoreFailed)(f"{did_not}: {cause}")

    def _has_no_credentials(self, error: Exception) -> bool:
        return not self._had_credentials and any(host in str(error) for host in METADATA)


def _without_account(url: str, options: dict[str, str]) -> dict[str, str]:
    """A URL of Azure names its account, and the client takes it from one place only. An option that names another one
    is refused: nobody could tell whose container was meant."""
    account = url.partition("@")[2].partition(".")[0] if scheme_of(url) in AZURE else ""
    named = options.get(ACCOUNT, account)
    if account and named != account:
        raise Refused(f"{url} names the account {account}, and the option {ACCOUNT} {named}", f"leave out {ACCOUNT}")
    return {name: value for name, value in options.items() if not (account and name == ACCOUNT)}


def _connect(url: str, options: dict[str, str], timeout_seconds: float, tries_more: int) -> ObjectStore:
    options = _without_account(url, options)
    client: dict[str, Any] = {"timeout": f"{timeout_seconds}s", "connect_timeout": "5s"}
    is_plain = options.get("endpoint", "").startswith("http://")
    client["allow_http"] = is_plain or options.pop("allow_http", "false") == "true"
    options.pop("allow_http", None)
    retry = {"max_retries": tries_more, "retry_timeout": timedelta(seconds=timeout_seconds)}
    connect: Any = from_url
    store: ObjectStore = connect(url, client_options=client, retry_config=retry, **options)
    return store
