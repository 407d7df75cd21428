"""What the log of a Delta table says that a publication must know: pure, from the JSON that Delta's protocol defines.

Rules
- A table takes files as they are only if nothing of it would have to be made with each row: other names of columns,
  values that the table generates, conditions that rows must meet, numbers of rows. What is not known here is refused,
  too: a feature that a newer Delta brought may be one of these.
- A file has a value in a column for all its rows if its partition says so, or if its least and greatest are that value
  and it has no null. It has the value in no row if the value is not between them. Else nobody knows without reading it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any

# Features of writers that ask nothing of a file that is added, beside what is looked at below.
HARMLESS = frozenset(
    "appendOnly invariants checkConstraints changeDataFeed generatedColumns columnMapping identityColumns "
    "deletionVectors timestampNtz vacuumProtocolCheck v2Checkpoint inCommitTimestamp domainMetadata clustering "
    "rowTracking typeWidening typeWidening-preview checkpointProtection allowColumnDefaults variantType "
    "variantType-preview".split()
)
# What is only there where it is switched on, by property.
SWITCHED = {
    "delta.enableRowTracking": "it numbers its rows (row tracking)",
    "delta.enableIcebergCompatV1": "it is kept readable for Iceberg",
    "delta.enableIcebergCompatV2": "it is kept readable for Iceberg",
    "delta.enableIcebergCompatV3": "it is kept readable for Iceberg",
}
# What the metadata of a column says, if rows must be made or checked for the table.
MADE = {
    "delta.generationExpression": "generates the column {}",
    "delta.identity.start": "numbers the column {} (identity)",
    "delta.invariants": "has a condition on the column {}",
    "__CHAR_VARCHAR_TYPE_STRING": "limits the length of the column {}",
}
RETENTION, APPEND_ONLY = "delta.setTransactionRetentionDuration", "delta.appendOnly"
MAPPING, CONDITION = "delta.columnMapping.mode", "delta.constraints."
COMPACTS = "delta.autoOptimize.autoCompact"
INDEXED, INDEXED_USUALLY = "delta.dataSkippingNumIndexedCols", 32
WHOLE = ("byte", "short", "integer", "long")
# Types whose values a footer tells exactly, as text that is written in one way only.
COMPARED = (*WHOLE, "string", "date")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaState:
    """A table at one version. `columns` are the fields of its schema, as Spark's JSON has them; `numbers` are those of
    our transactions."""

    version: int
    id: str
    columns: tuple[Mapping[str, Any], ...]
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]
    features: frozenset[str]
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A file of a table: its path as the log has it, the values of its partition, and its statistics."""

    path: str
    bytes: int
    partition: Mapping[str, str | None]
    stats: Mapping[str, Any]


class Has(Enum):
    """Whether the rows of a file have a value."""

    ALL = "all"
    NONE = "none"
    UNKNOWN = "unknown"


def read_state(lines: list[str]) -> DeltaState:
    """Version, protocol, metadata, and transactions, one per line."""
    version, protocol, metadata, *transactions = lines
    told, table = json.loads(protocol)["protocol"], json.loads(metadata)["metaData"]
    ours = (json.loads(one)["txn"] for one in transactions)
    return DeltaState(
        version=int(version),
        id=table["id"],
        columns=tuple(json.loads(table["schemaString"])["fields"]),
        partition_by=tuple(table.get("partitionColumns", ())),
        properties=table.get("configuration", {}),
        features=frozenset(told.get("writerFeatures", ())),
        numbers={one["appId"]: int(one["version"]) for one in ours},
    )


def read_files(lines: Iterable[str]) -> Iterator[TableFile]:
    for line in lines:
        path, length, partition, stats = line.split("\t", 3)
        told = json.loads(stats) if stats else {}
        yield TableFile(path=path, bytes=int(length), partition=json.loads(partition), stats=told)


def obstacles(state: DeltaState, *, removes: bool) -> Iterator[str]:
    """Why the table cannot take files as they are, or cannot give up those that are replaced: each as what the table
    does."""
    for name in sorted(state.features - HARMLESS):
        yield f"it uses the feature {name}, which Rekindle does not know"
    if state.properties.get(MAPPING, "none") != "none":
        yield "its files have other names for its columns (column mapping)"
    yield from (told for name, told in SWITCHED.items() if state.properties.get(name, "").lower() == "true")
    for name in sorted(state.properties):
        if name.startswith(CONDITION):
            yield f"its rows must meet the condition {name.removeprefix(CONDITION)}"
    for field in state.columns:
        if not field["nullable"]:
            yield f"its column {field['name']} is NOT NULL"
        yield from (f"it {text.format(field['name'])}" for key, text in MADE.items() if key in field["metadata"])
    if RETENTION in state.properties:
        yield f"it forgets transactions ({RETENTION}), and fences are transactions"
    if removes and state.properties.get(APPEND_ONLY, "").lower() == "true":
        yield f"nothing may be removed from it ({APPEND_ONLY})"


def changed_columns(state: DeltaState, schema: str) -> list[str]:
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


def counted_columns(state: DeltaState) -> list[str]:
    """The columns whose statistics the log has: simple ones, as many of the first as the table says."""
    most = int(state.properties.get(INDEXED, INDEXED_USUALLY))
    fields = state.columns if most < 0 else state.columns[:most]
    return [field["name"] for field in fields if isinstance(field["type"], str) and not _is_collated(field)]


def type_of(state: DeltaState, column: str) -> str:
    """Empty where there is no such column, or its values cannot be compared here."""
    field = next((one for one in state.columns if one["name"] == column), None)
    if field is None or field["type"] not in COMPARED or _is_collated(field):
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
    is_cut = isinstance(wanted, str) and len(most) >= INDEXED_USUALLY
    return Has.ALL if least == wanted == most and nulls == 0 and not is_cut else Has.UNKNOWN


def has_all(file: TableFile, wanted: Mapping[str, tuple[str, Any]]) -> Has:
    """Whether the rows of a file have these values, by column with its type."""
    found = [has(file, column, kind, value) for column, (kind, value) in wanted.items()]
    if Has.NONE in found:
        return Has.NONE
    return Has.ALL if all(one is Has.ALL for one in found) else Has.UNKNOWN


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


def _is_collated(field: Mapping[str, Any]) -> bool:
    return "__COLLATIONS" in field["metadata"] or " collate " in str(field["type"])
