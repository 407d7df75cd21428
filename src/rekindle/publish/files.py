"""`rk.files`: versioned files, read with `rk.read_newest`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rekindle.publish.target import ADDS_SEEN, APPEND, check_mode, check_path, same_place, url


@dataclass(frozen=True, slots=True)
class Files:
    """Versioned files: `versions/<version>/part-*` and numbered pointers, the highest of which names the version."""

    is_versioned: ClassVar[bool] = True
    by_parameters: ClassVar[tuple[str, ...]] = ("path",)
    is_written_once: ClassVar[bool] = False

    path: str
    mode: str

    @property
    def shown(self) -> str:
        return f"files {self.path}"

    @property
    def adds(self) -> bool:
        """What other keys (pipeline and parameters) published stays; the same key replaces its own rows."""
        return self.mode == APPEND

    @property
    def seen(self) -> str:
        adds = ADDS_SEEN if self.adds else ""
        return f"the version of the newest pointer, whole; an older version stays readable{adds}"

    @property
    def spelling(self) -> str:
        return same_place(url(self.path))

    def __post_init__(self) -> None:
        check_path(self.path)
        check_mode(self.shown, self.mode)


def files(path: str, mode: str = "overwrite") -> Files:
    """Versioned files below `path`; read the newest with `read_newest`."""
    return Files(path, mode)
