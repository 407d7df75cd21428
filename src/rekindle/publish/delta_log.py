"""What the log of a Delta table says that a publication must know: pure, from the JSON that Delta's protocol defines.

Rules
- A table takes files as they are only if nothing of it would have to be made with each row: other names of columns,
  values that the table generates, conditions that rows must meet. For such a table Delta's own writer writes the rows
  again.
- What a publication could break is refused: numbers of rows, and what is not known here, such as a feature that a
  newer Delta brought.
- The log names columns by their physical names, which a renamed column keeps, and another one may have got since. Only
  here are they known.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rekindle.publish.table_files import TableFile, is_collated, is_padded

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
# What the metadata of a column says, if rows must be made or checked for the table, and what is not made here.
GENERATED, IDENTITY, PHYSICAL = "delta.generationExpression", "delta.identity.start", "delta.columnMapping.physicalName"
MADE = {
    GENERATED: "generates the column {}",
    "delta.invariants": "has a condition on the column {}",
    "__CHAR_VARCHAR_TYPE_STRING": "limits the length of the column {}",
}
RETENTION, APPEND_ONLY = "delta.setTransactionRetentionDuration", "delta.appendOnly"
MAPPING, CONDITION = "delta.columnMapping.mode", "delta.constraints."
COMPACTS = "delta.autoOptimize.autoCompact"
# Types of keys: equal values are the same value. Of decimals the beginning is known.
EXACT = frozenset("byte short integer long string date timestamp timestamp_ntz boolean binary".split())
INDEXED, INDEXED_USUALLY = "delta.dataSkippingNumIndexedCols", 32


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

    @property
    def told(self) -> str:
        return f"version {self.version}"


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


def obstacles(state: DeltaState, *, removes: bool) -> Iterator[str]:
    """Why nothing can be published to the table, or it cannot give up what is replaced: each as what the table does."""
    for name in sorted(state.features - HARMLESS):
        yield f"it uses the feature {name}, which Rekindle does not know"
    yield from (told for name, told in SWITCHED.items() if state.properties.get(name, "").lower() == "true")
    for field in state.columns:
        if IDENTITY in field["metadata"]:
            yield f"it numbers the column {field['name']} (identity)"
    if RETENTION in state.properties:
        yield f"it forgets transactions ({RETENTION}), and fences are transactions"
    if removes and state.properties.get(APPEND_ONLY, "").lower() == "true":
        yield f"nothing may be removed from it ({APPEND_ONLY})"


def needs_rows(state: DeltaState, named: Collection[str]) -> Iterator[str]:
    """Why the table cannot take files as they are, and its rows are written again: each as what the table does. `named`
    are the columns of which each row of the result has one value."""
    if state.properties.get(MAPPING, "none") != "none":
        yield "its files have other names for its columns (column mapping)"
    for name in sorted(state.properties):
        if name.lower().startswith(CONDITION):
            yield f"its rows must meet the condition {name[len(CONDITION) :]}"
    for field in state.columns:
        if not field["nullable"]:
            yield f"its column {field['name']} is NOT NULL"
        elif _has_not_null(field["type"]):
            yield f"a part of its column {field['name']} is NOT NULL"
        yield from (f"it {text.format(field['name'])}" for key, text in MADE.items() if key in field["metadata"])
    unnamed = [name for name in state.partition_by if name not in named]
    if unnamed:
        yield f"it is partitioned by {', '.join(unnamed)}, of which a kept file may have several values"


def without_generated(state: DeltaState, given: Collection[str]) -> DeltaState:
    """The table without the columns that it makes for rows that lack them."""
    left = (field for field in state.columns if GENERATED not in field["metadata"] or field["name"] in given)
    return replace(state, columns=tuple(left))


def with_names(state: DeltaState, file: TableFile) -> TableFile:
    """A file with the names that the columns of the table have now, in its partition and in its statistics."""
    names = {field["metadata"].get(PHYSICAL, field["name"]): field["name"] for field in state.columns}
    stats = {
        told: {names[name]: value for name, value in held.items() if name in names} if isinstance(held, dict) else held
        for told, held in file.stats.items()
    }
    partition = {names[name]: value for name, value in file.partition.items() if name in names}
    return replace(file, partition=partition, stats=stats)


def key_trouble(state: DeltaState, key: str) -> str:
    """Why rows cannot be told by a column; empty if they can."""
    field = next((one for one in state.columns if one["name"] == key), None)
    if field is None:
        return "is no column of the table"
    kind = field["type"]
    if not (isinstance(kind, str) and (kind in EXACT or kind.startswith("decimal("))):
        return f"is {kind if isinstance(kind, str) else kind['type']}, which cannot be compared exactly"
    if is_collated(field) or is_padded(field):
        return "is text that is not compared letter by letter"
    return ""


def counted_columns(state: DeltaState) -> list[str]:
    """The columns whose statistics the log has: simple ones, as many of the first as the table says."""
    most = int(state.properties.get(INDEXED, INDEXED_USUALLY))
    fields = state.columns if most < 0 else state.columns[:most]
    return [field["name"] for field in fields if isinstance(field["type"], str) and not is_collated(field)]


def _has_not_null(kind: Any) -> bool:
    """Whether a field inside a type may not be null."""
    if not isinstance(kind, dict):
        return False
    fields = kind.get("fields", ())
    inside = [
        *(field["type"] for field in fields),
        *(kind.get(name) for name in ("elementType", "keyType", "valueType")),
    ]
    return not all(field["nullable"] for field in fields) or any(_has_not_null(one) for one in inside)
