"""What the log of a Delta table says that a publication must know: pure, from the JSON that Delta's protocol defines.

Rules
- A table takes files as they are only if nothing of it would have to be made with each row: other names of columns,
  values that the table generates, conditions that rows must meet, numbers of rows. What is not known here is refused,
  too: a feature that a newer Delta brought may be one of these.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rekindle.publish.table_files import is_collated

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


def counted_columns(state: DeltaState) -> list[str]:
    """The columns whose statistics the log has: simple ones, as many of the first as the table says."""
    most = int(state.properties.get(INDEXED, INDEXED_USUALLY))
    fields = state.columns if most < 0 else state.columns[:most]
    return [field["name"] for field in fields if isinstance(field["type"], str) and not is_collated(field)]
