"""`rk.replace`: a bare directory that is replaced, seen by its readers file by file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rekindle.errors import Refused
from rekindle.publish.target import check_path, same_place, url


@dataclass(frozen=True, slots=True)
class Replace:
    """A bare directory whose files are exchanged one by one."""

    is_versioned: ClassVar[bool] = False
    by_parameters: ClassVar[tuple[str, ...]] = ("path",)
    is_written_once: ClassVar[bool] = False

    path: str

    @property
    def shown(self) -> str:
        return f"directory {self.path}, replaced in place"

    @property
    def seen(self) -> str:
        return (
            "NOT ATOMIC: rows of the old and the new result together, or some of them, until the publication "
            "is complete; after a crash until the run is resumed. Files that lie in it before the first publication "
            "are removed; directories below it, and files that others put there later, are not: it is refused then"
        )

    @property
    def spelling(self) -> str:
        return same_place(url(self.path))

    def __post_init__(self) -> None:
        check_path(self.path)


def replace(path: str, *, atomic: bool = True) -> Replace:
    """A bare directory, replaced file by file: only as `atomic=False`."""
    if atomic:
        raise Refused(
            f"{path}: a bare directory cannot be replaced in one instant, a reader may see old and new rows",
            "ask for it with replace(path, atomic=False), or use files(path) or table(name)",
        )
    return Replace(path)
