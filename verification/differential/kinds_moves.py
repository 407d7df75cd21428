"""Operations that move rows: sorts and what shows them, groups, windows, partitions, hints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from differential.frames import (
    COMPARED,
    INT,
    LONG,
    NUMBERS,
    PLAIN,
    STRING,
    Column,
    Frame,
    Invalid,
    Others,
    quoted,
)
from differential.kinds import Kind, kind, recent
from differential.values import Args


def _fresh(rng: Random, letter: str) -> str:
    return f"{letter}{rng.randrange(100)}"


@kind("sort", 3)
class Sort(Kind):
    """A complete order: the last column is unique."""

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of(PLAIN)
        if frame.unique not in names:
            return None
        return {"column": rng.choice(names), "unique": frame.unique, "is_descending": rng.random() < 0.6}

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["column"], args["unique"], among=PLAIN)
        if frame.unique != args["unique"]:
            raise Invalid("the order would not be complete")
        return replace(frame.moved(), is_ordered=True)

    def code(self, args: Args, tag: str) -> list[str]:
        names = list(dict.fromkeys((args["column"], args["unique"])))
        first = f"F.{'desc' if args['is_descending'] else 'asc'}({quoted(names[0])!r})"
        return [f"df = df.orderBy({', '.join([first, *(repr(quoted(name)) for name in names[1:])])})"]


@kind("sort_ties", 0.5)
class SortTies(Kind):
    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of(PLAIN)
        return {"column": rng.choice(names)} if names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["column"], among=PLAIN)
        return frame.moved()

    def code(self, args: Args, tag: str) -> list[str]:
        return [f"df = df.orderBy({quoted(args['column'])!r})"]


@kind("sort_within", 0.7)
class SortWithin(Kind):
    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of(PLAIN)
        return {"column": rng.choice(names)} if names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["column"], among=PLAIN)
        is_ordered = frame.is_single and args["column"] == frame.unique
        return replace(frame, is_ordered=is_ordered, is_files=False).unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        return [f"df = df.sortWithinPartitions({quoted(args['column'])!r})"]


@kind("limit", 2)
class Limit(Kind):
    """The first rows of an order, or any rows where there is none."""

    def shows(self, frame: Frame) -> bool:
        return frame.is_ordered

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        if not frame.is_ordered and rng.random() < 0.7:
            return None
        return {"count": rng.choice((1, 5, 20, 60))}

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        made = replace(frame, rows=min(frame.rows, args["count"])).unnamed()
        made = replace(made, is_files=False, is_single=frame.is_ordered, hashed=None)
        return replace(made, weak="" if frame.is_ordered else "limit")

    def code(self, args: Args, tag: str) -> list[str]:
        return [f"df = df.limit({args['count']})"]


@kind("offset", 1)
class Offset(Kind):
    def shows(self, frame: Frame) -> bool:
        return frame.is_ordered

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        return {"count": rng.choice((1, 10, 50)), "limit": rng.choice((0, 10))} if frame.is_ordered else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        if not frame.is_ordered:
            raise Invalid("there is no order")
        return replace(frame, is_files=False, hashed=None).unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        limit = f".limit({args['limit']})" if args["limit"] else ""
        return [f"df = df.offset({args['count']}){limit}"]


@kind("ids", 1.2)
class Ids(Kind):
    """Ids by partition: unique, and in the order of the rows if these have one."""

    is_row_wise = True

    def shows(self, frame: Frame) -> bool:
        return frame.is_ordered

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        return {"name": "row_id"} if frame.is_ordered or rng.random() < 0.2 else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        if frame.weak or frame.ids or args["name"] in frame.names:
            raise Invalid("there are ids already")
        made = frame.with_column(args["name"], LONG).unnamed()
        return replace(made, ids=(args["name"],), ids_follow=frame.is_ordered)

    def code(self, args: Args, tag: str) -> list[str]:
        return [f'df = df.withColumn("{args["name"]}", F.monotonically_increasing_id())']


@kind("group", 3)
class Group(Kind):
    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        keys, values = frame.of(PLAIN, but=frame.unique), frame.of(NUMBERS)
        if not keys or not values:
            return None
        many = rng.sample(keys, min(len(keys), rng.choice((1, 1, 2))))
        many = ["a.b"] if "a.b" in keys and rng.random() < 0.5 else many
        also = [name for name in recent(rng, frame.of(PLAIN), 4) if name not in many]
        names = [_fresh(rng, "n"), _fresh(rng, "m")]
        return {"keys": many, "value": recent(rng, values, 1)[0], "names": names, "also": also}

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        keys = args["keys"]
        frame.need(*keys, among=PLAIN)
        frame.need(args["value"], among=NUMBERS)
        frame.need(*args["also"], among=PLAIN)
        names = [*args["names"], *args["also"]]
        if len(set(names)) != len(names) or set(names) & set(keys):
            raise Invalid("names are doubled")
        columns = (
            *(Column(name, frame.type_of(name)) for name in keys),
            Column(names[0], LONG),
            Column(names[1], LONG),
            *(Column(name, frame.type_of(name)) for name in args["also"]),
        )
        return Frame(columns, max(1, frame.rows // 3), unique=keys[0] if len(keys) == 1 else "")

    def code(self, args: Args, tag: str) -> list[str]:
        keys = ", ".join(repr(quoted(name)) for name in args["keys"])
        value = quoted(args["value"])
        total = f'F.expr("sum(cast({value} as bigint))").alias("{args["names"][1]}")'
        also = "".join(f", F.max({quoted(name)!r}).alias({name!r})" for name in args["also"])
        return [f'df = df.groupBy({keys}).agg(F.count("*").alias("{args["names"][0]}"), {total}{also})']


@kind("pivot", 0.6)
class Pivot(Kind):
    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        keys, values = frame.of(PLAIN, but=frame.unique), frame.of(NUMBERS)
        if "g" not in frame.of({STRING}) or not keys or not values:
            return None
        key = rng.choice([name for name in keys if name != "g"] or keys)
        return {"key": key, "value": recent(rng, values, 1)[0]}

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need("g", among={STRING})
        frame.need(args["key"], among=PLAIN)
        frame.need(args["value"], among=NUMBERS)
        if args["key"].lower() in ("g", "blue", "green"):
            raise Invalid("names are doubled")
        columns = (Column(args["key"], frame.type_of(args["key"])), Column("blue", LONG), Column("green", LONG))
        return Frame(columns, max(1, frame.rows // 3), unique=args["key"])

    def code(self, args: Args, tag: str) -> list[str]:
        total = f'F.expr("sum(cast({quoted(args["value"])} as bigint))")'
        return [f'df = df.groupBy({quoted(args["key"])!r}).pivot("g", ["blue", "green"]).agg({total})']


@kind("window", 2)
class WindowOf(Kind):
    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        keys = frame.of(PLAIN, but=frame.unique)
        if not keys or frame.unique not in frame.of(PLAIN):
            return None
        how = rng.choice(("row_number", "lag", "rank"))
        return {"key": rng.choice(keys), "unique": frame.unique, "how": how, "name": _fresh(rng, "w")}

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["key"], args["unique"], among=PLAIN)
        if frame.unique != args["unique"] or args["name"] in frame.names:
            raise Invalid("the order would not be complete")
        made = frame.type_of(args["unique"]) if args["how"] == "lag" else INT
        return frame.moved().with_column(args["name"], made)

    def code(self, args: Args, tag: str) -> list[str]:
        key, unique = quoted(args["key"]), quoted(args["unique"])
        how = f'F.lag("{unique}")' if args["how"] == "lag" else f"F.{args['how']}()"
        window = f'Window.partitionBy("{key}").orderBy("{unique}")'
        return [f'df = df.withColumn("{args["name"]}", {how}.over({window}))']


@kind("distinct", 1)
class Distinct(Kind):
    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of(PLAIN)
        return {"columns": recent(rng, names, rng.choice((1, 2, 4)))} if names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(*args["columns"], among=COMPARED)
        made = frame.only(args["columns"]).moved().fewer(0.5)
        return replace(made, unique=args["columns"][0] if len(args["columns"]) == 1 else made.unique)

    def code(self, args: Args, tag: str) -> list[str]:
        return [f"df = df.select({', '.join(repr(quoted(name)) for name in args['columns'])}).distinct()"]


@kind("repartition", 2.5)
class Repartition(Kind):
    """By hash, by range, round robin, or into one."""

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of(PLAIN)
        how = rng.choice(("one", "one", "round", "hash", "hash", "keys", "range", "coalesce"))
        if how in ("hash", "keys", "range") and not names:
            return None
        return {"how": how, "count": rng.choice((2, 3, 5)), "column": rng.choice(names) if names else ""}

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        how = args["how"]
        if how in ("hash", "keys", "range"):
            frame.need(args["column"], among=PLAIN)
        hashed = (args["count"], args["column"]) if how == "hash" else None
        return replace(frame.moved(), is_single=how == "one", hashed=hashed)

    def code(self, args: Args, tag: str) -> list[str]:
        count, column = args["count"], repr(quoted(args["column"]))
        made = {
            "one": "repartition(1)",
            "round": f"repartition({count})",
            "hash": f"repartition({count}, {column})",
            "keys": f"repartition({column})",
            "range": f"repartitionByRange({count}, {column})",
            "coalesce": f"coalesce({count})",
        }
        return [f"df = df.{made[args['how']]}"]


@kind("hint", 1.5)
class Hint(Kind):
    """A hint on the frame, or in SQL text."""

    needs_spark = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of(PLAIN)
        how = rng.choice(("rebalance", "rebalance", "rebalance", "repartition", "coalesce"))
        args = {"how": how, "count": rng.choice((0, 0, 3)), "is_text": rng.random() < 0.3}
        return {**args, "column": rng.choice(names)} if names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["column"], among=PLAIN)
        if not quoted(args["column"]).isidentifier():
            raise Invalid("a hint takes a name without quotes")
        if args["is_text"] and len(set(map(str.lower, frame.names))) != len(frame.names):
            raise Invalid("a view has columns of different names")
        return frame.moved()

    def code(self, args: Args, tag: str) -> list[str]:
        column, count = quoted(args["column"]), args["count"] or 3
        given = {"rebalance": f'"{column}"', "repartition": f'{count}, "{column}"', "coalesce": str(count)}
        if args["how"] == "rebalance" and args["count"]:
            given["rebalance"] = f'{count}, "{column}"'
        if args["is_text"]:
            text = given[args["how"]].replace('"', "")
            return [
                f'df.createOrReplaceTempView("view_{tag}")',
                f'df = spark.sql("select /*+ {args["how"]}({text}) */ * from view_{tag}")',
            ]
        return [f'df = df.hint("{args["how"]}", {given[args["how"]]})']


@kind("partition_id", 1)
class PartitionId(Kind):
    """The number of the partition, where the user has just said by what rows are put together."""

    is_row_wise = True

    def shows(self, frame: Frame) -> bool:
        return frame.hashed is not None or frame.is_single

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        return {"name": _fresh(rng, "p")} if frame.hashed or frame.is_single else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        if not (frame.hashed or frame.is_single) or args["name"] in frame.names:
            raise Invalid("its partitions are not known")
        return frame.with_column(args["name"], INT).unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        return [f'df = df.withColumn("{args["name"]}", F.spark_partition_id())']
