"""`rk.table`: a table of Spark's session catalog.

Rules
- Only a session-catalog table of Parquet files can be published to. Its location is the one thing that changes; with
  Hive's partitions the locations of those that are replaced.
- A table that somebody else made is taken over on the word `adopt=True` only. Its files are never deleted: what is
  replaced stays where it was, and no partition of the table is there any more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rekindle.errors import Refused
from rekindle.publish.files import Files, mode_for, names_of
from rekindle.publish.target import ADDS_SEEN, APPEND, MODES, PARTITION, check_mode, check_path

SESSION_CATALOG = "spark_catalog"
# What a template has where a run has a value.
BRACES = re.compile(r"{[^{}]*}")
IDENTIFIER = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of Spark's session catalog. Each publication is a version directory and one change of the location; with
    Hive's partitions a change of the locations of some of them."""

    is_versioned: ClassVar[bool] = True
    by_parameters: ClassVar[tuple[str, ...]] = ("name", "location", "partition")
    is_written_once: ClassVar[bool] = False

    name: str
    mode: str
    location: str | None = None
    hive_partition_by: tuple[str, ...] = ()
    partition: tuple[tuple[str, str], ...] = ()
    sort_by: tuple[str, ...] = ()
    compression: str = ""
    max_records_per_file: int = 0
    bucket_by: tuple[str, ...] = ()
    buckets: int = 0
    adopt: bool = False

    @property
    def shown(self) -> str:
        below = "".join(f", {name}={value}" for name, value in self.partition)
        return f"table {self.name}{below}"

    def as_files(self, base: str) -> Files:
        """How its files are written."""
        return Files(
            path=base,
            mode=self.mode,
            hive_partition_by=self.hive_partition_by,
            partition=self.partition,
            sort_by=self.sort_by,
            compression=self.compression,
            max_records_per_file=self.max_records_per_file,
            bucket_by=self.bucket_by,
            buckets=self.buckets,
        )

    @property
    def adds(self) -> bool:
        """Some of what is there stays: what other keys (pipeline and parameters) appended, or other partitions."""
        return self.mode in (APPEND, PARTITION)

    @property
    def seen(self) -> str:
        """What a reader sees while it is published."""
        if self.hive_partition_by:
            return (
                "of each partition the old rows or the new ones, whole; while several are replaced, some before the "
                "others; a session that has read the table sees the old ones until REFRESH TABLE"
            )
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
        check_mode(self.shown, self.mode, known=MODES)
        if self.mode == APPEND and self.hive_partition_by:
            raise Refused(
                f"{self.shown}: a partition of a table is one directory, and an append would need two",
                'use mode="partition": it replaces the partitions that this run names, or has rows for',
            )
        self.as_files("/table")  # Checks the layout.
        if self.location is not None:
            check_path(self.location)


def table(
    name: str,
    mode: str | None = None,
    location: str | None = None,
    *,
    hive_partition_by: str | Sequence[str] = (),
    partition: Mapping[str, str] | None = None,
    sort_by: str | Sequence[str] = (),
    compression: str = "",
    max_records_per_file: int = 0,
    bucket_by: str | Sequence[str] = (),
    buckets: int = 0,
    adopt: bool = False,
) -> Table:
    """A table of Spark's session catalog, of Parquet files.

    mode                  `overwrite` replaces everything, `partition` some of Hive's partitions, `append` only the rows
                          that the same parameters appended before; `partition` where partition= is given, else
                          `overwrite`
    location              where a new table keeps its versions, else the catalog's place for it
    hive_partition_by     the columns that the table is partitioned by; those of partition= if nothing is said
    partition             with `mode="partition"`: which partitions are replaced, such as `{"day": "{day}"}`
    sort_by, compression, max_records_per_file    how the files are written
    bucket_by, buckets    the columns by whose hash the rows are divided into this number of buckets, as Spark's
                          `bucketBy` does it: joins and aggregations by these columns need no shuffle
    adopt                 publish to a table that somebody else made. Its other partitions stay as they are
    """
    return Table(
        name=name,
        mode=mode or mode_for(partition),
        location=location,
        hive_partition_by=names_of(hive_partition_by) or tuple(partition or ()),
        partition=tuple((partition or {}).items()),
        sort_by=names_of(sort_by),
        compression=compression,
        max_records_per_file=max_records_per_file,
        bucket_by=names_of(bucket_by),
        buckets=buckets,
        adopt=adopt,
    )
