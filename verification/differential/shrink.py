"""A failing program made smaller: the fewest operations, steps and rows that still fail the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from differential.frames import Invalid
from differential.kinds import KINDS
from differential.render import frames_of
from differential.values import Mode, Program, Step, replaced_op

Fails = Callable[[Program], bool]
replace = msgspec.structs.replace


def shrink(program: Program, fails: Fails, tries_max: int) -> Program:
    """One change after the other that keeps it failing, until none does or `tries_max` were tried."""
    left = tries_max
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller in candidates(program):
            if left <= 0:
                return program
            left -= 1
            if fails(smaller):
                program, is_smaller = smaller, True
                break
    return program


def candidates(program: Program) -> Iterator[Program]:
    """Programs with less in them that have a meaning, the boldest first."""
    for one in _all(program):
        try:
            frames_of(one)
        except Invalid:
            continue
        if one != program and one.steps:
            yield one


def _all(program: Program) -> Iterator[Program]:
    if program.mode is not Mode.PLAIN:
        yield replace(program, mode=Mode.PLAIN, change=None, later_settings={})
        if program.mode in (Mode.NEW_DRIVER, Mode.SETTINGS):
            yield replace(program, mode=Mode.CHANGED if program.change else Mode.FAULT, later_settings={})
    for at in range(len(program.steps) - 1, 0, -1):
        yield _without_step(program, program.steps[at])
    if len(program.steps) > 1:
        yield _without_step(program, program.steps[0])
    for step in program.steps:
        for at, _ in enumerate(step.ops):
            yield _without_op(program, step, at)
    yield from _less_said(program)
    for source in program.sources:
        if source.rows > 5:
            yield _with_source(program, source.name, rows=source.rows // 2)
        if source.files > 1:
            yield _with_source(program, source.name, files=1)
        if source.how != "parquet":
            yield _with_source(program, source.name, how="parquet")
        for name in source.columns[1:]:
            yield _with_source(program, source.name, columns=tuple(one for one in source.columns if one != name))


def _less_said(program: Program) -> Iterator[Program]:
    """Fewer settings, and fewer options of steps."""
    for key in program.settings:
        yield replace(program, settings={name: value for name, value in program.settings.items() if name != key})
    for key in program.later_settings:
        if program.later_settings[key] != program.settings.get(key):
            less = {name: value for name, value in program.later_settings.items() if name != key}
            yield replace(program, later_settings=less)
    if program.sink_by:
        yield replace(program, sink_by=(), sink_partitions=None)
    for step in program.steps:
        if step.partitions:
            yield _with_step(program, replace(step, partitions=None))
        if step.partition_by:
            yield _with_step(program, replace(step, partition_by=(), partitions=None))
        if step.result != "auto":
            yield _with_step(program, replace(step, result="auto"))


def _with_step(program: Program, step: Step) -> Program:
    return replace(program, steps=tuple(step if one.name == step.name else one for one in program.steps))


def _with_source(program: Program, name: str, **what: object) -> Program:
    changed = tuple(replace(one, **what) if one.name == name else one for one in program.sources)
    return replace(program, sources=changed)


def _without_op(program: Program, step: Step, at: int) -> Program:
    change = program.change
    if change is not None and change.step == step.name:
        if change.at == at:
            return program
        if change.at > at:
            program = replace(program, change=replace(change, at=change.at - 1))
    made = replaced_op(program, step.name, at, None)
    return used(made)


def _without_step(program: Program, step: Step) -> Program:
    """What read it reads its first input instead."""
    if program.change is not None and program.change.step == step.name:
        return program

    def read(one: Step) -> Step:
        inputs = tuple(dict.fromkeys(step.inputs[0] if name == step.name else name for name in one.inputs))
        ops = tuple(
            replace(op, args=op.args | {"other": step.inputs[0]})
            if KINDS[op.kind].needs_other and op.args["other"] == step.name
            else op
            for op in one.ops
        )
        return replace(one, inputs=inputs, ops=ops)

    return used(replace(program, steps=tuple(read(one) for one in program.steps if one.name != step.name)))


def used(program: Program) -> Program:
    """Without inputs that no operation names, and without what nothing reads."""

    def read(one: Step) -> Step:
        others = {op.args["other"] for op in one.ops if KINDS[op.kind].needs_other}
        return replace(one, inputs=(one.inputs[0], *(name for name in one.inputs[1:] if name in others)))

    steps = [read(one) for one in program.steps]
    needed = {steps[-1].name} if steps else set()
    for step in reversed(steps):
        if step.name in needed:
            needed |= set(step.inputs)
    return replace(
        program,
        steps=tuple(one for one in steps if one.name in needed),
        sources=tuple(one for one in program.sources if one.name in needed),
    )
