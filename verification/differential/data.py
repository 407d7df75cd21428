"""The tables that random programs read: every value is a formula of the row's number, so that a script makes them."""

from __future__ import annotations

from differential.frames import (
    ARRAY,
    BOOL,
    DATE,
    DECIMAL,
    DOUBLE,
    INT,
    LONG,
    MAP,
    STRING,
    STRUCT,
    TIME,
    Column,
    Frame,
)
from differential.values import Source

# Name: (type, what pyarrow calls it, formula of the row's number i and the table's salt).
COLUMNS: dict[str, tuple[str, str, str]] = {
    "id": (LONG, "pa.int64()", "i"),
    "k": (LONG, "pa.int64()", "(i * 7 + salt) % 11"),
    "x": (INT, "pa.int32()", "(i * 7919 + salt * 31) % 1009"),
    "v": (LONG, "pa.int64()", "None if i % 13 == 5 else (i * i + salt) % 101"),
    "g": (STRING, "pa.string()", "('red', 'Red', 'green', 'blue')[(i + salt) % 4]"),
    "s": (STRING, "pa.string()", "hashlib.sha256(f'{salt}-{i}'.encode()).hexdigest()"),
    "amount": (DECIMAL, "pa.decimal128(12, 2)", "decimal.Decimal((i * 37 + salt) % 5003).scaleb(-2)"),
    "f": (DOUBLE, "pa.float64()", "((i * 31) % 97) / 8"),
    "b": (BOOL, "pa.bool_()", "i % 3 == 0"),
    "day": (DATE, "pa.date32()", "datetime.date(2024, 1, 1) + datetime.timedelta(days=i % 40)"),
    "at": (TIME, "pa.timestamp('us', 'UTC')", "datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=37 * i)"),
    "items": (ARRAY, "pa.list_(pa.int32())", "[i % 5, i % 7, 3][: i % 4]"),
    "st": (
        STRUCT,
        "pa.struct([('b', pa.int32()), ('c', pa.string())])",
        "{'b': i % 6, 'c': f'c{i % 3}'}",
    ),
    "tags": (MAP, "pa.map_(pa.string(), pa.int32())", "[('one', i % 4)]"),
}
FLAT = ("id", "k", "x", "v", "g", "s")
SCHEMA = {LONG: "bigint", TIME: "timestamp"}


def frame_of(source: Source) -> Frame:
    """What is known of a source before anything is done to it."""
    columns = tuple(Column(name, COLUMNS[name][0]) for name in source.columns)
    is_files = source.how in ("parquet", "csv", "json")
    return Frame(columns, source.rows, unique="id", is_files=is_files)


def ddl(source: Source) -> str:
    return ", ".join(f"{name} {SCHEMA.get(COLUMNS[name][0], COLUMNS[name][0])}" for name in source.columns)


def making(source: Source) -> list[str]:
    """Lines that write the table's files below the folder DATA."""
    if source.how in ("range", "rows"):
        return []
    formulas = [f"            {name!r}: pa.array([{COLUMNS[name][2]} for i in ids], {COLUMNS[name][1]}),"
                for name in source.columns]  # fmt: skip
    return [
        f"    salt, folder = {source.salt}, Path(DATA) / {source.name!r}",
        "    folder.mkdir(parents=True, exist_ok=True)",
        f"    for number in range({source.files}):",
        f"        rows, files = {source.rows}, {source.files}",
        "        ids = range(rows * number // files, rows * (number + 1) // files)",
        "        made = pa.table({",
        *formulas,
        "        })",
        *_written(source),
    ]


def _written(source: Source) -> list[str]:
    match source.how:
        case "csv":
            return ["        pacsv.write_csv(made, folder / f'part-{number}.csv')"]
        case "json":
            return [
                "        lines = [json.dumps(row, default=str) for row in made.to_pylist()]",
                "        (folder / f'part-{number}.json').write_text(''.join(f'{line}\\n' for line in lines))",
            ]
        case _:
            return ["        pq.write_table(made, folder / f'part-{number}.parquet', row_group_size=40)"]


def reading(source: Source) -> list[str]:
    """The body of the source's function."""
    path = f'f"{{DATA}}/{source.name}"'
    match source.how:
        case "parquet":
            return [f"    return spark.read.parquet({path})"]
        case "csv":
            return [f'    return spark.read.csv({path}, header=True, schema="{ddl(source)}")']
        case "json":
            return [f'    return spark.read.schema("{ddl(source)}").json({path})']
        case "table":
            return [f'    return spark.table("{table_name(source)}")']
        case "range":
            columns = ", ".join(f'"{_in_sql(name, source.salt)}"' for name in source.columns)
            return [f"    return spark.range(0, {source.rows}).selectExpr({columns})"]
        case _:
            values = ", ".join(COLUMNS[name][2] for name in source.columns)
            return [
                f"    salt = {source.salt}",
                f"    rows = [({values},) for i in range({source.rows})]",
                f'    return spark.createDataFrame(rows, "{ddl(source)}")',
            ]


def table_name(source: Source) -> str:
    return f"differential_{source.name}"


def _in_sql(name: str, salt: int) -> str:
    return {
        "id": "id",
        "k": f"(id * 7 + {salt}) % 11 as k",
        "x": f"cast((id * 7919 + {salt * 31}) % 1009 as int) as x",
        "v": f"if(id % 13 = 5, null, (id * id + {salt}) % 101) as v",
        "g": f"element_at(array('red', 'Red', 'green', 'blue'), cast((id + {salt}) % 4 as int) + 1) as g",
        "s": f"sha2(concat('{salt}-', id), 256) as s",
    }[name]
