"""What `rekindle doctor` says of Spark's local folders: disk in use, and what killed processes left there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from rekindle.cli.checks import Check, CheckStatus
from rekindle.cli.next_command import same
from rekindle.gc.local_folders import Folder, FolderOwner, find, remove
from rekindle.observe.words import bytes_text, count_text

NAMED_MAX = 3


def looked_at(roots: Sequence[str], *, removes: bool) -> Iterator[Check]:
    """The checks of each folder; with `removes`, what is ours and dead is removed first."""
    for root in roots:
        if not Path(root).is_dir():
            yield Check("local folder", CheckStatus.WARNING, f"{root} is not a folder on this host")
            continue
        found = find(Path(root))
        if removes:
            gone = remove(Path(root), found)
            yield Check("local folder", CheckStatus.FINE, f"{root}: removed {_told(gone)} of dead processes")
            found = [one for one in found if one not in gone]
        yield from _checks(root, found)


def _checks(root: str, found: Sequence[Folder]) -> Iterator[Check]:
    free = bytes_text(shutil.disk_usage(root).free)
    living = [one for one in found if one.whose is FolderOwner.LIVING]
    applications = sorted({one.application for one in living})
    of = f" by {_named(applications)}" if applications else ""
    yield Check("local folder", CheckStatus.FINE, f"{root}: {bytes_text(_bytes(living))} in use{of}, {free} free")
    for whose, advice in ADVICE.items():
        some = [one for one in found if one.whose is whose]
        if some:
            who = _named(sorted({one.application for one in some if one.application}))
            told = f"{root}: {_told(some)}{f' of {who}' if who else ''}: {whose.value}"
            what = advice or same(local_dirs=(root,), removes=True)
            yield Check("local folder", CheckStatus.WARNING, told, what)


ADVICE = {
    FolderOwner.DEAD: "",
    FolderOwner.SERVED: "it goes when the shuffle service forgets the application",
    FolderOwner.UNSEEN: "compare it with the running applications: Rekindle removes it only if it saw its process end",
    FolderOwner.UNKNOWN: "look whose it is: Rekindle does not touch it",
}


def _told(found: Sequence[Folder]) -> str:
    return f"{count_text(len(found), 'folder')}, {bytes_text(_bytes(found))}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def _bytes(found: Sequence[Folder]) -> int:
    return sum(one.bytes for one in found)
