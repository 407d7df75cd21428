"""Where the targets of the shop lie: a folder, or a prefix of a bucket; and who can read them there.

On a disk everybody reads `current`. Object stores have no links: there `rk.read_newest` reads, and whoever has no Spark
takes the files that the newest pointer names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.store import S3Store
from pyarrow.fs import FileSystem, LocalFileSystem, S3FileSystem

from rekindle.publish.pointers import VERSIONS, newest
from rekindle.storage.schemes import plain_path
from rekindle.storage.store import Store
from rekindle.storage.stores import open_target
from support.s3 import REGION, S3Server

# What tells that a file is the same: inode and time on a disk, ETag and time on S3.
Mark = tuple[object, object]


@dataclass(frozen=True, slots=True)
class Gold:
    """`root` is a path, or a URL of the server's bucket."""

    root: str
    server: S3Server | None = None

    @property
    def storage(self) -> Mapping[str, str]:
        return self.server.store_settings if self.server is not None else {}

    @property
    def filesystem(self) -> FileSystem:
        if self.server is None:
            return LocalFileSystem()
        return S3FileSystem(
            endpoint_override=self.server.endpoint.removeprefix("http://"),
            scheme="http",
            region=REGION,
            access_key=self.server.access_key,
            secret_key=self.server.secret_key,
        )

    def store(self, name: str = "") -> Store:
        return open_target(f"{self.root}/{name}".rstrip("/"), self.storage)

    def url(self, name: str) -> str:
        """As Spark reads it."""
        return f"{self.root}/{name}" if self.server is not None else f"file:{self.root}/{name}"

    def path(self, url: str) -> str:
        """As pyarrow names it, with the filesystem."""
        return url.partition("://")[2] if self.server is not None else plain_path(url)

    def has(self, name: str) -> bool:
        return any(page for page in self.store().walk(f"{name}/"))

    def folders(self, name: str) -> list[str]:
        """The directories of a directory."""
        return self.store().list_folders(f"{name}/")

    def is_versioned(self, name: str) -> bool:
        return newest(self.store(name)).pointer is not None

    def named(self, name: str) -> Iterator[tuple[str, str]]:
        """Each file of the newest version: the directory it is published to, and its path below that."""
        pointer = newest(self.store(name)).pointer
        for part in pointer.parts if pointer is not None else ():
            for file, _ in part.files():
                yield self.url(f"{name}/{VERSIONS}/{pointer.folder_of(part) if pointer is not None else ''}"), file

    def by_day(self, name: str) -> dict[str, dict[str, Mark]]:
        """For each day the files of a target with directories by day, and what tells whether they are the same."""
        found: dict[str, dict[str, Mark]] = {}
        for file, mark in self._marks(name):
            day = next(level for level in file.split("/") if level.startswith("day="))
            found.setdefault(day.removeprefix("day="), {})[file] = mark
        return found

    def _marks(self, name: str) -> Iterator[tuple[str, Mark]]:
        if self.server is None:
            for path in Path(self.root, name, "current").glob("day=*/*/*.parquet"):
                known = path.stat()
                yield str(path), (known.st_ino, known.st_mtime_ns)
            return
        keys = {self.path(f"{folder}/{file}").partition("/")[2] for folder, file in self.named(name)}
        bucket = S3Store(
            self.server.bucket,
            endpoint=self.server.endpoint,
            access_key_id=self.server.access_key,
            secret_access_key=self.server.secret_key,
            region=REGION,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
        )
        prefix = self.path(self.url(name)).partition("/")[2]
        for page in obstore.list(bucket, prefix=f"{prefix}/"):
            for one in page:
                if one["path"] in keys:
                    yield one["path"], (one["e_tag"], one["last_modified"])
