"""What the metadata of an Iceberg table says that a publication must know: pure, from JSON as Iceberg specifies it.

Rules
- Our numbers (table_fences.py) are properties of the table: a commit swaps all of the metadata, so that comparing them
  and setting them are one act.
- A table takes files as they are only if it reads from them what was written: they have no ids of columns, so that its
  mapping of names, or the one that the first publication gives it, must lead from each name to its column. A column
  that may not be null, or has a type that Spark does not write, is refused. So is what is not known here.
- Partitions are no obstacle by themselves: the footer of a file proves which one it belongs to, or does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rekindle.publish.table_fences import PREFIX

FORMATS = (1, 2, 3)
# What a property has for the `rekindle/` of an id.
PROPERTY_PREFIX = "rekindle.fences."
NAME_MAPPING, STAGES, KEY = "schema.name-mapping.default", "write.wap.enabled", "encryption.key-id"
# Types that the files of a result have as Iceberg would write them; of decimals the beginning.
WRITTEN = ("boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "string", "binary")
DECIMAL = "decimal("
# How the transforms of partitions begin whose value the footer of a file can prove.
PROVED = ("identity", "void", "year", "month", "day", "hour", "bucket[", "truncate[")
# Iceberg has one type for these.
WHOLE_NUMBERS = {"byte": "integer", "short": "integer"}
# What Spark's JSON calls the type of something, and whether something may be null.
TYPES, NULLS = ("type", "elementType", "keyType", "valueType"), ("nullable", "containsNull", "valueContainsNull")


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergState:
    """A table by one file of its metadata, which `version` names. `schema` is Iceberg's, `columns` are its fields as
    Spark's JSON has them; `partition_by` are (column, transform); `folder` is where its data lie."""

    version: str
    id: str
    format: int
    snapshot: int | None
    schema: Mapping[str, Any]
    columns: tuple[Mapping[str, Any], ...]
    partition_by: tuple[tuple[str, str], ...]
    properties: Mapping[str, str]
    folder: str

    @property
    def told(self) -> str:
        return f"snapshot {self.snapshot}"

    @property
    def numbers(self) -> Mapping[str, int]:
        """Those of our publications."""
        ours = ((name, value) for name, value in self.properties.items() if name.startswith(PROPERTY_PREFIX))
        return {PREFIX + name.removeprefix(PROPERTY_PREFIX): int(value) for name, value in ours}


def read_state(told: str) -> IcebergState:
    table = json.loads(told)
    schema = json.loads(table["schema"])
    names = {field["id"]: field["name"] for field in schema["fields"]}
    spec = json.loads(table["spec"])
    return IcebergState(
        version=table["version"],
        id=table["id"],
        format=table["format"],
        snapshot=table["snapshot"],
        schema=schema,
        columns=tuple(json.loads(table["columns"])["fields"]),
        partition_by=tuple((names.get(one["source-id"], one["name"]), one["transform"]) for one in spec["fields"]),
        properties=table["properties"],
        folder=table["data"],
    )


def properties_of(numbers: Mapping[str, int]) -> dict[str, str]:
    """The properties that a commit sets for these numbers."""
    return {PROPERTY_PREFIX + name.removeprefix(PREFIX): str(number) for name, number in numbers.items()}


def obstacles(state: IcebergState) -> Iterator[str]:
    """Why the table cannot take files as they are: each as what the table does."""
    if state.format not in FORMATS:
        yield f"it has version {state.format} of Iceberg's format, which Rekindle does not know"
    if state.properties.get(STAGES, "").lower() == "true":
        yield f"its commits wait for an audit ({STAGES})"
    if KEY in state.properties:
        yield f"its files are encrypted ({KEY})"
    for column, transform in state.partition_by:
        if not transform.startswith(PROVED):
            yield f"it is partitioned by {transform} of {column}, which Rekindle does not know"
    yield from _unwritten(state.schema, "")
    if NAME_MAPPING in state.properties:
        mapping = json.loads(state.properties[NAME_MAPPING])
        yield from (f"its mapping of names ({NAME_MAPPING}) {why}" for why in _unmapped(state.schema, mapping, ""))


def spark_schema(schema: str) -> str:
    """The schema of a result as Spark's JSON, with the types that Iceberg has for its own, and nulls everywhere."""
    return json.dumps(_as_read("", json.loads(schema)))


def _as_read(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {below: _as_read(below, one) for below, one in value.items()}
    if isinstance(value, list):
        return [_as_read(name, one) for one in value]
    if name in TYPES:
        return WHOLE_NUMBERS.get(value, value)
    return True if name in NULLS else value


def _children(kind: Any) -> Iterator[tuple[str, int, bool, Any]]:
    """Name, id, whether it may not be null, and type of what a type is made of."""
    match kind:
        case {"type": "struct", "fields": fields}:
            yield from ((one["name"], one["id"], one["required"], one["type"]) for one in fields)
        case {"type": "list"}:
            yield "element", kind["element-id"], kind["element-required"], kind["element"]
        case {"type": "map"}:
            yield "key", kind["key-id"], False, kind["key"]  # No key of Spark's maps is null.
            yield "value", kind["value-id"], kind["value-required"], kind["value"]


def _unwritten(kind: Any, above: str) -> Iterator[str]:
    for name, _, is_required, below in _children(kind):
        shown = f"{above}{name}"
        if is_required:
            yield f"its column {shown} is NOT NULL"
        if isinstance(below, str) and below not in WRITTEN and not below.startswith(DECIMAL):
            yield f"its column {shown} is {below}, which Spark does not write"
        yield from _unwritten(below, f"{shown}.")


def _unmapped(kind: Any, mapping: list[Mapping[str, Any]], above: str) -> Iterator[str]:
    for name, number, _, below in _children(kind):
        found = next((one for one in mapping if name in one["names"]), None)
        if found is None or found.get("field-id") != number:
            yield f"does not lead to the column {above}{name}"
        else:
            yield from _unmapped(below, found.get("fields", []), f"{above}{name}.")
