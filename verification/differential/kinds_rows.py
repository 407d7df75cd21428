"""Operations row by row: filters, projections, columns of every type, names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from differential.frames import (
    ARRAY,
    CALENDAR,
    COMPARED,
    DATE,
    DAY_TIME,
    DECIMAL,
    INT,
    LCASE,
    LONG,
    NUMBERS,
    PLAIN,
    STRING,
    STRUCT,
    TIME,
    VARIANT,
    VOID,
    Column,
    Frame,
    Invalid,
    Others,
    quoted,
)
from differential.kinds import Kind, kind, recent
from differential.values import Args

ODD_NAMES = ("a.b", "o.k", "größe", "two words", "K", "X", "ID", "a`b", "ключ")


@kind("filter", 3)
class Filter(Kind):
    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of(NUMBERS)
        return {"column": rng.choice(names), "by": rng.choice((2, 3, 5))} if names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["column"], among=NUMBERS)
        return frame.fewer(1 - 1 / args["by"]).unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        return [f'df = df.where("{quoted(args["column"])} % {args["by"]} <> 1")']


@kind("select", 2)
class Select(Kind):
    """A projection, which may leave out the unique column."""

    is_row_wise = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = [one.name for one in frame.columns if frame.names.count(one.name) == 1]
        if len(names) < 2:
            return None
        kept = [name for name in names if rng.random() < 0.75 or (name == frame.unique and rng.random() < 0.9)]
        return {"columns": kept} if len(kept) > 1 else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        if not set(frame.ids) <= set(args["columns"]):
            raise Invalid("ids are judged")
        return frame.only(args["columns"]).unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        return [f"df = df.select({', '.join(repr(quoted(name)) for name in args['columns'])})"]


# Type: (types it is made from, expression with {c}).
COMPUTED: dict[str, tuple[frozenset[str], str]] = {
    LONG: (NUMBERS, "cast({c} as bigint) * 3 + 1"),
    INT: (NUMBERS, "cast({c} % 17 as int)"),
    STRING: (NUMBERS, "concat('v', {c} % 9)"),
    DECIMAL: (NUMBERS, "cast({c} % 500 as decimal(12,2))"),
    DATE: (NUMBERS, "date_add(date'2024-01-01', cast({c} % 30 as int))"),
    TIME: (NUMBERS, "timestamp'2024-01-01 00:00:00' + make_dt_interval(cast({c} % 30 as int))"),
    ARRAY: (NUMBERS, "array(cast({c} % 3 as int), cast({c} % 5 as int))"),
    STRUCT: (NUMBERS, "named_struct('b', cast({c} % 6 as int), 'c', concat('c', {c} % 2))"),
    DAY_TIME: (NUMBERS, "make_dt_interval(cast({c} % 50 as int), 2)"),
    CALENDAR: (NUMBERS, "make_interval(0, cast({c} % 4 as int), 0, cast({c} % 9 as int))"),
    LCASE: (frozenset({STRING}), "{c} collate UTF8_LCASE"),
    VARIANT: (NUMBERS, "parse_json(concat('{{\"a\": ', {c} % 7, '}}'))"),
    VOID: (PLAIN, "null"),
}
TYPE_WEIGHTS = {LONG: 4.0, INT: 3.0, STRING: 3.0, CALENDAR: 0.7, VOID: 0.7, VARIANT: 0.7}


@kind("compute", 3)
class Compute(Kind):
    """One more column of any type."""

    is_row_wise = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        types = list(COMPUTED)
        made = rng.choices(types, [TYPE_WEIGHTS.get(one, 1.0) for one in types])[0]
        names = frame.of(COMPUTED[made][0])
        return {"column": rng.choice(names), "type": made, "name": f"c{rng.randrange(100)}"} if names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["column"], among=COMPUTED[args["type"]][0])
        if args["name"] in frame.names:
            raise Invalid("there is such a column")
        return frame.with_column(args["name"], args["type"]).unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        text = COMPUTED[args["type"]][1].format(c=quoted(args["column"]))
        return [f'df = df.withColumn("{args["name"]}", F.expr("""{text}"""))']


@kind("rename", 1.2)
class Rename(Kind):
    """A name with a dot, a blank, a backtick, letters of other alphabets, or one that differs by case only."""

    is_row_wise = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of(COMPARED)
        return {"column": rng.choice(names), "name": rng.choice(ODD_NAMES)} if names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        old, new = args["column"], args["name"]
        if new.lower() in [name.lower() for name in frame.names if name != old]:
            raise Invalid("there is such a column")
        frame.need(old)
        columns = tuple(replace(one, name=new) if one.name == old else one for one in frame.columns)
        ids = tuple(new if name == old else name for name in frame.ids)
        unique = new if frame.unique == old else frame.unique
        return replace(frame, columns=columns, unique=unique, ids=ids).unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        return [f"df = df.withColumnRenamed({args['column']!r}, {args['name']!r})"]


@kind("case_twin", 0.4)
class CaseTwin(Kind):
    """A second column whose name differs by case only; the session tells them apart."""

    is_row_wise = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = [name for name in frame.of(NUMBERS) if name != name.upper()]
        return {"column": rng.choice(names)} if names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["column"], among=NUMBERS)
        if args["column"].upper() in frame.names:
            raise Invalid("there is such a column")
        return frame.with_column(args["column"].upper(), LONG).unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        column = args["column"]
        return [f'df = df.withColumn("{column.upper()}", F.col({quoted(column)!r}).cast("long") % 5)']


@kind("dotted_struct", 0.6)
class DottedStruct(Kind):
    """A column `a.b` beside a struct `a` with a field `b`."""

    is_row_wise = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of(NUMBERS, but=frame.unique)
        return {"column": rng.choice(names), "other": frame.unique} if names and frame.unique else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["column"], args["other"], among=NUMBERS)
        if {"a", "a.b"} & set(frame.names) or args["column"] == args["other"]:
            raise Invalid("there are such columns")
        columns = tuple(replace(one, name="a.b") if one.name == args["column"] else one for one in frame.columns)
        return replace(frame, columns=columns).with_column("a", "struct<b:long>").unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        return [
            f"df = df.withColumnRenamed({args['column']!r}, 'a.b')",
            f'df = df.withColumn("a", F.struct((F.col({quoted(args["other"])!r}) * 7).cast("long").alias("b")))',
        ]


@kind("alias", 1)
class Alias(Kind):
    """A name for the frame, which what follows may use."""

    is_row_wise = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        return {"alias": "o"}

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        return replace(frame, alias=args["alias"])

    def code(self, args: Args, tag: str) -> list[str]:
        return [f'df = df.alias("{args["alias"]}")']


@kind("by_alias", 2)
class ByAlias(Kind):
    """Columns named by the alias that was given before, perhaps in another step."""

    is_row_wise = True

    def shows(self, frame: Frame) -> bool:
        return bool(frame.alias)

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = [name for name in frame.names if frame.names.count(name) == 1]
        return {"alias": frame.alias, "columns": names} if frame.alias and names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        if frame.alias != args["alias"] or not set(frame.ids) <= set(args["columns"]):
            raise Invalid("it has another alias")
        return frame.only(args["columns"]).unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        names = ", ".join(repr(f"{args['alias']}.{quoted(name)}") for name in args["columns"])
        return [f"df = df.select({names})"]


@kind("explode", 1)
class Explode(Kind):
    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of({ARRAY})
        how = rng.choice(("explode", "explode_outer"))
        return {"column": rng.choice(names), "how": how, "name": f"e{rng.randrange(100)}"} if names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["column"], among={ARRAY})
        if args["name"] in frame.names:
            raise Invalid("there is such a column")
        made = replace(frame, rows=frame.rows * 2, unique="", is_ordered=False)
        return made.with_column(args["name"], INT).unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        return [f'df = df.withColumn("{args["name"]}", F.{args["how"]}({quoted(args["column"])!r}))']


@kind("drop_duplicates", 0.6)
class DropDuplicates(Kind):
    """Whole rows of some columns, by a collation or as they are. What a group by a collation shows is made one."""

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names, folded = frame.of(PLAIN), frame.of({STRING})
        if not names or (rng.random() < 0.5 and not folded):
            return None
        return {"columns": recent(rng, names, 3), "folded": rng.choice(folded) if folded else ""}

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(*args["columns"], among=PLAIN)
        if args["folded"]:
            frame.need(args["folded"], among={STRING})
            return Frame((Column("folded", STRING), Column("rows", LONG)), max(1, frame.rows // 2), unique="folded")
        made = frame.only(args["columns"]).moved().fewer(0.7)
        return replace(made, unique=args["columns"][0] if len(args["columns"]) == 1 else made.unique)

    def code(self, args: Args, tag: str) -> list[str]:
        if args["folded"]:
            column = quoted(args["folded"])
            return [
                f'df = df.groupBy(F.expr("{column} collate UTF8_LCASE").alias("key")).agg(F.count("*").alias("rows"))',
                'df = df.select(F.expr("lower(key) collate UTF8_BINARY").alias("folded"), "rows")',
            ]
        return [f"df = df.select({', '.join(repr(quoted(name)) for name in args['columns'])}).dropDuplicates()"]


@kind("sql", 1.5)
class Sql(Kind):
    """SQL text over the frame, by name or through a view."""

    needs_spark = True
    is_row_wise = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of(NUMBERS)
        args = {"name": f"q{rng.randrange(100)}", "is_view": rng.random() < 0.5}
        return {**args, "column": rng.choice(names)} if names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["column"], among=NUMBERS)
        if args["name"] in frame.names or len(set(map(str.lower, frame.names))) != len(frame.names):
            raise Invalid("a view has columns of different names")
        return frame.with_column(args["name"], LONG).unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        made = f"cast({quoted(args['column'])} as bigint) + 5 as {args['name']}"
        if args["is_view"]:
            return [
                f'df.createOrReplaceTempView("view_{tag}")',
                f'df = spark.sql("select *, {made} from view_{tag}")',
            ]
        return [f'df = spark.sql("select *, {made} from {{df}}", df=df)']


@kind("file_name", 0.6)
class FileName(Kind):
    """The name of the source's file that a row is from."""

    is_row_wise = True

    def shows(self, frame: Frame) -> bool:
        return frame.is_files

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        return {"name": "file"} if frame.is_files else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        if not frame.is_files or args["name"] in frame.names:
            raise Invalid("its rows are of no file")
        return frame.with_column(args["name"], STRING).unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        return [f'df = df.withColumn("{args["name"]}", F.element_at(F.split(F.input_file_name(), "/"), -1))']


