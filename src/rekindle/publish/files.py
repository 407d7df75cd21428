"""`rk.files`: versioned files, read with `rk.read_newest`, and by anybody below `current` where the storage has links.

Rules
- `hive_partition_by` is the layout of what is published: one directory for each value, as Spark's `partitionBy` writes
  it. How a result is kept is another thing (`partition_by` of a step).
- `format` is that of the files, as Spark's `DataFrameWriter` names it, and `options` are the writer's: files are
  published as they are kept unless one of these, or Hive's directories, asks for others.
- `mode="partition"` replaces directories and leaves the others alone: those that `partition` names, and the rows must
  lie in them; without `partition` those in which there are rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rekindle.errors import Refused
from rekindle.publish.target import ADDS_SEEN, APPEND, OVERWRITE, PARTITION, check_mode, check_path, same_place, url
from rekindle.storage.schemes import is_local

REPLACES_SEEN = "; only the directories that this run names, or has rows for, are replaced"
PARQUET, CSV = "parquet", "csv"
# By format, as Spark names them.
COMPRESSIONS = {
    PARQUET: ("snappy", "zstd", "gzip", "lz4", "none"),
    CSV: ("gzip", "bzip2", "lz4", "snappy", "deflate", "none"),
    "json": ("gzip", "bzip2", "lz4", "snappy", "deflate", "none"),
    "orc": ("snappy", "zstd", "zlib", "lz4", "none"),
}
FORMATS = tuple(COMPRESSIONS)
# What Spark allows unless it is told otherwise.
BUCKETS_MAX = 100_000
# Of Spark's modes to read text files in, the one that loses no row.
PERMISSIVE = "permissive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Versioned files: `versions/<version>/part-*` and numbered pointers, the highest of which names the version."""

    is_versioned: ClassVar[bool] = True
    by_parameters: ClassVar[tuple[str, ...]] = ("path", "partition")
    is_written_once: ClassVar[bool] = False

    path: str
    mode: str
    hive_partition_by: tuple[str, ...] = ()
    partition: tuple[tuple[str, str], ...] = ()
    sort_by: tuple[str, ...] = ()
    compression: str = ""
    max_records_per_file: int = 0
    format: str = PARQUET
    options: tuple[tuple[str, str], ...] = ()
    bucket_by: tuple[str, ...] = ()
    buckets: int = 0

    @property
    def is_rewritten(self) -> bool:
        """Its files are not those that are kept."""
        how = (self.hive_partition_by, self.sort_by, self.compression, self.max_records_per_file, self.options)
        return any(how) or self.format != PARQUET or bool(self.buckets)

    @property
    def buckets_told(self) -> str:
        """As the catalog tells the buckets of a table."""
        by_order = f" sorted by {', '.join(self.sort_by)}" if self.sort_by else ""
        return f"{self.buckets} by {', '.join(self.bucket_by)}{by_order}" if self.buckets else ""

    @property
    def read_with(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The format of its files, and what a reader must be told of it."""
        return self.format, self.options if self.format != PARQUET else ()

    @property
    def shown(self) -> str:
        below = "".join(f", {name}={value}" for name, value in self.partition)
        return f"{'' if self.format == PARQUET else f'{self.format} '}files {self.path}{below}"

    @property
    def adds(self) -> bool:
        """Some of what is there stays: what other keys (pipeline and parameters) appended, or other directories."""
        return self.mode in (APPEND, PARTITION)

    @property
    def seen(self) -> str:
        what = {APPEND: ADDS_SEEN, PARTITION: REPLACES_SEEN}.get(self.mode, "")
        current = f"; {self.path}/current is that version for every reader" if is_local(self.path) else ""
        return f"the version of the newest pointer, whole; an older version stays readable{what}{current}"

    @property
    def spelling(self) -> str:
        return same_place(url(self.path))

    def __post_init__(self) -> None:
        check_path(self.path)
        check_mode(self.shown, self.mode)
        self._check_layout()

    def _check_layout(self) -> None:
        columns = self.hive_partition_by
        if len(set(columns)) < len(columns) or not all(columns):
            raise Refused(f"{self.shown}: hive_partition_by names a column twice, or none", 'write ["day", "country"]')
        if self.mode == PARTITION and not columns:
            raise Refused(
                f'{self.shown}: mode="partition" replaces the directories of some values, and there are none',
                'name the columns: hive_partition_by=["day"]',
            )
        if bool(self.buckets) != bool(self.bucket_by) or not 0 <= self.buckets <= BUCKETS_MAX:
            raise Refused(
                f"{self.shown}: bucket_by and buckets go together, and there are at most {BUCKETS_MAX}",
                'write bucket_by="customer", buckets=16',
            )
        if twice := set(self.bucket_by) & set(columns):
            raise Refused(
                f"{self.shown}: {', '.join(sorted(twice))} is in bucket_by and in hive_partition_by",
                "in a directory of one value there is nothing to tell apart: leave it out of one of them",
            )
        named = tuple(name for name, _ in self.partition)
        if named != columns[: len(named)]:
            raise Refused(
                f"{self.shown}: partition names {', '.join(named)}, and the directories are by {', '.join(columns)}",
                "name the first columns of hive_partition_by, in their order",
            )
        if self.partition and self.mode != PARTITION:
            raise Refused(f'{self.shown}: partition says what mode="partition" replaces', 'add mode="partition"')
        if self.format not in FORMATS:
            raise Refused(f"{self.path}: the format {self.format!r} is not known", f"use one of {', '.join(FORMATS)}")
        known = COMPRESSIONS[self.format]
        if self.compression and self.compression not in known:
            raise Refused(
                f"{self.shown}: compression {self.compression!r} is not known for {self.format}",
                f"use one of {', '.join(known)}",
            )
        for name, value in self.options:
            if name.lower() == "mode" and value.lower() != PERMISSIVE:
                raise Refused(
                    f"{self.shown}: with mode={value} a reader drops rows that lack a column that was added later, or "
                    "fails",
                    f"leave it out, or use {PERMISSIVE}",
                )
        clash = {"compression", "codec", "maxrecordsperfile"} & {name.lower() for name, _ in self.options}
        if clash:
            raise Refused(
                f"{self.shown}: options name {', '.join(sorted(clash))}, which has a parameter of its own",
                "give it as compression= or max_records_per_file=",
            )


def files(
    path: str,
    mode: str | None = None,
    *,
    hive_partition_by: str | Sequence[str] = (),
    partition: Mapping[str, str] | None = None,
    sort_by: str | Sequence[str] = (),
    compression: str = "",
    max_records_per_file: int = 0,
    format: str = PARQUET,
    options: Mapping[str, str] | None = None,
) -> Files:
    """Versioned files below `path`; read the newest with `read_newest`.

    mode                  `overwrite` replaces everything, `partition` some directories, `append` only the rows that the
                          same parameters appended before; `partition` where partition= is given, else `overwrite`
    hive_partition_by     the columns whose values are directories, such as `day=2026-11-01/country=DE`
    partition             with `mode="partition"`: which directories are replaced, such as `{"day": "{day}"}`, although
                          there may be no row for them; a column that the result does not have is added
    sort_by, compression, max_records_per_file    how the files are written
    format, options       `parquet`, `csv`, `json` or `orc`, with options of Spark's writer and reader, such as
                          `{"header": "true"}`
    """
    return Files(
        path=path,
        mode=mode or mode_for(partition),
        hive_partition_by=names_of(hive_partition_by),
        partition=tuple((partition or {}).items()),
        sort_by=names_of(sort_by),
        compression=compression,
        max_records_per_file=max_records_per_file,
        format=format,
        options=tuple(sorted((options or {}).items())),
    )


def mode_for(partition: Mapping[str, str] | None) -> str:
    """What is replaced where nothing is said of it."""
    return PARTITION if partition else OVERWRITE


def names_of(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
