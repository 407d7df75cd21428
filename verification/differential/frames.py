"""What is known of a frame without running it: its columns, and what Spark promises of its rows.

From this follows how a program is judged. `is_exact` rows are compared as a multiset; a frame in a complete order gives
the same first rows in every run; ids that Spark numbers by partition are unique and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

LONG, INT, STRING, DOUBLE, BOOL, DATE, TIME = "long", "int", "string", "double", "boolean", "date", "timestamp"
DECIMAL, ARRAY, STRUCT, MAP = "decimal(12,2)", "array<int>", "struct<b:int,c:string>", "map<string,int>"
DAY_TIME, CALENDAR, LCASE, VARIANT, VOID = "day-time", "calendar", "lcase", "variant", "void"

NUMBERS = frozenset({LONG, INT})
# Rows can be grouped, joined and told apart by these, and every run shows the same value of a group.
PLAIN = frozenset({LONG, INT, STRING, BOOL, DATE, DECIMAL, TIME})
# Set operations compare whole rows by these.
COMPARED = PLAIN | {ARRAY, STRUCT, DAY_TIME}
# No Parquet file holds these: the sink makes text of them.
NOT_STORED = {CALENDAR: "string", VOID: "string", VARIANT: "json"}


class Invalid(Exception):
    """The operation has no meaning on this frame: a program that was made smaller is not tried."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Frame:
    """`unique` is a column without two equal values. `is_ordered`: in a complete order, so that the first rows are the
    same ones in every run. `is_files`: row by row over the files of a source, so that names of files are the same in
    every run. `is_cut`: it may be read from kept files, in other partitions than those of the source. `is_single`: in
    one partition. `hashed`: by how many partitions and which column the user has just put rows together. `weak` is why
    rows are not determinate ("", `limit`, `sample`), `ids` are columns that hold ids by partition, `ids_follow` whether
    these follow a complete order."""

    columns: tuple[Column, ...]
    rows: int
    unique: str = ""
    is_ordered: bool = False
    is_files: bool = False
    is_cut: bool = False
    is_single: bool = False
    hashed: tuple[int, str] | None = None
    alias: str = ""
    weak: str = ""
    ids: tuple[str, ...] = ()
    ids_follow: bool = False

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.columns]

    @property
    def is_exact(self) -> bool:
        return not self.weak and not self.ids

    def of(self, types: Iterable[str], *, but: str = "") -> list[str]:
        """Names of columns of these types that can be named without doubt."""
        wanted = set(types)
        names = self.names
        return [
            one.name
            for one in self.columns
            if one.type in wanted and names.count(one.name) == 1 and one.name != but and one.name not in self.ids
        ]

    def type_of(self, name: str) -> str:
        found = [one.type for one in self.columns if one.name == name]
        if len(found) != 1:
            raise Invalid(f"{name} is there {len(found)} times")
        return found[0]

    def need(self, *names: str, among: Iterable[str] | None = None) -> None:
        for name in names:
            kind = self.type_of(name)
            if among is not None and kind not in among:
                raise Invalid(f"{name} is {kind}")

    def with_column(self, name: str, type_: str) -> Frame:
        """One more column at the end, or another one in its place."""
        if name in self.names:
            kept = tuple(Column(name, type_) if one.name == name else one for one in self.columns)
            return replace(self, columns=kept, unique="" if self.unique == name else self.unique)
        return replace(self, columns=(*self.columns, Column(name, type_)))

    def only(self, names: Iterable[str]) -> Frame:
        chosen = list(names)
        columns = tuple(Column(name, self.type_of(name)) for name in chosen)
        return replace(self, columns=columns, unique=self.unique if self.unique in chosen else "")

    def fewer(self, share: float) -> Frame:
        return replace(self, rows=max(1, int(self.rows * share)))

    def moved(self) -> Frame:
        """After rows were put elsewhere: no order, no files, no known partitions."""
        return replace(self, is_ordered=False, is_files=False, is_single=False, hashed=None, alias="")

    def unnamed(self) -> Frame:
        return replace(self, alias="")


Others = Callable[[str], Frame]


def quoted(name: str) -> str:
    """As Spark's SQL and `F.col` read it."""
    return name if name.isidentifier() and name.isascii() else f"`{name.replace('`', '``')}`"