@kind("sample", 1.5)
class Sample(Kind):
    """A sample with a seed: the same rows in every run if they are read as they lie in the source's files. Elsewhere
    any rows: which ones follows the numbers of partitions, and those nobody asked for are not promised."""

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        is_drawn = frame.is_files or rng.random() < 0.15
        return {"fraction": 0.4, "seed": rng.randrange(1000)} if is_drawn else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        return replace(frame.fewer(0.4), weak="" if frame.is_files and not frame.is_cut else "sample").unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        return [f"df = df.sample(fraction={args['fraction']}, seed={args['seed']})"]

    def change(self, rng: Random, args: Args) -> Args | None:
        return {"seed": args["seed"] + 1}


@kind("cache", 0.5)
class Cache(Kind):
    is_row_wise = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        return {"how": rng.choice(("cache", "persist"))}

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        return replace(frame, is_files=False).unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        return [f"df = df.{args['how']}()"]


@kind("time_zone", 0.4)
class TimeZone(Kind):
    """A setting of the session, made in a step."""

    needs_spark = True
    is_row_wise = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        return {"zone": rng.choice(("Asia/Tokyo", "America/New_York"))} if frame.of({TIME}) else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        return frame

    def code(self, args: Args, tag: str) -> list[str]:
        return [f'spark.conf.set("spark.sql.session.timeZone", "{args["zone"]}")']


@kind("hour", 0.3)
class Hour(Kind):
    """What a clock in the session's time zone shows."""

    is_row_wise = True

    def shows(self, frame: Frame) -> bool:
        return True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of({TIME})
        return {"column": rng.choice(names), "name": f"h{rng.randrange(100)}"} if names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["column"], among={TIME})
        if args["name"] in frame.names:
            raise Invalid("there is such a column")
        return frame.with_column(args["name"], INT).unnamed()

    def code(self, args: Args, tag: str) -> list[str]:
        return [f'df = df.withColumn("{args["name"]}", F.hour({quoted(args["column"])!r}))']
