"""Whether two places overlap: the location of runs, targets and sources must lie apart.

Rules
- One place has many names: `file:` or a plain path, `..`, a slash at the end or two in the middle, a symbolic link,
  letters of another case where the disk does not tell them apart, `s3`, `s3a` and `s3n`. All are the same here.
- On disk what exists is compared by what it is (device and inode); of what does not exist yet the nearest directory
  above that exists is, and the rest by its letters.
- A location holds the journals of all runs: nothing else may lie in it, and it may lie in nothing that is published.
- A target may not hold another one, nor lie in what is read: the next run would read back what this one wrote. A
  version of our own (`files`, `table`), or one of a table with a log, may be read by the pipeline that publishes it:
  versions never change.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rekindle.errors import GraphRefused
from rekindle.publish.pointers import VERSIONS
from rekindle.publish.target import same_place
from rekindle.storage.schemes import is_local, one_spelling, plain_path

PATHS_MAX = 1000


@dataclass(frozen=True, slots=True)
class OwnedPath:
    """A place and who has it, in words: "the target of out", "the location"."""

    path: str
    whose: str
    # A target whose versions stay as they are, so that its own pipeline may read them: directories, or in a log.
    is_versioned: bool = False
    has_log: bool = False


def refuse_overlaps(
    location: OwnedPath,
    targets: Iterable[OwnedPath],
    sources: Mapping[str, Iterable[str]],
    at_one_version: Collection[str] = (),
) -> None:
    """Refuse, before anything runs, what would write into or delete from a place that something else has. `sources` are
    the paths that each step reads, `at_one_version` those of them that are tables read at one version."""
    fixed = {same_place(path) for path in at_one_version}
    all_targets = tuple(targets)
    for number, target in enumerate(all_targets):
        _refuse(location, target, "give the target, or the location, a directory of its own")
        for other in all_targets[:number]:
            _refuse(target, other, "give each target a directory of its own")
    for step, paths in sources.items():
        for path in _few(set(paths)):
            _refuse_source(
                location, all_targets, OwnedPath(path, f"what {step} reads", has_log=same_place(path) in fixed)
            )


def reads_versions(target: str, paths: Collection[str]) -> bool:
    """Whether one of the paths that are read lies in the versions of a target."""
    return any(is_inside(path, f"{target}/{VERSIONS}") for path in _few(paths))


def versions_read(target: str, paths: Collection[str]) -> frozenset[str]:
    """Which versions of a target are read by somebody who reads these paths."""
    inside = f"{same_place(target)}/{VERSIONS}/"
    found = (same_place(path) for path in _few(paths))
    return frozenset(path.removeprefix(inside).split("/")[0] for path in found if path.startswith(inside))


def _few(paths: Collection[str]) -> list[str]:
    """Where thousands of files are named one by one, the directories that they lie in."""
    return sorted(paths if len(paths) <= PATHS_MAX else {path.rsplit("/", 1)[0] for path in paths})


def _refuse_source(location: OwnedPath, targets: Iterable[OwnedPath], source: OwnedPath) -> None:
    _refuse(location, source, "read from, or run in, another directory")
    for target in targets:
        if target.is_versioned and is_inside(source.path, f"{target.path}/{VERSIONS}"):
            continue
        if target.has_log and source.has_log and is_inside(source.path, target.path):
            continue
        _refuse(target, source, "publish to another directory; a version is read with rk.read_newest(spark, path)")


def _refuse(one: OwnedPath, other: OwnedPath, hint: str) -> None:
    for inner, outer in ((one, other), (other, one)):
        if is_inside(inner.path, outer.path):
            first, second = f"{inner.whose} ({inner.path})", f"{outer.whose} ({outer.path})"
            is_same = is_inside(outer.path, inner.path)
            told = f"{first} and {second} are the same directory" if is_same else f"{first} is inside {second}"
            raise GraphRefused(told, hint)


def is_inside(inner: str, outer: str) -> bool:
    """Whether `inner` is `outer` or lies below it, however the two are spelt."""
    if is_local(inner) != is_local(outer):
        return False
    if not is_local(inner):
        return _parts(inner)[: len(_parts(outer))] == _parts(outer)
    path, above = _path(inner), _path(outer)
    return any(_is_same(one, above) for one in (path, *path.parents))


def _parts(url: str) -> list[str]:
    """Scheme and bucket, then the names below; `..` and doubled slashes as Spark resolves them."""
    split = urlsplit(one_spelling(url), allow_fragments=False)
    path = posixpath.normpath("/" + url.split("://", 1)[1].partition("/")[2]) if "://" in url else split.path
    return [f"{split.scheme}://{split.netloc}", *(name for name in path.split("/") if name)]


def _path(url: str) -> Path:
    """Without `..` and links, as far as it exists."""
    return Path(os.path.realpath("/" + plain_path(url).lstrip("/")))


def _is_same(one: Path, other: Path) -> bool:
    if one == other:
        return True
    if one.exists() or other.exists():
        return one.exists() and other.exists() and one.samefile(other)
    first, second = _nearest(one), _nearest(other)
    left, right = one.relative_to(first).parts, other.relative_to(second).parts
    if len(left) != len(right) or not first.samefile(second):
        return False
    return left == right or (_ignores_case(first) and _folded(left) == _folded(right))


def _nearest(path: Path) -> Path:
    """The nearest directory above that exists."""
    return next(one for one in path.parents if one.exists())


def _folded(names: Iterable[str]) -> list[str]:
    return [name.casefold() for name in names]


def _ignores_case(folder: Path) -> bool:
    """Whether names in a directory differ by more than their case: asked of the nearest name that has letters."""
    for one in (folder, *folder.parents):
        other = one.with_name(one.name.swapcase()) if one.name else one
        if other.name != one.name:
            return other.exists() and other.samefile(one)
    return False
