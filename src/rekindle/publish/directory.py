"""`rk.directory`: a directory that does not exist yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rekindle.publish.target import check_path, same_place, url
from rekindle.storage.schemes import is_local


@dataclass(frozen=True, slots=True)
class Directory:
    """A new directory: written once, by one run."""

    is_versioned: ClassVar[bool] = False
    by_parameters: ClassVar[tuple[str, ...]] = ("path",)
    is_written_once: ClassVar[bool] = True

    path: str

    @property
    def shown(self) -> str:
        return f"directory {self.path}"

    @property
    def seen(self) -> str:
        if is_local(self.path):
            return "no directory, then the whole one: it appears by one rename"
        return "files that appear one by one; the directory is whole when it has its _SUCCESS"

    @property
    def spelling(self) -> str:
        return same_place(url(self.path))

    def __post_init__(self) -> None:
        check_path(self.path)


def directory(path: str) -> Directory:
    """A directory that does not exist yet."""
    return Directory(path)
