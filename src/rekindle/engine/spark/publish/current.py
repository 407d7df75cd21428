"""`current` beside the versions on a disk: a link to the newest one, for readers that know no pointers.

Rules
- The pointer decides, the link follows: it is exchanged by one rename, so that whoever opens `current` afterwards sees
  the new version whole. The newest pointer is read before and after, until both are the same.
- What is left is a publisher frozen between its look and the rename: it shows an older version, whole, until it wakes
  up one line further and looks again; if it died there, until the next publication. The pointers are right all along.
- A version whose parts lie in several directories gets a directory in `views/`, with a link to each of its files. It is
  complete before it has its name. Links to files, not to directories: not every reader follows those.
- Something called `current` that is not a link was put there by somebody else, and stays.
- A reader follows the link again for every path. One that listed `current` before the change and opens a file after it
  gets an error that the file is missing: names of files are used once. One that lists Hive's directories, some before
  the change and others after it, may see a part of the new rows. Whoever needs more follows the link once, and reads
  the directory that it leads to.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from pathlib import Path

from rekindle.errors import Refused
from rekindle.publish.pointers import VERSIONS, VIEWS, Pointer, top_of
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
    """Bring the link to the newest version. A disk without links has no `current`."""
    check(base)
    try:
        _follow(base, store)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise


def _follow(base: str, store: PointerStore) -> None:
    link = _link(base)
    pointer = top_of(store)
    while True:
        _point(link, _view(base, pointer))
        now = top_of(store)
        if now == pointer:
            return
        pointer = now


def _view(base: str, pointer: Pointer) -> str:
    """A directory with all files of a version and no others, as a path below the target. It is made if need be."""
    if pointer.is_one_directory or not pointer.has_files:
        return f"{VERSIONS}/{pointer.folders[-1] if pointer.parts else pointer.version}"
    view = f"{VIEWS}/{pointer.version}"
    root = _link(base).parent
    if (root / view).is_dir():
        return view
    made = root / VIEWS / f".{pointer.version}-{secrets.token_hex(8)}"
    made.mkdir(parents=True)
    try:
        _link_all(f"{root}/{VERSIONS}", str(made), pointer)
        made.rename(root / view)
    except OSError:
        shutil.rmtree(made)
        if not (root / view).is_dir():
            raise
    return view


def _link_all(source: str, made: str, pointer: Pointer) -> None:
    """A version may have thousands of files, each of which costs a call and no more."""
    directories = {""}
    for part in pointer.parts:
        folder = f"{source}/{pointer.folder_of(part)}"
        for name, _ in part.files():
            below = name.rpartition("/")[0]
            if below not in directories:
                directories.add(below)
                Path(f"{made}/{below}").mkdir(parents=True, exist_ok=True)
            os.link(f"{folder}/{name}", f"{made}/{name}")


def _link(base: str) -> Path:
    return Path(f"/{plain_path(base).strip('/')}") / CURRENT


def _point(link: Path, to: str) -> None:
    if link.is_symlink() and str(link.readlink()) == to:
        return
    made = link.with_name(f".{CURRENT}-{secrets.token_hex(8)}")
    made.symlink_to(to)
    made.replace(link)
