"""`rk.delta`: a Delta table, published to without writing a row again where it takes files as they are (log_table.py).

Rules
- Where the table must make or check something with each row, Delta's own writer writes the rows again, for the same one
  commit. So it does with rows that stay, where their files have rows that are replaced, too.
- `merge` replaces the rows of the table that have a key of the result, and adds the others. Its keys are unique, never
  null, and of a type whose values are equal only if they are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rekindle.errors import Refused
from rekindle.publish.files import mode_for, names_of
from rekindle.publish.log_table import LogTable
from rekindle.publish.target import MERGE, MODES, check_path, same_place, url


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta(LogTable):
    """A Delta table, by its name in a catalog or by its path."""

    kind: ClassVar[str] = "a Delta table"
    format: ClassVar[str] = "Delta"
    modes: ClassVar[tuple[str, ...]] = (*MODES, MERGE)

    keys: tuple[str, ...] = ()

    @property
    def is_path(self) -> bool:
        return "/" in self.table

    @property
    def spelling(self) -> str:
        return same_place(url(self.table)) if self.is_path else self.shown

    def __post_init__(self) -> None:
        LogTable.__post_init__(self)
        if (self.mode == MERGE) != bool(self.keys):
            raise Refused(
                f"{self.shown}: mode {self.mode!r} {'without' if self.mode == MERGE else 'with'} keys=",
                'say by which columns rows are told: mode="merge", keys=["id"]',
            )
        if self.is_path:
            check_path(self.table)
        elif not 0 < len(self.name_parts) <= 3:
            raise Refused(f"{self.table!r} is neither a path nor a table name", "write database.table, or a whole path")


def delta(
    table: str,
    mode: str | None = None,
    *,
    partition: Mapping[str, str] | None = None,
    keys: str | Sequence[str] = (),
) -> Delta:
    """A Delta table. It is made with the columns of the result if it is not there.

    table       its name, such as `gold.daily`, or its path
    mode        `overwrite` replaces everything, `append` only the rows that the same parameters published before,
                `partition` the rows that have the values of partition=, `merge` those that have the keys of a row of
                the result; `partition` or `merge` where partition= or keys= is given, else `overwrite`
    partition   which rows are replaced, such as `{"day": "{day}"}`
    keys        the columns by which `merge` tells rows, such as `["id"]`
    """
    return Delta(
        table=table,
        mode=mode or (MERGE if keys else mode_for(partition)),
        partition=tuple((partition or {}).items()),
        keys=names_of(keys),
    )
