"""Conditions by which records of a stream are told apart, as SQL in front of the stream.

A record of Kafka is told by topic, partition and offset, a row of Parquet by its file and number. Rows of other files
have no number that Spark tells: they are told by their file and a hash of their content, so that equal rows are one.
Rows of a result are told by their batch and such a hash: where they are changes when a batch is made again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from rekindle.engine.spark.jvm.plan_calls import quoted
from rekindle.engine.spark.stream.batch_replay import BATCH, FILE, HIDDEN, StreamLeaf
from rekindle.errors import Refused
from rekindle.streams.source_records import SourceRecord

# Nothing that differs may look equal: times to the microsecond, and nulls.
AS_JSON = (
    ("timeZone", "UTC"),
    ("ignoreNullFields", "false"),
    ("timestampFormat", "yyyy-MM-dd HH:mm:ss.SSSSSSxxx"),
    ("timestampNTZFormat", "yyyy-MM-dd HH:mm:ss.SSSSSS"),
)
ROW = f"{HIDDEN}.row_index"


def text(value: str) -> str:
    """A string in SQL, whatever letters it has and whatever the session makes of backslashes."""
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


def content(leaf: StreamLeaf) -> str:
    """A record as JSON: equal records give equal text."""
    names = [str(field["name"]) for field in json.loads(leaf.schema)["fields"]]
    if HIDDEN in names:
        raise Refused(f"the stream {leaf.name} has a column {HIDDEN}: its files cannot be told", "rename that column")
    columns = ", ".join(map(quoted, names))
    return f"to_json(struct({columns}), map({', '.join(repr(one) for pair in AS_JSON for one in pair)}))"


def digest(leaf: StreamLeaf) -> str:
    """The hash by which a record of a file without row numbers is told."""
    return f"sha2({content(leaf)}, 256)"


def is_record(leaf: StreamLeaf, record: SourceRecord) -> str:
    """Holds for this record alone, and those equal to it where there are no numbers."""
    if record.partition >= 0:
        return f"topic = {text(record.place)} AND partition = {record.partition} AND offset = {record.number}"
    if record.is_of_result:
        return f"{BATCH} = '{record.number}' AND {digest(leaf)} = '{record.digest}'"
    file = f"{FILE} = {text(record.place)}"
    return f"{file} AND {digest(leaf)} = '{record.digest}'" if record.digest else f"{file} AND {ROW} = {record.number}"


def is_none_of(leaf: StreamLeaf, records: Iterable[SourceRecord]) -> str:
    """Holds for every other record; empty where there is none to leave out."""
    return " AND ".join(f"NOT ({is_record(leaf, one)})" for one in records)


def both(one: str, other: str) -> str:
    """Holds where both do; an empty condition always does."""
    return f"{one} AND {other}" if one and other else one or other
