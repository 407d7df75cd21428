"""`rk.delta`: a Delta table, published to without writing a row again (log_table.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rekindle.errors import Refused
from rekindle.publish.files import mode_for
from rekindle.publish.log_table import LogTable
from rekindle.publish.target import check_path, same_place, url


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta(LogTable):
    """A Delta table, by its name in a catalog or by its path."""

    kind: ClassVar[str] = "a Delta table"
    format: ClassVar[str] = "Delta"

    @property
    def is_path(self) -> bool:
        return "/" in self.table

    @property
    def spelling(self) -> str:
        return same_place(url(self.table)) if self.is_path else self.shown

    def __post_init__(self) -> None:
        LogTable.__post_init__(self)
        if self.is_path:
            check_path(self.table)
        elif not 0 < len(self.name_parts) <= 3:
            raise Refused(f"{self.table!r} is neither a path nor a table name", "write database.table, or a whole path")


def delta(table: str, mode: str | None = None, *, partition: Mapping[str, str] | None = None) -> Delta:
    """A Delta table. It is made with the columns of the result if it is not there.

    table       its name, such as `gold.daily`, or its path
    mode        `overwrite` replaces everything, `append` only the rows that the same parameters published before,
                `partition` the rows that have the values of partition=; `partition` where that is given, else
                `overwrite`
    partition   which rows are replaced, such as `{"day": "{day}"}`
    """
    return Delta(table=table, mode=mode or mode_for(partition), partition=tuple((partition or {}).items()))
