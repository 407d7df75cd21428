"""What the log of a table tells of its files and columns, whatever format has the log: pure.

Rules
- A file has a value in a column for all its rows if its partition says so, or if its least and greatest are that value
  and it has no null. It has the value in no row if the value is not between them. Else nobody knows without reading it.
- Columns are compared by name and type, as Spark's JSON has them. What may be null, and comments, make no difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, Protocol

WHOLE = ("byte", "short", "integer", "long")
# Types whose values a footer tells exactly, as text that is written in one way only.
COMPARED = (*WHOLE, "string", "date")
# Formats cut longer texts in their statistics.
CHARACTERS_MAX = 32


class TableState(Protocol):
    """A table as its log has it at one moment. `id` tells it from another one in its place, `told` names the moment,
    `columns` are the fields of its schema, as Spark's JSON has them, and `numbers` are those of our publications
    (table_fences.py)."""

    @property
    def id(self) -> str: ...

    @property
    def told(self) -> str: ...

    @property
    def columns(self) -> tuple[Mapping[str, Any], ...]: ...

    @property
    def numbers(self) -> Mapping[str, int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A file of a table: its path as the log has it, the values of its partition, and its statistics; `publication` is
    the one of ours whose rows it has, where the log says so. `deletes` are files beside it that take rows out of it."""

    path: str
    bytes: int
    partition: Mapping[str, str | None]
    stats: Mapping[str, Any]
    publication: str = ""
    deletes: int = 0


class Has(Enum):
    """Whether the rows of a file have a value."""

    ALL = "all"
    NONE = "none"
    UNKNOWN = "unknown"


def read_files(lines: Iterable[str]) -> Iterator[TableFile]:
    for line in lines:
        path, length, partition, stats, publication, deletes = line.split("\t")
        told = json.loads(stats) if stats else {}
        yield TableFile(
            path=path,
            bytes=int(length),
            partition=json.loads(partition),
            stats=told,
            publication=publication,
            deletes=int(deletes),
        )


def changed_columns(state: TableState, schema: str) -> list[str]:
    """What differs between the columns of the table and those of a result, in words."""
    there = {field["name"]: _type(field) for field in state.columns}
    now = {field["name"]: _type(field) for field in json.loads(schema)["fields"]}
    gone = [f"{name} is missing in the result" for name in there if name not in now]
    new = [f"{name} is not in the table" for name in now if name not in there]
    other = [
        f"{name} is {_told(there[name])} in the table and {_told(now[name])} in the result"
        for name in there
        if name in now and there[name] != now[name]
    ]
    return gone + new + other


def type_of(state: TableState, column: str) -> str:
    """Empty where there is no such column, or its values cannot be compared here."""
    field = next((one for one in state.columns if one["name"] == column), None)
    if field is None or field["type"] not in COMPARED or is_collated(field) or is_padded(field):
        return ""
    return str(field["type"])


def value_of(kind: str, text: str) -> Any:
    """A value as statistics have it. Raises ValueError for what is none of its type."""
    if kind in WHOLE:
        return int(text)
    return date.fromisoformat(text).isoformat() if kind == "date" else text


def has(file: TableFile, column: str, kind: str, wanted: Any) -> Has:
    """Whether the rows of a file have a value in a column."""
    if column in file.partition:
        held = file.partition[column]
        return Has.ALL if held is not None and value_of(kind, held) == wanted else Has.NONE
    rows, nulls = file.stats.get("numRecords"), file.stats.get("nullCount", {}).get(column)
    least, most = (file.stats.get(name, {}).get(column) for name in ("minValues", "maxValues"))
    if rows is not None and nulls == rows:
        return Has.NONE
    if least is None or most is None:
        return Has.UNKNOWN
    if wanted < least or wanted > most:
        return Has.NONE
    is_cut = isinstance(wanted, str) and len(most) >= CHARACTERS_MAX
    return Has.ALL if least == wanted == most and nulls == 0 and not is_cut else Has.UNKNOWN


def has_all(file: TableFile, wanted: Mapping[str, tuple[str, Any]]) -> Has:
    """Whether the rows of a file have these values, by column with its type."""
    found = [has(file, column, kind, value) for column, (kind, value) in wanted.items()]
    if Has.NONE in found:
        return Has.NONE
    return Has.ALL if all(one is Has.ALL for one in found) else Has.UNKNOWN


def is_collated(field: Mapping[str, Any]) -> bool:
    return "__COLLATIONS" in field["metadata"] or " collate " in str(field["type"])


def is_padded(field: Mapping[str, Any]) -> bool:
    """Spark adds blanks to the values of a CHAR column where it reads them, and the log has them without."""
    return "char(" in str(field["metadata"].get("__CHAR_VARCHAR_TYPE_STRING", "")).replace("varchar(", "")


def _type(field: Mapping[str, Any]) -> str:
    return json.dumps([_bare(field["type"]), field["metadata"].get("__COLLATIONS")], sort_keys=True)


def _bare(kind: Any) -> Any:
    """A type without what may be null, and without comments."""
    if isinstance(kind, dict):
        left = ("nullable", "containsNull", "valueContainsNull", "metadata")
        return {name: _bare(value) for name, value in kind.items() if name not in left}
    return [_bare(one) for one in kind] if isinstance(kind, list) else kind


def _told(kind: str) -> str:
    bare = json.loads(kind)[0]
    return bare if isinstance(bare, str) else json.dumps(bare)
