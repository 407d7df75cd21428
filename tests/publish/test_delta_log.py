"""What the log of a Delta table says of its files and of what it can take, from the JSON of the protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rekindle.errors import Refused
from rekindle.publish.delta_log import (
    counted_columns,
    key_trouble,
    needs_rows,
    obstacles,
    read_state,
    with_names,
    without_generated,
)
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


GENERATED = column("next", **dict[str, Any]({"delta.generationExpression": "id + 1"}))
DEEP = {"type": "struct", "fields": [{**column("a"), "nullable": False}]}
REASONS = {
    "nothing": (lines(), []),
    "a condition": (
        lines(**dict[str, Any]({"delta.constraints.few": "id < 3"})),
        ["its rows must meet the condition few"],
    ),
    "other names": (
        lines(**dict[str, Any]({"delta.columnMapping.mode": "name"})),
        ["its files have other names for its columns (column mapping)"],
    ),
    "no null": (lines({**column("id"), "nullable": False}), ["its column id is NOT NULL"]),
    "no null inside": (
        lines(column("deep", {"type": "array", "elementType": DEEP})),
        ["a part of its column deep is NOT NULL"],
    ),
    "generated": (lines(column("id"), GENERATED), ["it generates the column next"]),
}


@pytest.mark.parametrize("row", list(REASONS))
def test_why_rows_are_written_again(row: str) -> None:
    given, expected = REASONS[row]
    assert list(needs_rows(read_state(given), ["day"])) == expected
    assert not list(obstacles(read_state(given), removes=True))


def test_a_partition_that_is_not_named_needs_rows() -> None:
    assert "it is partitioned by day" in next(needs_rows(read_state(lines()), []))


def test_numbers_of_rows_are_not_made_here() -> None:
    identity = column("n", **dict[str, Any]({"delta.identity.start": 1}))
    assert list(obstacles(read_state(lines(identity)), removes=True)) == ["it numbers the column n (identity)"]


def test_a_result_may_lack_what_the_table_makes() -> None:
    state = read_state(lines(column("id"), GENERATED))
    assert [field["name"] for field in without_generated(state, ["id"]).columns] == ["id"]
    assert without_generated(state, ["id", "next"]) == state


def test_a_file_has_the_names_of_now() -> None:
    """`day` was renamed to `was`, and another column `day` was added."""
    was = column("was", **dict[str, Any]({"delta.columnMapping.physicalName": "day"}))
    now = column("day", **dict[str, Any]({"delta.columnMapping.physicalName": "col-1"}))
    given = file(partition={"col-1": "7"}, **stats(7, 7))
    found = with_names(read_state(lines(was, now)), given)
    assert found.partition == {"day": "7"}
    assert found.stats["minValues"] == {"was": 7} and found.stats["numRecords"] == 10


KEYS = {
    "long": "",
    "decimal(9,2)": "",
    "double": "is double, which cannot be compared exactly",
    "float": "is float, which cannot be compared exactly",
    "variant": "is variant, which cannot be compared exactly",
}


@pytest.mark.parametrize("kind", list(KEYS))
def test_whether_rows_can_be_told_by_a_column(kind: str) -> None:
    assert key_trouble(read_state(lines(column("k", kind))), "k") == KEYS[kind]


def test_rows_cannot_be_told_by_what_has_parts_or_blanks() -> None:
    padded = column("k", "string", __CHAR_VARCHAR_TYPE_STRING="char(3)")
    assert (
        "letter by letter" in key_trouble(read_state(lines(padded)), "k")
        and type_of(read_state(lines(padded)), "k") == ""
    )
    limited = column("k", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(3)")
    assert key_trouble(read_state(lines(limited)), "k") == "" and type_of(read_state(lines(limited)), "k") == "string"
    collated = column("k", "string", __COLLATIONS={"k": "icu.UNICODE"})
    assert "letter by letter" in key_trouble(read_state(lines(collated)), "k")
    assert "is struct" in key_trouble(read_state(lines(column("k", DEEP))), "k")
    assert key_trouble(read_state(lines()), "k") == "is no column of the table"


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
    [read] = read_files(['part-1\t12\t{"day": "7"}\t{"minValues": {"text": "a\\tb"}}\t\t0'])
    assert read.partition == {"day": "7"} and read.stats["minValues"]["text"] == "a\tb"
    assert not read.publication and not read.deletes
    [tagged] = read_files(["part-1\t12\t{}\t\tv8-1-1\t1"])
    assert tagged.publication == "v8-1-1" and tagged.deletes == 1


WRONG = {
    "a mode that there is not": lambda: delta("gold.daily", "upsert"),
    "a merge without its keys": lambda: delta("gold.daily", "merge"),
    "keys, and another mode": lambda: delta("gold.daily", "append", keys=["id"]),
    "keys, and a partition": lambda: delta("gold.daily", keys=["id"], partition={"day": "7"}),
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
    assert delta("gold.daily", keys="id") == delta("gold.daily", "merge", keys=["id"])
    assert delta("file:/a//b/").spelling == delta("/a/b").spelling
    assert "one commit" in delta("gold.daily").seen
