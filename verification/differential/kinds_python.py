"""Operations in Python: functions row by row, in pandas, by partition and by group, and ways in which code can change.

A function that a fault strikes raises on some values until the program is mended. `rate` is what a user changes between
two drivers: it is reached in another way by each style.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from differential.frames import INT, LONG, NUMBERS, PLAIN, Column, Frame, Invalid, Others, quoted
from differential.kinds import Kind, kind, recent
from differential.values import Args

# How a scalar function is written: lines at the module's top. {t} is a tag, {r} the rate, {ready} what a fault strikes.
STYLES: dict[str, list[str]] = {
    "plain": ["@F.udf('long')", "def {t}(x):", "    return None if x is None else x * {r}{ready}"],
    "helper": [
        "def {t}_help(x):", "    return x * {r}",
        "@F.udf('long')", "def {t}(x):", "    return None if x is None else {t}_help(x){ready}",
    ],
    "constant": [
        "{t}_rate = {r}",
        "@F.udf('long')", "def {t}(x):", "    return None if x is None else x * {t}_rate{ready}",
    ],
    "closure": [
        "def {t}_make(rate):", "    def inner(x):", "        return None if x is None else x * rate{ready}",
        "    return F.udf(inner, 'long')", "{t} = {t}_make({r})",
    ],
    "method": [
        "class {t}_Price:", "    def __init__(self, rate):", "        self.rate = rate",
        "    def go(self, x):", "        return None if x is None else x * self.rate{ready}",
        "{t} = F.udf({t}_Price({r}).go, 'long')",
    ],
    "callable": [
        "class {t}_Price:", "    def __init__(self, rate):", "        self.rate = rate",
        "    def __call__(self, x):", "        return None if x is None else x * self.rate{ready}",
        "{t} = F.udf({t}_Price({r}), 'long')",
    ],
    "partial": [
        "def {t}_of(rate, x):", "    return None if x is None else x * rate{ready}",
        "{t} = F.udf(functools.partial({t}_of, {r}), 'long')",
    ],
    "attribute": [
        "def {t}_of(x):", "    return None if x is None else x * {t}_of.rate{ready}",
        "{t}_of.rate = {r}", "{t} = F.udf({t}_of, 'long')",
    ],
    "class_attribute": [
        "class {t}_Rates:", "    _rate_ = {r}",
        "@F.udf('long')", "def {t}(x):", "    return None if x is None else x * {t}_Rates._rate_{ready}",
    ],
    "registered": ["def {t}_of(x):", "    return None if x is None else x * {r}{ready}"],
    "column": [
        "@F.udf('long')", "def {t}_of(x):", "    return None if x is None else x * {r}{ready}",
        "{t} = {t}_of(F.col({c!r}))",
    ],
}  # fmt: skip
STYLE_WEIGHTS = {"plain": 4.0, "registered": 1.5, "method": 1.5, "column": 1.5}


@kind("udf", 3)
class Udf(Kind):
    is_row_wise = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of(NUMBERS)
        styles = list(STYLES)
        style = rng.choices(styles, [STYLE_WEIGHTS.get(one, 0.6) for one in styles])[0]
        args = {"style": style, "rate": rng.choice((1, 2, 3)), "name": f"u{rng.randrange(100)}", "is_struck": False}
        return {**args, "column": rng.choice(names)} if names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["column"], among=NUMBERS)
        if args["name"] in frame.names:
            raise Invalid("there is such a column")
        return frame.with_column(args["name"], LONG).unnamed()

    def head(self, args: Args, tag: str) -> list[str]:
        ready = " + ready(x)" if args["is_struck"] else ""
        return [
            one.format(t=tag, r=args["rate"], ready=ready, c=quoted(args["column"])) for one in STYLES[args["style"]]
        ]

    def code(self, args: Args, tag: str) -> list[str]:
        column, name = quoted(args["column"]), args["name"]
        match args["style"]:
            case "registered":
                return [f'df = df.selectExpr("*", "{tag}({column}) as {name}")']
            case "column":
                return [f'df = df.withColumn("{name}", {tag})']
            case _:
                return [f'df = df.withColumn("{name}", {tag}({column!r}))']

    def change(self, rng: Random, args: Args) -> Args | None:
        return {"rate": args["rate"] + 4}


@kind("pandas_udf", 1.2)
class PandasUdf(Kind):
    is_row_wise = True

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = [name for name in frame.of(NUMBERS) if name != "v"]
        args = {"rate": rng.choice((1, 2)), "name": f"y{rng.randrange(100)}", "is_struck": False}
        return {**args, "column": rng.choice(names)} if names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["column"], among=NUMBERS)
        if args["name"] in frame.names:
            raise Invalid("there is such a column")
        return frame.with_column(args["name"], LONG).unnamed()

    def head(self, args: Args, tag: str) -> list[str]:
        ready = "    [ready(one) for one in x]" if args["is_struck"] else "    # Nothing strikes it."
        return [
            "@F.pandas_udf('long')",
            f"def {tag}(x: pd.Series) -> pd.Series:",
            ready,
            f"    return (x.fillna(0) * {args['rate']}).astype('int64')",
        ]

    def code(self, args: Args, tag: str) -> list[str]:
        return [f'df = df.withColumn("{args["name"]}", {tag}({quoted(args["column"])!r}))']

    def change(self, rng: Random, args: Args) -> Args | None:
        return {"rate": args["rate"] + 4}


@kind("map_in_pandas", 1)
class MapInPandas(Kind):
    """Row by row, through a batch: two columns are left."""

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of({LONG, INT})
        unique = frame.unique if frame.unique in names else ""
        chosen = list(dict.fromkeys([unique or rng.choice(names), recent(rng, names, 1)[0]])) if names else []
        return {"columns": chosen, "rate": 2} if len(chosen) == 2 and "v" not in chosen else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(*args["columns"], among=NUMBERS)
        one, two = args["columns"]
        made = replace(frame, columns=(Column(one, LONG), Column(two, LONG)))
        return replace(made, unique=frame.unique if frame.unique == one else "").unnamed()

    def head(self, args: Args, tag: str) -> list[str]:
        one, two = args["columns"]
        return [
            f"def {tag}(batches):",
            "    for batch in batches:",
            "        made = batch.astype('float64').fillna(0).astype('int64')",
            f"        yield made.assign(**{{{two!r}: made[{two!r}] * {args['rate']}}})[[{one!r}, {two!r}]]",
        ]

    def code(self, args: Args, tag: str) -> list[str]:
        one, two = map(quoted, args["columns"])
        schema = ", ".join(f"`{name.replace('`', '``')}` bigint" for name in args["columns"])
        return [f"df = df.select({one!r}, {two!r}).mapInPandas({tag}, {schema!r})"]

    def change(self, rng: Random, args: Args) -> Args | None:
        return {"rate": args["rate"] + 4}


@kind("count_partition", 1.5)
class CountPartition(Kind):
    """How many rows a function sees in one partition, where there is just one."""

    def shows(self, frame: Frame) -> bool:
        return frame.is_single

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        return {} if frame.is_single else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        if not frame.is_single:
            raise Invalid("there may be many partitions")
        return Frame((Column("seen", LONG),), 1, unique="seen")

    def head(self, args: Args, tag: str) -> list[str]:
        return [
            f"def {tag}(batches):",
            "    yield pd.DataFrame({'seen': [sum(len(batch) for batch in batches)]})",
        ]

    def code(self, args: Args, tag: str) -> list[str]:
        return [f'df = df.select(F.lit(1).alias("one")).mapInPandas({tag}, "seen bigint")']


@kind("running_total", 1)
class RunningTotal(Kind):
    """A function that numbers the rows as they come, over a complete order in one partition."""

    def shows(self, frame: Frame) -> bool:
        return frame.is_single and frame.is_ordered

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        names = frame.of(NUMBERS)
        return {"column": frame.unique} if frame.is_single and frame.is_ordered and frame.unique in names else None

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["column"], among=NUMBERS)
        if not (frame.is_single and frame.is_ordered):
            raise Invalid("rows come in any order")
        return Frame((Column("row", LONG), Column("number", LONG)), frame.rows, unique="number")

    def head(self, args: Args, tag: str) -> list[str]:
        return [
            f"def {tag}(batches):",
            "    seen = 0",
            "    for batch in batches:",
            "        yield pd.DataFrame({'row': batch['row'], 'number': range(seen, seen + len(batch))})",
            "        seen += len(batch)",
        ]

    def code(self, args: Args, tag: str) -> list[str]:
        column = quoted(args["column"])
        made = f'df.select(F.col({column!r}).cast("long").alias("row"))'
        return [f'df = {made}.mapInPandas({tag}, "row bigint, number bigint")']


@kind("apply_in_pandas", 1)
class ApplyInPandas(Kind):
    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        keys, values = frame.of({LONG}), [name for name in frame.of({LONG, INT}) if name != "v"]
        keys = [name for name in keys if name not in (frame.unique, "v")]
        if not keys or not values:
            return None
        return {"key": rng.choice(keys), "value": recent(rng, values, 1)[0], "rate": 2}

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        frame.need(args["key"], args["value"], among=PLAIN)
        if args["key"] == args["value"]:
            raise Invalid("one column for both")
        columns = (Column("key", LONG), Column("total", LONG))
        return Frame(columns, max(1, frame.rows // 3), unique="key")

    def head(self, args: Args, tag: str) -> list[str]:
        return [
            f"def {tag}(group):",
            "    key = int(group['key'].fillna(-1).iloc[0])",
            f"    total = int(group['value'].fillna(0).sum()) * {args['rate']}",
            "    return pd.DataFrame({'key': [key], 'total': [total]})",
        ]

    def code(self, args: Args, tag: str) -> list[str]:
        key, value = quoted(args["key"]), quoted(args["value"])
        chosen = f'df.select(F.col({key!r}).alias("key"), F.col({value!r}).cast("long").alias("value"))'
        return [f'df = {chosen}.groupBy("key").applyInPandas({tag}, "key bigint, total bigint")']

    def change(self, rng: Random, args: Args) -> Args | None:
        return {"rate": args["rate"] + 4}
