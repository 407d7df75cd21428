"""What the metadata of an Iceberg table says of what it can take, from JSON as Iceberg specifies it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rekindle.errors import Refused
from rekindle.publish.iceberg_log import obstacles, properties_of, read_state, spark_schema
from rekindle.publish.table_files import changed_columns
from rekindle.publish.targets import iceberg

MAPPING = "schema.name-mapping.default"


def field(number: int, name: str, kind: object = "long", *, required: bool = False) -> dict[str, Any]:
    return {"id": number, "name": name, "type": kind, "required": required}


def many(number: int, kind: object = "long", *, required: bool = False) -> dict[str, Any]:
    return {"type": "list", "element-id": number, "element": kind, "element-required": required}


def told(*fields: dict[str, Any], spec: object = (), version: int = 2, **properties: str) -> str:
    columns = [{"name": one["name"], "type": one["type"], "nullable": True, "metadata": {}} for one in fields]
    return json.dumps(
        {
            "version": "lake/db/gold/metadata/v3.metadata.json",
            "id": "a-b-c",
            "format": version,
            "snapshot": 12,
            "schema": json.dumps({"type": "struct", "schema-id": 0, "fields": fields or [field(1, "id")]}),
            "columns": json.dumps({"type": "struct", "fields": columns}),
            "spec": json.dumps({"spec-id": 0, "fields": spec}),
            "properties": properties,
            "data": "lake/db/gold/data",
        }
    )


def by(transform: str, source: int = 1) -> list[dict[str, Any]]:
    return [{"name": "part", "transform": transform, "source-id": source, "field-id": 1000}]


def named(name: str, value: str) -> dict[str, Any]:
    """A property whose name Python would not take for one of its own."""
    return {name: value}


def mapping(*entries: dict[str, Any]) -> dict[str, Any]:
    return named(MAPPING, json.dumps(entries))


def test_a_state_is_read() -> None:
    state = read_state(told(field(1, "day"), spec=by("identity"), **named("rekindle.fences.floor/abc/daily", "7")))
    assert (state.told, state.folder) == ("snapshot 12", "lake/db/gold/data")
    assert state.partition_by == (("day", "identity"),)
    assert state.numbers == {"rekindle/floor/abc/daily": 7}
    assert properties_of(state.numbers) == {"rekindle.fences.floor/abc/daily": "7"}


def test_a_property_of_others_is_no_number() -> None:
    assert read_state(told(**named("rekindle.note", "ask Ada"))).numbers == {}


TAKES = {
    "simple columns": told(field(1, "id"), field(2, "price", "decimal(9, 2)"), field(3, "at", "timestamptz")),
    "columns in columns": told(field(1, "deep", {"type": "struct", "fields": [field(2, "a", many(3, "string"))]})),
    "the third version of the format": told(version=3),
    "partitions that a footer can prove": told(spec=[*by("day"), *by("bucket[16]"), *by("truncate[4]")]),
    "a mapping that leads to each column": told(
        field(1, "id"), **mapping({"field-id": 1, "names": ["id", "number"]}, {"names": ["gone"]})
    ),
    "a mapping of columns in columns": told(
        field(1, "deep", {"type": "struct", "fields": [field(2, "a")]}),
        **mapping({"field-id": 1, "names": ["deep"], "fields": [{"field-id": 2, "names": ["a"]}]}),
    ),
    "an audit that is switched off": told(**named("write.wap.enabled", "false")),
}


@pytest.mark.parametrize("row", list(TAKES))
def test_what_takes_files(row: str) -> None:
    assert list(obstacles(read_state(TAKES[row]))) == []


OBSTACLES = {
    "a format that nobody knows": (told(version=4), "version 4 of Iceberg's format"),
    "an audit": (told(**named("write.wap.enabled", "true")), "wait for an audit"),
    "encryption": (told(**named("encryption.key-id", "k1")), "are encrypted"),
    "partitions that nobody knows": (told(spec=by("zorder")), "partitioned by zorder of id"),
    "no nulls": (told(field(1, "id", required=True)), "its column id is NOT NULL"),
    "no nulls inside": (told(field(1, "many", many(2, required=True))), "its column many.element is NOT NULL"),
    "a type that Spark does not write": (told(field(1, "id", "uuid")), "id is uuid, which Spark does not write"),
    "such a type inside": (told(field(1, "many", many(2, "fixed[4]"))), "many.element is fixed[4]"),
    "a mapping without a column": (told(field(1, "id"), **mapping()), "does not lead to the column id"),
    "a mapping to another column": (
        told(field(2, "id"), **mapping({"field-id": 1, "names": ["id"]})),
        "does not lead to the column id",
    ),
    "a mapping without what is inside": (
        told(field(1, "many", many(2)), **mapping({"field-id": 1, "names": ["many"]})),
        "does not lead to the column many.element",
    ),
}


@pytest.mark.parametrize("row", list(OBSTACLES))
def test_what_is_an_obstacle(row: str) -> None:
    given, why = OBSTACLES[row]
    [found] = obstacles(read_state(given))
    assert why in found


def test_small_numbers_are_what_iceberg_has_for_them() -> None:
    small = {"type": "array", "elementType": "short", "containsNull": True}
    result = {"type": "struct", "fields": [{"name": "byte", "type": "byte", "nullable": True, "metadata": {}}]}
    result["fields"].append({"name": "many", "type": small, "nullable": True, "metadata": {}})  # type: ignore[attr-defined]
    read = json.loads(spark_schema(json.dumps(result)))["fields"]
    assert [one["name"] for one in read] == ["byte", "many"]
    assert read[0]["type"] == "integer" and read[1]["type"]["elementType"] == "integer"
    state = read_state(told(field(1, "byte", "integer"), field(2, "many", {**small, "elementType": "integer"})))
    assert changed_columns(state, spark_schema(json.dumps(result))) == []


WRONG = {
    "a mode that there is not": lambda: iceberg("lake.gold.daily", "merge"),
    "a partition without its values": lambda: iceberg("lake.gold.daily", "partition"),
    "values, and another mode": lambda: iceberg("lake.gold.daily", "append", partition={"day": "7"}),
    "no name": lambda: iceberg("gold daily"),
    "a path": lambda: iceberg("s3://bucket/gold"),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_an_iceberg_target_that_cannot_be_is_refused_where_it_is_written(what: str) -> None:
    with pytest.raises(Refused):
        WRONG[what]()
