"""What the log of a Delta table says of its files and of what it can take, from the JSON of the protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rekindle.errors import Refused
from rekindle.publish.delta_log import counted_columns, obstacles, read_state
from rekindle.publish.table_files import Has, TableFile, changed_columns, has_all, read_files, type_of, value_of
from rekindle.publish.targets import delta


def column(name: str, kind: object = "long", **metadata: object) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def lines(*columns: dict[str, Any], features: tuple[str, ...] = (), **properties: Any) -> list[str]:
    schema = json.dumps({"type": "struct", "fields": columns or (column("id"),)})
    table = {"id": "t1", "schemaString": schema, "partitionColumns": ["day"], "configuration": properties}
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    transaction = {"appId": "rekindle/door", "version": 7, "lastUpdated": 1}
    return ["12", json.dumps({"protocol": protocol}), json.dumps({"metaData": table}), json.dumps({"txn": transaction})]


def indexed(columns: str) -> dict[str, Any]:
    return {"delta.dataSkippingNumIndexedCols": columns}


def test_a_state_is_read() -> None:
    state = read_state(lines(features=("appendOnly",)))
    assert (state.version, state.id, state.partition_by, state.numbers) == (12, "t1", ("day",), {"rekindle/door": 7})


def test_what_nobody_knows_is_an_obstacle() -> None:
    assert not list(obstacles(read_state(lines()), removes=True))
    state = read_state(lines(features=("appendOnly", "somethingNew")))
    assert list(obstacles(state, removes=True)) == ["it uses the feature somethingNew, which Rekindle does not know"]


def test_only_what_removes_minds_a_table_that_only_grows() -> None:
    state = read_state(lines(**dict[str, Any]({"delta.appendOnly": "true"})))
    assert list(obstacles(state, removes=True)) and not list(obstacles(state, removes=False))


def test_columns_are_compared_without_what_may_be_null() -> None:
    deep = {"type": "struct", "fields": [column("a")]}
    same = {"type": "struct", "fields": [{**column("a"), "nullable": False}]}
    state = read_state(lines(column("id"), column("deep", deep)))
    result = {"fields": [column("deep", same), {**column("id"), "nullable": False}]}
    assert changed_columns(state, json.dumps(result)) == []
    other = {"fields": [column("id", "string"), column("deep", "string")]}
    assert changed_columns(state, json.dumps(other))[0] == "id is long in the table and string in the result"


def test_statistics_are_of_as_many_columns_as_the_table_says() -> None:
    columns = [column(f"c{number}") for number in range(40)]
    assert len(counted_columns(read_state(lines(*columns)))) == 32
    assert len(counted_columns(read_state(lines(*columns, **indexed("2"))))) == 2
    assert len(counted_columns(read_state(lines(*columns, **indexed("-1"))))) == 40
    collated = column("text", "string", __COLLATIONS={"text": "icu.UNICODE"})
    assert counted_columns(read_state(lines(collated, column("id")))) == ["id"]
    assert type_of(read_state(lines(collated)), "text") == ""


def file(**more: Any) -> TableFile:
    return TableFile(path="a", bytes=1, partition=more.pop("partition", {}), stats=more)


def stats(least: object, most: object, nulls: int = 0) -> dict[str, Any]:
    return {
        "numRecords": 10,
        "minValues": {"day": least},
        "maxValues": {"day": most},
        "nullCount": {"day": nulls},
    }


LONG = "x" * 32
HAS = {
    "its partition": (file(partition={"day": "7"}), Has.ALL),
    "another partition": (file(partition={"day": "8"}), Has.NONE),
    "the partition of nulls": (file(partition={"day": None}), Has.NONE),
    "one value": (file(**stats(7, 7)), Has.ALL),
    "one value, and nulls": (file(**stats(7, 7, 3)), Has.UNKNOWN),
    "around it": (file(**stats(6, 8)), Has.UNKNOWN),
    "below it": (file(**stats(1, 6)), Has.NONE),
    "above it": (file(**stats(8, 9)), Has.NONE),
    "nulls only": (file(numRecords=10, nullCount={"day": 10}), Has.NONE),
    "no statistics": (file(), Has.UNKNOWN),
}


@pytest.mark.parametrize("row", list(HAS))
def test_whether_the_rows_of_a_file_have_a_value(row: str) -> None:
    given, expected = HAS[row]
    assert has_all(given, {"day": ("integer", 7)}) is expected


def test_a_text_that_may_be_cut_proves_nothing() -> None:
    given = file(**stats(LONG, LONG))
    assert has_all(given, {"day": ("string", LONG)}) is Has.UNKNOWN
    assert has_all(file(**stats("a", "a")), {"day": ("string", "a")}) is Has.ALL


def test_two_columns_are_asked_for() -> None:
    both = {"day": ("integer", 7), "country": ("string", "AT")}
    assert has_all(file(partition={"day": "7", "country": "AT"}), both) is Has.ALL
    assert has_all(file(partition={"day": "7", "country": "DE"}), both) is Has.NONE
    assert has_all(file(partition={"day": "7"}), both) is Has.UNKNOWN


def test_values_have_one_spelling() -> None:
    assert value_of("integer", "07") == 7 and value_of("date", "20261101") == "2026-11-01"
    with pytest.raises(ValueError):
        value_of("date", "yesterday")


def test_files_are_read_with_tabs_in_their_statistics() -> None:
    [read] = read_files(['part-1\t12\t{"day": "7"}\t{"minValues": {"text": "a\\tb"}}'])
    assert read.partition == {"day": "7"} and read.stats["minValues"]["text"] == "a\tb"


WRONG = {
    "a mode that there is not": lambda: delta("gold.daily", "merge"),
    "a partition without its values": lambda: delta("gold.daily", "partition"),
    "values, and another mode": lambda: delta("gold.daily", "append", partition={"day": "7"}),
    "no name": lambda: delta("gold daily"),
    "a path that is not whole": lambda: delta("gold/daily"),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_a_target_that_cannot_be_is_refused_where_it_is_written(what: str) -> None:
    with pytest.raises(Refused):
        WRONG[what]()


def test_a_target_says_what_it_is() -> None:
    assert delta("gold.daily", partition={"day": "7"}).shown == "Delta table gold.daily, day=7"
    assert delta("file:/a//b/").spelling == delta("/a/b").spelling
    assert "one commit" in delta("gold.daily").seen
