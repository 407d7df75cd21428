"""`rk.iceberg`: an Iceberg table, published to without writing a row again (log_table.py).

A table has a name in one of the session's catalogs. A path names none: which of the metadata below it counts is what a
catalog says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rekindle.errors import Refused
from rekindle.publish.files import mode_for
from rekindle.publish.log_table import LogTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Iceberg(LogTable):
    """An Iceberg table, by its name in a catalog of the session."""

    kind: ClassVar[str] = "an Iceberg table"
    format: ClassVar[str] = "Iceberg"

    @property
    def quoted(self) -> str:
        """Its name as SQL has it."""
        return ".".join(f"`{part}`" for part in self.table.split("."))

    def __post_init__(self) -> None:
        LogTable.__post_init__(self)
        if "/" in self.table:
            raise Refused(
                f"{self.table!r} is a path, and a catalog says which metadata of an Iceberg table counts",
                'name the table: rk.iceberg("catalog.database.table"), with spark.sql.catalog.… for the catalog',
            )
        if not self.name_parts:
            raise Refused(f"{self.table!r} is not a table name", "write catalog.database.table")


def iceberg(table: str, mode: str | None = None, *, partition: Mapping[str, str] | None = None) -> Iceberg:
    """An Iceberg table. It is made with the columns of the result if it is not there.

    table       its name, such as `lake.gold.daily`, in a catalog that the session has
    mode        `overwrite` replaces everything, `append` only the rows that the same parameters published before,
                `partition` the rows that have the values of partition=; `partition` where that is given, else
                `overwrite`
    partition   which rows are replaced, such as `{"day": "{day}"}`
    """
    return Iceberg(table=table, mode=mode or mode_for(partition), partition=tuple((partition or {}).items()))
