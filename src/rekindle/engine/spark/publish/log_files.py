"""Which files of a table with a log a publication replaces, and how its own get into the folder of the table.

Rules
- Files that are replaced are told by their names, or by a tag that the log has of them (`append`: ours have the place
  and the order of the run), or by their partition and statistics (`partition`). Where that cannot be told, since others
  wrote rows of several keys or values into one file, it is refused, if the format does not write rows again: before
  anything runs where that is so already, and by the publication else.
- Files get names in the table's folder that no other publication uses, before the commit. Who dies in between leaves
  files that no version of the table has: what cleans the table up removes them, as those of any writer that died.
- A link is given the age of now. It would have that of the kept file: after a run that stopped for a week, what cleans
  the table up could remove it before the commit that names it.
- A file without rows is not added.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from rekindle.engine.adapter import FileCopy
from rekindle.engine.spark.jvm import table_calls
from rekindle.engine.spark.publish import copying
from rekindle.engine.spark.publish.publication import Publication
from rekindle.errors import Refused
from rekindle.publish.log_table import LogTable
from rekindle.publish.pointers import VERSION, Part, fence_in
from rekindle.publish.table_fences import Earlier
from rekindle.publish.table_files import COMPARED, Has, TableFile, TableState, has_all, type_of, value_of

SCRATCH = "_rekindle/scratch"
OURS = re.compile(rf"part-(\d+)-({VERSION.pattern})\.parquet")
EVERYTHING = ("*",)
OF_OTHERS = "replace by the values of columns: partition={…}; or DELETE the rows and publish to another table"
# The values that the rows must have, by column, each with the type of the column.
Wanted = Mapping[str, tuple[str, Any]]


def wanted_values(target: LogTable, state: TableState) -> dict[str, tuple[str, Any]]:
    """Refuses values that cannot be compared."""
    found = {}
    for name, value in target.partition:
        kind = type_of(state, name)
        if not kind:
            raise Refused(
                f"{target.shown}: {name} is no column whose values Rekindle can compare in the log",
                f"name a column of {', '.join(COMPARED)}",
            )
        try:
            found[name] = (kind, value_of(kind, value))
        except ValueError:
            raise Refused(f"{target.shown}: {name} is {kind}, and {value!r} is none", "correct the value") from None
    return found


def with_values(target: LogTable, there: Sequence[TableFile], wanted: Wanted) -> list[str]:
    """The files whose rows have these values."""
    whole, mixed = by_values(there, wanted)
    if mixed:
        raise Refused(
            f"{target.shown}: {len(mixed)} files of the table, such as {mixed[0]}, may have these rows and others: "
            f"Rekindle does not write rows again for {target.kind} yet",
            f"partition the table by {', '.join(wanted)}, or DELETE those rows from it",
        )
    return whole


def by_values(there: Sequence[TableFile], wanted: Wanted) -> tuple[list[str], list[str]]:
    """The files all of whose rows have these values, and those that may have such rows and others."""
    found = {file.path: has_all(file, wanted) for file in there}
    whole, mixed = ([path for path, answer in found.items() if answer is one] for one in (Has.ALL, Has.UNKNOWN))
    return whole, mixed


def of_key(target: LogTable, there: Sequence[TableFile], earlier: tuple[Earlier, ...]) -> list[str]:
    """The files that the same key published. They are told by their names, or tags: if one is missing, its rows were
    removed, or are in a file with those of others. So may be rows that were taken out of one: changed, in another."""
    found: list[TableFile] = []
    for one in earlier:
        mine = [file for file in there if _run_of(file) == (one.place, one.order)]
        if len(mine) != one.files:
            raise Refused(
                f"{target.shown}: run {one.order} published {one.files} files with the same parameters, and the table "
                f"has {len(mine)} of them: others changed or compacted them, so Rekindle cannot tell which rows to "
                "replace",
                OF_OTHERS,
            )
        found += mine
    changed = [file.path for file in found if file.deletes]
    if changed:
        raise Refused(
            f"{target.shown}: others deleted or changed rows of {len(changed)} files that the same parameters "
            f"published, such as {changed[0]}, so Rekindle cannot tell which rows to replace",
            OF_OTHERS,
        )
    return [file.path for file in found]


def _run_of(file: TableFile) -> tuple[str, int] | None:
    """The place and the order of the run that published a file, if one of ours did."""
    found = OURS.fullmatch(file.path)
    version = VERSION.fullmatch(found[2] if found is not None else file.publication)
    if version is None:
        return None
    place, fence = fence_in(version)
    return place, fence.order


def taken(spark: SparkSession, folder: str, what: Publication, now_ms: int) -> list[FileCopy]:
    """The committed files, which are in a folder of the table by now, and are as old as this publication."""
    copies = what.copies(what.part())
    if copies:
        copying.complete(spark, folder, f"{folder}/{SCRATCH}/{what.version}", copies)
        table_calls.touch(spark, folder, [copy.name for copy in copies], now_ms)
    return copies


def now_in_ms() -> int:
    return int(time.time() * 1000)


def check_rows(target: LogTable, name: str, footer: Mapping[str, Any], wanted: Wanted) -> None:
    """Refuse a file that may have rows without the values that are replaced."""
    for column, (_, value) in wanted.items():
        if footer["rows"] and (column not in footer["only"] or footer["only"][column] != value):
            raise Refused(
                f"{target.shown}: the result has rows without {column}={value} (in what would be {name})",
                "filter them in the step, or publish them to another target",
            )


def parts(there: Sequence[TableFile]) -> Iterator[Part]:
    """One for each publication of ours of which files are there, in their order."""
    by_version: dict[str, dict[int, int]] = {}
    written: dict[str, list[tuple[str, int]]] = {}
    for file in there:
        found = OURS.fullmatch(file.path)
        if found is not None:
            by_version.setdefault(found[2], {})[int(found[1])] = file.bytes
        elif file.publication:
            written.setdefault(file.publication, []).append((file.path, file.bytes))
    for version in {**by_version, **written}:
        match = VERSION.fullmatch(version)
        assert match is not None, "it is part of the name, or a tag of ours"
        place, fence = fence_in(match)
        files = by_version.get(version, {})
        lengths = tuple(files[one] for one in sorted(files))
        listed = tuple(sorted(written.get(version, ())))
        yield Part(fence=fence, source="", bytes=lengths, place=place, listed=listed)
