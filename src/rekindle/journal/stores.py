"""Which store stands behind a location. The only place that knows the schemes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlsplit

from rekindle.errors import Refused
from rekindle.journal.local_disk import LocalDisk
from rekindle.journal.memory import MemoryStore
from rekindle.journal.store import Store

CLOUD = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "az": "az", "abfs": "abfs", "abfss": "abfss"}


def open_store(url: str, options: Mapping[str, str] | None = None) -> Store:
    """The store of a location: a path, `file:`, `s3:`/`s3a:`, `gs:`, `az:`/`abfss:` or `memory:`.

    `options` are obstore's names: `endpoint`, `access_key_id`, `secret_access_key`, `region` and so on.
    """
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return LocalDisk(Path(unquote(parts.path)) if parts.scheme else Path(url))
    if parts.scheme == "memory":
        return MemoryStore(name=url)
    if parts.scheme not in CLOUD:
        known = ", ".join(sorted({"file", *CLOUD}))
        raise Refused(f"no store is known for {url}", f"use a path or one of the schemes {known}")
    return _cloud(parts._replace(scheme=CLOUD[parts.scheme]).geturl(), options)


def _cloud(url: str, options: Mapping[str, str] | None) -> Store:
    """obstore is an extra, so that its module is looked for only when a location needs it."""
    try:
        module = importlib.import_module("rekindle.journal.object_store")
    except ModuleNotFoundError as error:
        if error.name != "obstore":
            raise
        raise Refused(f"{url} needs the package obstore", "pip install 'rekindle[cloud]'") from error
    return cast(Store, module.ObjectStorage(url, options))
