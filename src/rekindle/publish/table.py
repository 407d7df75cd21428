"""`rk.table`: a table of Spark's session catalog.

Only a session-catalog table of Parquet files can be published to: its location is the one thing that changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from rekindle.errors import Refused
from rekindle.publish.target import ADDS_SEEN, APPEND, check_mode, check_path

SESSION_CATALOG = "spark_catalog"
# What a template has where a run has a value.
BRACES = re.compile(r"{[^{}]*}")
IDENTIFIER = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of Spark's session catalog. Each publication is a version directory and one change of the location."""

    is_versioned: ClassVar[bool] = True
    by_parameters: ClassVar[tuple[str, ...]] = ("name", "location")
    is_written_once: ClassVar[bool] = False

    name: str
    mode: str
    location: str | None

    @property
    def shown(self) -> str:
        return f"table {self.name}"

    @property
    def adds(self) -> bool:
        """What other keys (pipeline and parameters) published stays; the same key replaces its own rows."""
        return self.mode == APPEND

    @property
    def seen(self) -> str:
        """What a reader sees while it is published."""
        adds = ADDS_SEEN if self.adds else ""
        return (
            "the old version or the new one, whole; a session that has read the table sees the old one "
            f"until REFRESH TABLE{adds}"
        )

    def identifier(self, database: str) -> tuple[str, str]:
        """(database, table), with the session's database where the name has none."""
        *rest, table = self.name.split(".")
        return (rest[-1] if rest else database), table

    @property
    def spelling(self) -> str:
        """Tables are looked at again when there is a catalog."""
        return self.shown

    def __post_init__(self) -> None:
        parts = BRACES.sub("x", self.name).split(".")
        if not all(IDENTIFIER.fullmatch(part) for part in parts) or len(parts) > 3:
            raise Refused(f"{self.name!r} is not a table name", "write table, database.table or spark_catalog.…")
        if len(parts) == 3 and parts[0] != SESSION_CATALOG:
            raise Refused(
                f"{self.name} is not in Spark's session catalog, and Rekindle cannot change its location",
                "publish to a table of spark_catalog, or to files(path)",
            )
        check_mode(self.shown, self.mode)
        if self.location is not None:
            check_path(self.location)


def table(name: str, mode: str = "overwrite", location: str | None = None) -> Table:
    """A catalog table; `location` is where a new one keeps its versions, else the catalog's place for it."""
    return Table(name, mode, location)
