"""Which store stands behind a location."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit

from rekindle.errors import Refused
from rekindle.storage.hadoop_settings import OPTIONS as HDFS_OPTIONS
from rekindle.storage.hdfs import HdfsStore
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.memory import MemoryStore
from rekindle.storage.schemes import HDFS, MEMORY, REMOTE, is_local, plain_path, scheme_of, store_spelling
from rekindle.storage.store import Store


def open_store(url: str, options: Mapping[str, str] | None = None) -> Store:
    """The store of a location: a path, `file:`, `s3:`/`s3a:`, `gs:`, `abfss:`, `hdfs:` or `memory:`.

    `options` are those of every store that is opened: of HDFS `webhdfs` and `user`, all others have obstore's names:
    `endpoint`, `access_key_id`, `secret_access_key`, `region` and so on.
    """
    if is_local(url):
        return LocalDisk(Path(unquote(urlsplit(url).path)) if scheme_of(url) else Path(url))
    if scheme_of(url) == MEMORY:
        return MemoryStore(name=url)
    remote = store_spelling(url)
    if remote is None:
        known = ", ".join(sorted({"file", *REMOTE}))
        raise Refused(f"no store is known for {url}", f"use a path or one of the schemes {known}")
    options = options or {}
    if scheme_of(remote) == HDFS:
        return HdfsStore(remote, options)
    return _cloud(remote, {name: value for name, value in options.items() if name not in HDFS_OPTIONS})


def open_target(base: str, storage: Mapping[str, str]) -> Store:
    """The store in which a target lies. A disk takes no options; on a disk its name is what Spark takes it for: one in
    which `#`, `?` and `%` are letters."""
    return open_store(plain_path(base) if is_local(base) else base, storage)


def _cloud(url: str, options: Mapping[str, str]) -> Store:
    """obstore is an extra, so that its module is looked for only when a location needs it."""
    try:
        module = importlib.import_module("rekindle.storage.object_store")
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise Refused(f"{url} needs the package obstore", "pip install 'rekindle[cloud]'") from error
    return cast(Store, module.ObjectStorage(url, options))
