"""Operations on two frames: joins of every kind, unions, set operations, and a lookup that is read inside a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from differential.frames import COMPARED, PLAIN, Column, Frame, Invalid, Others, quoted
from differential.kinds import Kind, kind, recent
from differential.values import Args

JOINS = ("inner", "left", "right", "full", "left_semi", "left_anti")
HINTS = ("", "", "", "broadcast", "merge", "shuffle_hash")


def _common(one: Frame, other: Frame, types: frozenset[str]) -> list[str]:
    """Columns of one name and type in both."""
    return [name for name in one.of(types) if name in other.of(types) and one.type_of(name) == other.type_of(name)]


def _of_type(frame: Frame, type_: str) -> list[str]:
    return frame.of({type_})


def _exact(other: Frame) -> Frame:
    if not other.is_exact:
        raise Invalid("the other one is not determinate")
    return other


@kind("join", 3)
class Join(Kind):
    """By a column of one name in both; of the other frame one more column is taken, under a new name."""

    needs_other = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        name = rng.choice(list(others))
        other = look(name)
        keys = _common(frame, other, PLAIN)
        if not keys:
            return None
        key = rng.choice(keys)
        more = [one for one in other.of(COMPARED) if one != key]
        taken = recent(rng, more, 1)[0] if more else ""
        hint = rng.choice(HINTS)
        return {"other": name, "key": key, "how": rng.choice(JOINS), "take": taken, "as": f"j{rng.randrange(100)}",
                "hint": hint}  # fmt: skip

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        other, key, how = _exact(look(args["other"])), args["key"], args["how"]
        frame.need(key, among=PLAIN)
        other.need(key, among={frame.type_of(key)})
        rows = joined_rows(frame, other, key, how)
        unique = frame.unique if other.unique == key and how in ("inner", "left") else ""
        if how in ("left_semi", "left_anti"):
            return frame.moved().fewer(0.6)
        first = Column(key, frame.type_of(key))
        rest = tuple(one for one in frame.columns if one.name != key)
        made = replace(frame.moved(), columns=(first, *rest), rows=rows, unique=unique)
        if args["take"]:
            if args["as"] in frame.names or args["take"] == key:
                raise Invalid("there is such a column")
            made = made.with_column(args["as"], other.type_of(args["take"]))
        return made

    def code(self, args: Args, tag: str) -> list[str]:
        key = quoted(args["key"])
        taken = [repr(key)]
        if args["take"] and args["how"] not in ("left_semi", "left_anti"):
            taken.append(f'F.col({quoted(args["take"])!r}).alias("{args["as"]}")')
        hint = f'.hint("{args["hint"]}")' if args["hint"] else ""
        by = repr(args["key"])
        return [f'df = df.join({args["other"]}.select({", ".join(taken)}){hint}, {by}, "{args["how"]}")']


@kind("join_by_expression", 1)
class JoinByExpression(Kind):
    """Both key columns stay, under one name."""

    needs_other = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        name = rng.choice(list(others))
        keys = _common(frame, look(name), PLAIN)
        return {"other": name, "key": rng.choice(keys), "how": rng.choice(("inner", "left"))} if keys else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        other, key = _exact(look(args["other"])), args["key"]
        frame.need(key, among=PLAIN)
        other.need(key, among={frame.type_of(key)})
        rows = joined_rows(frame, other, key, args["how"])
        made = replace(frame.moved(), columns=(*frame.columns, Column(key, frame.type_of(key))), rows=rows)
        keeps = other.unique == key and frame.unique != key
        return replace(made, unique=frame.unique if keeps else "")

    def code(self, args: Args, tag: str) -> list[str]:
        key = quoted(args["key"])
        return [
            f"right = {args['other']}.select({key!r})",
            f'df = df.join(right, df[{key!r}] == right[{key!r}], "{args["how"]}")',
        ]


@kind("cross", 0.4)
class Cross(Kind):
    needs_other = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        name = rng.choice(list(others))
        names = look(name).of(COMPARED)
        return {"other": name, "take": rng.choice(names), "as": f"x{rng.randrange(100)}"} if names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        other = _exact(look(args["other"]))
        if args["as"] in frame.names:
            raise Invalid("there is such a column")
        made = replace(frame.moved(), rows=frame.rows * other.rows, unique="")
        return made.with_column(args["as"], other.type_of(args["take"]))

    def code(self, args: Args, tag: str) -> list[str]:
        taken = f'F.col({quoted(args["take"])!r}).alias("{args["as"]}")'
        return [f"df = df.crossJoin({args['other']}.select({taken}))"]


@kind("union", 2)
class Union(Kind):
    """By position, perhaps with columns of one type in another order, or by name."""

    needs_other = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        name = rng.choice(list(others))
        other = look(name)
        if rng.random() < 0.4:
            names = _common(frame, other, COMPARED)
            if not names:
                return None
            chosen = recent(rng, names, rng.choice((2, 3, 5)))
            return {"other": name, "columns": chosen, "with": rng.sample(chosen, len(chosen)), "is_by_name": True}
        pairs = [(one, rng.choice(_of_type(other, frame.type_of(one)) or [""])) for one in frame.of(COMPARED)]
        pairs = [pair for pair in pairs if pair[1]]
        if not pairs:
            return None
        chosen = recent(rng, [one for one, _ in pairs], rng.choice((2, 3, 5)))
        pairs = [pair for pair in pairs if pair[0] in chosen]
        return {"other": name, "columns": [a for a, _ in pairs], "with": [b for _, b in pairs], "is_by_name": False}

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        other = _exact(look(args["other"]))
        ones, twos = args["columns"], args["with"]
        if not args["is_by_name"]:
            for one, two in zip(ones, twos, strict=True):
                other.need(two, among={frame.type_of(one)})
        else:
            for one in ones:
                other.need(one, among={frame.type_of(one)})
        made = frame.only(ones).moved()
        return replace(made, rows=frame.rows + other.rows, unique="")

    def code(self, args: Args, tag: str) -> list[str]:
        mine = ", ".join(repr(quoted(name)) for name in args["columns"])
        theirs = ", ".join(repr(quoted(name)) for name in args["with"])
        how = "unionByName" if args["is_by_name"] else "union"
        return [f"df = df.select({mine}).{how}({args['other']}.select({theirs}))"]


@kind("set", 1)
class SetOf(Kind):
    needs_other = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        name = rng.choice(list(others))
        names = _common(frame, look(name), COMPARED)
        if not names:
            return None
        how = rng.choice(("intersect", "intersectAll", "subtract", "exceptAll"))
        return {"other": name, "columns": recent(rng, names, rng.choice((2, 4))), "how": how}

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        other = _exact(look(args["other"]))
        for name in args["columns"]:
            other.need(name, among={frame.type_of(name)})
        made = frame.only(args["columns"]).moved()
        return made.fewer(0.7)

    def code(self, args: Args, tag: str) -> list[str]:
        names = ", ".join(repr(quoted(name)) for name in args["columns"])
        return [f"df = df.select({names}).{args['how']}({args['other']}.select({names}))"]


@kind("read_in_step", 1)
class ReadInStep(Kind):
    """A lookup that the step reads by itself. It is written by the program: one row per key."""

    needs_spark = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        return (
            {"as": f"l{rng.randrange(100)}", "how": rng.choice(("parquet", "json"))} if "k" in frame.of(PLAIN) else None
        )

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need("k", among={"long"})
        if args["as"] in frame.names:
            raise Invalid("there is such a column")
        rest = tuple(one for one in frame.columns if one.name != "k")
        return replace(frame.moved(), columns=(Column("k", "long"), *rest)).with_column(args["as"], "long")

    def code(self, args: Args, tag: str) -> list[str]:
        if args["how"] == "json":
            read = 'spark.read.json(f"{DATA}/lookup.json")'
        else:
            read = 'spark.read.parquet(f"{DATA}/lookup")'
        return [f'df = df.join({read}.select("k", F.col("label").alias("{args["as"]}")), "k", "left")']


def joined_rows(one: Frame, other: Frame, key: str, how: str) -> int:
    """About how many rows a join has."""
    if other.unique == key:
        rows = one.rows
    elif one.unique == key:
        rows = other.rows
    else:
        rows = one.rows * other.rows // 6
    return rows if how in ("inner", "left") else max(rows, one.rows + other.rows)
