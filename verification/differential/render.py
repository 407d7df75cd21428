"""The text of a user's module for a program: functions, a pipeline or a script of them, and the same composed uncut.

The functions are called in turn by `bare`, so that bare Spark is given exactly what the user wrote, in one plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from differential import data
from differential.frames import NOT_STORED, Frame, Invalid
from differential.kinds import KINDS, apply_all
from differential.values import Mode, Op, Program, Source, Step

HEAD = '''"""A random program of the differential tester: seed {seed}, {mode}{onramp}."""
import datetime, decimal, functools, hashlib, json, os, zlib
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from pyspark.sql import Window
from pyspark.sql import functions as F

import rekindle as rk

FOLDER = {folder!r}
DATA, OUT, FLAGS = f"{{FOLDER}}/data", f"{{FOLDER}}/out", f"{{FOLDER}}/flags"
FAILS = {fails}


def ready(value):
    """Fails on some values until the flag `open` is there, or until it has failed FAILS times."""
    if zlib.crc32(repr(value).encode()) % {rare} == 0 and not os.path.exists(f"{{FLAGS}}/open"):
        count = len(os.listdir(FLAGS))
        Path(f"{{FLAGS}}/{{count}}").touch()
        if count + 1 >= FAILS:
            Path(f"{{FLAGS}}/open").touch()
        raise ValueError("the service is down")
    return 0

'''
RETRIES = 2
FOREVER = 1_000_000
SINK = "out"


@dataclass(frozen=True, slots=True)
class Judged:
    """How the result is to be compared, by the positions of its columns. A script's last frame is collected, so that
    its order can be seen; what a pipeline publishes has none."""

    weak: str
    ids: tuple[int, ...]
    ids_follow: bool
    is_ordered: bool


def frames_of(program: Program) -> dict[str, Frame]:
    """What is known of every source and step. Raises `Invalid`."""
    found = {source.name: data.frame_of(source) for source in program.sources}

    def look(name: str) -> Frame:
        if name not in found:
            raise Invalid(f"{name} is gone")
        return found[name]

    for step in program.steps:
        for op in step.ops:
            if "other" in op.args and KINDS[op.kind].needs_other and op.args["other"] not in step.inputs:
                raise Invalid("it reads what is no input")
        frame = apply_all(look(step.inputs[0]), step.ops, look)
        for key in step.partition_by:
            if frame.names.count(key) != 1:
                raise Invalid(f"{key} is no column")
        found[step.name] = replace(frame, is_cut=True)
    if program.sink_by:
        found[program.steps[-1].name].need(*program.sink_by)
        if not is_plain(found[program.steps[-1].name]):
            raise Invalid("the sink gives other names")
    return found


def judged_of(program: Program) -> Judged:
    last = frames_of(program)[program.steps[-1].name]
    ids = tuple(last.names.index(name) for name in last.ids)
    return Judged(last.weak, ids, last.ids_follow, last.is_ordered and program.is_onramp)


def module_text(program: Program, folder: str) -> str:
    """Raises `Invalid` if the program has no meaning."""
    frames = frames_of(program)
    rare = max(7, program.sources[0].rows // 2)
    fails = RETRIES if program.mode is Mode.RETRY else FOREVER
    onramp = ", on-ramp" if program.is_onramp else ""
    lines = [
        HEAD.format(seed=program.seed, mode=program.mode.value, onramp=onramp, folder=folder, fails=fails, rare=rare),
        *_make_data(program),
        *_heads(program),
        *_prepare(program),
    ]
    if not program.is_onramp:
        lines += [f'p = rk.Pipeline("program_{program.seed}")', ""]
    for source in program.sources:
        lines += [*_decorator(program, "p.source", {}), f"def {source.name}(spark):", *data.reading(source), "", ""]
    for step in program.steps:
        lines += [*_step(program, step), "", ""]
    lines += [*_sink(program, frames[program.steps[-1].name]), "", "", *_bare(program)]
    if program.is_onramp:
        lines += ["", "", *_script(program)]
    return "\n".join(lines) + "\n"


def tag_of(step: Step, at: int) -> str:
    return f"f_{step.name}_{at}"


def _make_data(program: Program) -> Iterator[str]:
    yield "def make_data():"
    yield "    Path(FLAGS).mkdir(parents=True, exist_ok=True)"
    for source in program.sources:
        yield from data.making(source)
    if any(op.kind == "read_in_step" for _, _, op in program.ops()):
        yield "    made = pa.table({'k': list(range(11)), 'label': [key * 10 for key in range(11)]})"
        yield "    Path(f'{DATA}/lookup').mkdir(parents=True, exist_ok=True)"
        yield "    pq.write_table(made, f'{DATA}/lookup/part-0.parquet')"
        yield "    lines = ''.join(json.dumps(row) + '\\n' for row in made.to_pylist())"
        yield "    Path(f'{DATA}/lookup.json').write_text(lines)"
    yield ""
    yield ""


def _heads(program: Program) -> Iterator[str]:
    for step, at, op in program.ops():
        head = KINDS[op.kind].head(op.args, tag_of(step, at))
        if head:
            yield from [*head, "", ""]


def _prepare(program: Program) -> Iterator[str]:
    """What a script does before its pipeline is run: tables and functions of the session."""
    yield "def prepare(spark):"
    for source in program.sources:
        if source.how == "table":
            name = data.table_name(source)
            path = f"{{DATA}}/{source.name}"
            yield f"    spark.sql('drop table if exists {name}')"
            yield f"    spark.sql(f\"create table {name} using parquet location '{path}'\")"
    for step, at, op in program.ops():
        if op.kind == "udf" and op.args["style"] == "registered":
            tag = tag_of(step, at)
            yield f"    spark.udf.register('{tag}', {tag}_of, 'long')"
    yield "    return spark"
    yield ""
    yield ""


def _decorator(program: Program, name: str, options: dict[str, object]) -> list[str]:
    if program.is_onramp:
        return []
    given = ", ".join(f"{key}={value!r}" for key, value in options.items())
    return [f"@{name}({given})" if given else f"@{name}"]


def options_of(step: Step) -> dict[str, object]:
    options: dict[str, object] = {}
    if step.result != "auto":
        options["result"] = step.result
    if step.partition_by:
        options["partition_by"] = list(step.partition_by) if len(step.partition_by) > 1 else step.partition_by[0]
    if step.partitions:
        options["partitions"] = step.partitions
    return options


def has_spark(step: Step) -> bool:
    return any(KINDS[op.kind].needs_spark for op in step.ops)


def _step(program: Program, step: Step) -> Iterator[str]:
    yield from _decorator(program, "p.step", options_of(step))
    yield f"def {step.name}({', '.join([*(['spark'] if has_spark(step) else []), *step.inputs])}):"
    yield f"    df = {step.inputs[0]}"
    for at, op in enumerate(step.ops):
        for line in KINDS[op.kind].code(op.args, tag_of(step, at)):
            yield f"    {line}"
    yield "    return df"


def is_plain(last: Frame) -> bool:
    """Whether a file can hold it as it is, and a reader name its columns without quotes."""
    names = [one.lower() for one in last.names]
    is_named = all(one.isidentifier() and one.isascii() for one in names) and len(set(names)) == len(names)
    return is_named and not any(one.type in NOT_STORED for one in last.columns)


def _sink(program: Program, last: Frame) -> Iterator[str]:
    """What goes to the target: plain names, and text of what no file holds. A frame without either goes as it is."""
    name = program.steps[-1].name
    if not program.is_onramp:
        options: dict[str, object] = {"partition_by": program.sink_by[0]} if program.sink_by else {}
        if program.sink_partitions:
            options["partitions"] = program.sink_partitions
        given = "".join(f", {key}={value!r}" for key, value in options.items())
        yield f"@p.sink(rk.files(OUT){given})"
    yield f"def {SINK}({name}):"
    if is_plain(last):
        yield f"    return {name}"
        return
    columns = [f"c{at}" for at in range(len(last.columns))]
    yield f"    df = {name}.toDF({', '.join(map(repr, columns))})"
    shown = []
    for column, one in zip(columns, last.columns, strict=True):
        match NOT_STORED.get(one.type):
            case None:
                shown.append(repr(column))
            case "json":
                shown.append(f'F.to_json("{column}").alias("{column}")')
            case _:
                shown.append(f'F.col("{column}").cast("string").alias("{column}")')
    yield f"    return df.select({', '.join(shown)})"


def _call(step: Step) -> str:
    arguments = [*(["spark"] if has_spark(step) else []), *(f"{name}_" for name in step.inputs)]
    return f"{step.name}({', '.join(arguments)})"


def _bare(program: Program) -> Iterator[str]:
    yield "def bare(spark):"
    yield '    """The same steps in one plan, without Rekindle."""'
    for source in program.sources:
        yield f"    {source.name}_ = {source.name}(spark)"
    for step in program.steps:
        yield f"    {step.name}_ = {_call(step)}"
    yield f"    return {SINK}({program.steps[-1].name}_)"


def _script(program: Program) -> Iterator[str]:
    """A script that keeps what it makes; a `pipelined` step is left as it is."""
    yield "def script(spark, run):"
    for source in program.sources:
        yield f"    {source.name}_ = {source.name}(spark)"
    for step in program.steps:
        if step.result == "pipelined":
            yield f"    {step.name}_ = {_call(step)}"
            continue
        options = {key: value for key, value in options_of(step).items() if key != "result"}
        given = "".join(f", {key}={value!r}" for key, value in options.items())
        yield f'    {step.name}_ = run.keep({_call(step)}, "{step.name}"{given})'
    yield f"    return {SINK}({program.steps[-1].name}_)"


def superset_of(program: Program) -> Program:
    """The program without the operation that takes any rows: what it takes is among these."""
    ops = {"limit", "sample"}

    def cut(step: Step) -> Step:
        kept: list[Op] = []
        for at, op in enumerate(step.ops):
            before = (*step.ops[:at],)
            if op.kind in ops and _is_weak(program, step, before, op):
                continue
            kept.append(op)
        return msgspec.structs.replace(step, ops=tuple(kept))

    return msgspec.structs.replace(program, steps=tuple(cut(step) for step in program.steps))


def _is_weak(program: Program, step: Step, before: tuple[Op, ...], op: Op) -> bool:
    found = frames_of(program)

    def look(name: str) -> Frame:
        return found[name]

    frame = apply_all(found[step.inputs[0]], before, look)
    return not frame.weak and bool(KINDS[op.kind].apply(frame, op.args, look).weak)


def sources_used(program: Program) -> list[Source]:
    read = {name for step in program.steps for name in step.inputs}
    return [source for source in program.sources if source.name in read]
