"""`rk.directory`: a directory that does not exist yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rekindle.publish.files import PARQUET, Files
from rekindle.publish.target import OVERWRITE, check_path, same_place, url
from rekindle.storage.schemes import is_local


@dataclass(frozen=True, slots=True)
class Directory:
    """A new directory: written once, by one run."""

    is_versioned: ClassVar[bool] = False
    by_parameters: ClassVar[tuple[str, ...]] = ("path",)
    is_written_once: ClassVar[bool] = True

    path: str
    format: str = PARQUET
    options: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> str:
        return f"{'' if self.format == PARQUET else f'{self.format} '}directory {self.path}"

    @property
    def as_files(self) -> Files:
        """How its files are written."""
        return Files(path=self.path, mode=OVERWRITE, format=self.format, options=self.options)

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
        _ = self.as_files  # Checks the format.


def directory(path: str, *, format: str = PARQUET, options: Mapping[str, str] | None = None) -> Directory:
    """A directory that does not exist yet.

    format, options       `parquet`, `csv`, `json` or `orc`, with options of Spark's writer and reader, such as
                          `{"header": "true"}`
    """
    return Directory(path, format, tuple(sorted((options or {}).items())))
