"""`current` beside the versions on a disk: a link to the newest one, for readers that know no pointers.

Rules
- The pointer decides, the link follows: it is exchanged by one rename, so that whoever opens `current` afterwards sees
  the new version whole. The newest pointer is read before and after, until both are the same.
- Something called `current` that is not a link was put there by somebody else, and stays.
- A reader that listed `current` before the change and opens a file after it gets an error that the file is missing, and
  never rows of two versions: names of files are used once. Whoever needs more reads the version directory itself.
"""

from __future__ import annotations

import errno
import secrets
from pathlib import Path

from rekindle.engine.spark.publish import versions
from rekindle.errors import Refused
from rekindle.publish.pointers import top_of
from rekindle.publish.target import PointerStore
from rekindle.storage.schemes import plain_path

CURRENT = "current"
# What a disk says that has no links: there is no `current` on it.
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP)


def check(base: str) -> None:
    """Refuse, before anything runs, to publish where something else has the name."""
    link = _link(base)
    if link.exists() and not link.is_symlink():
        raise Refused(f"{link} was not made by Rekindle, which keeps a link there", "move it away, or use another path")


def follow(base: str, store: PointerStore) -> None:
    """Bring the link to the newest version."""
    check(base)
    link = _link(base)
    pointer = top_of(store)
    while True:
        _point(link, f"{versions.VERSIONS}/{pointer.version}")
        now = top_of(store)
        if now == pointer:
            return
        pointer = now


def _link(base: str) -> Path:
    return Path(f"/{plain_path(base).strip('/')}") / CURRENT


def _point(link: Path, to: str) -> None:
    if link.is_symlink() and str(link.readlink()) == to:
        return
    made = link.with_name(f".{CURRENT}-{secrets.token_hex(8)}")
    try:
        made.symlink_to(to)
    except OSError as error:
        if error.errno in NO_LINKS:
            return
        raise
    made.replace(link)
