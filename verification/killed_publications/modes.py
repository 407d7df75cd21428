"""The kinds of publications, their rows, and what a target holds after each."""

from __future__ import annotations

import io
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from rekindle.engine.spark.publish.publication import Publication
from rekindle.master.facts.events import Fence
from rekindle.publish.targets import Target, directory, files, replace, table
from rekindle.storage.store import Store

PLACE, OWNER, SINK = "abc", "daily/out", "out"
COLUMNS = ("id", "amount", "country", "day")
COUNTRIES = ("AT", "DE")
FILES, ROWS, KEYS = 3, 8, 4
ROUNDS_OF_TARGET = 24
NEVER = 10**9
SCHEMA = (
    '{"type":"struct","fields":['
    '{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"amount","type":"long","nullable":true,"metadata":{}},'
    '{"name":"country","type":"string","nullable":true,"metadata":{}},'
    '{"name":"day","type":"string","nullable":true,"metadata":{}}]}'
)

Rows = Counter[tuple[object, ...]]
# Nothing is published.
Seen = Rows | None


def name_of(path: str) -> str:
    """The table whose versions lie in a path."""
    return "t_" + "_".join(path.split("/")[-3:])


@dataclass(frozen=True, slots=True)
class Mode:
    """One kind of target. `adds` if other keys stay; `is_once` if each publication needs a new path; `has_directories`
    if its files lie in Hive's directories; `format` is that of its files."""

    target: Callable[[str, str], Target]
    adds: bool = False
    is_once: bool = False
    is_table: bool = False
    has_current: bool = False
    has_directories: bool = False
    format: str = "parquet"


MODES: Mapping[str, Mode] = {
    "files_overwrite": Mode(lambda path, key: files(path), has_current=True),
    "files_append": Mode(lambda path, key: files(path, mode="append"), adds=True, has_current=True),
    "files_partition": Mode(
        lambda path, key: files(
            path, mode="partition", hive_partition_by=["day", "country"], partition={"day": key}, compression="none"
        ),
        adds=True,
        has_current=True,
        has_directories=True,
    ),
    "table_overwrite": Mode(lambda path, key: table(name_of(path), location=path), is_table=True),
    "table_append": Mode(lambda path, key: table(name_of(path), "append", location=path), adds=True, is_table=True),
    "table_partition": Mode(
        lambda path, key: table(
            name_of(path), hive_partition_by=["day", "country"], partition={"day": key}, location=path
        ),
        adds=True,
        is_table=True,
        has_directories=True,
    ),
    "files_csv": Mode(
        lambda path, key: files(path, mode="append", format="csv", options={"header": "true"}),
        adds=True,
        has_current=True,
        format="csv",
    ),
    "directory": Mode(lambda path, key: directory(path), is_once=True),
    "replace": Mode(lambda path, key: replace(path, atomic=False)),
}


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """What a publisher is told. `at` is the step at which it gets the signal `number`, and `then` how many steps later
    it is killed, if that only stopped it; `notes` is the file into which it writes each step; `planted` names the
    protection that is switched off; `gateway` is the port and the secret of the JVM that it shares, none if it starts
    its own."""

    mode: str
    path: str
    key: str
    order: int
    epoch: int
    files: tuple[tuple[str, int], ...]
    storage: dict[str, str]
    spark: dict[str, str]
    notes: str
    gateway: tuple[int, str] | None = None
    at: int = NEVER
    number: int = signal.SIGKILL
    then: int = NEVER
    planted: str = ""

    @property
    def publication(self) -> Publication:
        return Publication(
            sink=SINK,
            owner=OWNER,
            target=MODES[self.mode].target(self.path, self.key),
            fence=Fence(self.order, self.epoch, 1),
            files=self.files,
            schema=SCHEMA,
            place=PLACE,
            key=self.key,
        )


@dataclass(slots=True)
class Truth:
    """What a target holds: rows by key, before and after the publication of a round, and all rows of each version."""

    adds: bool
    before: dict[str, Rows] = field(default_factory=dict)
    after: dict[str, Rows] = field(default_factory=dict)
    versions: list[Rows] = field(default_factory=list)

    def begin(self, key: str, rows: Rows) -> None:
        self.before = self.after
        self.after = {**(self.before if self.adds else {}), key: rows}
        self.versions.append(self.new)

    @property
    def old(self) -> Seen:
        return sum(self.before.values(), Counter()) if self.before else None

    @property
    def new(self) -> Rows:
        return sum(self.after.values(), Counter())


def commit(store: Store, root: str, name: str, key: str, order: int) -> tuple[tuple[tuple[str, int], ...], Rows]:
    """The committed files of one run, as tasks would have written them, and their rows. Some countries have none."""
    found, rows = [], Rows()
    there = COUNTRIES[: 1 + order % len(COUNTRIES)]
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        columns = (list(ids), [order] * ROWS, [there[one % len(there)] for one in ids], [key] * ROWS)
        body = io.BytesIO()
        pq.write_table(pa.table(dict(zip(COLUMNS, columns, strict=True))), body)
        path = f"results/{name}/{order:05d}/part-1_{number:05d}.parquet"
        store.put(path, body.getvalue())
        found.append((f"{root}/{path}", len(body.getvalue())))
        rows.update(zip(*columns, strict=True))
    return tuple(found), rows
