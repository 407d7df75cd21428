"""A random program for a seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import msgspec

from differential import kinds_moves, kinds_pairs, kinds_python, kinds_rows
from differential.data import COLUMNS, FLAT, frame_of
from differential.frames import NUMBERS, PLAIN, Frame, Invalid
from differential.kinds import KINDS, apply_all, is_usable
from differential.render import frames_of, is_plain
from differential.values import Args, Change, Mode, Op, Program, Source, Step

__all__ = ["draw", "kinds_moves", "kinds_pairs", "kinds_python", "kinds_rows"]

MODES = {Mode.PLAIN: 32, Mode.RETRY: 8, Mode.FAULT: 15, Mode.SETTINGS: 8, Mode.NEW_DRIVER: 10, Mode.CHANGED: 27}
RESULTS = {"auto": 62, "blocking": 14, "pipelined": 12, "caching": 6, "memory": 6}
HOWS = {"parquet": 50, "csv": 10, "json": 8, "range": 10, "rows": 10, "table": 12}
ONRAMP_SHARE = 0.2
# Functions on which a fault can strike.
STRUCK = ("udf", "pandas_udf")
SHUFFLE = "spark.sql.shuffle.partitions"
AQE = "spark.sql.adaptive.enabled"
MAX_BYTES, OPEN_COST = "spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"
# How much more often an operation is drawn that shows what else is promised of a frame than its rows.
SHOWN = 6
# A step often ends with one of these, so that what can be seen of it is seen across a cut.
ENDINGS = frozenset({"sort", "repartition", "alias", "hint", "dotted_struct", "join_by_expression", "time_zone"})
SKEWED = {
    MAX_BYTES: "2KB",
    OPEN_COST: "1KB",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "512B",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "256B",
}


def draw(seed: int, mode: Mode | None = None) -> Program:
    """The same program for the same seed and grammar."""
    rng = Random(seed)
    drawn = rng.choices(list(MODES), list(MODES.values()))[0]
    chosen = mode or drawn
    while True:
        try:
            program = _drawn(rng, seed, chosen)
            frames_of(program)
            return program
        except Invalid:
            continue


def _drawn(rng: Random, seed: int, mode: Mode) -> Program:
    is_onramp = rng.random() < ONRAMP_SHARE
    sources = tuple(_source(rng, at) for at in range(rng.choice((1, 1, 2))))
    frames = {source.name: frame_of(source) for source in sources}
    steps: list[Step] = []
    last = sources[0].name
    for at in range(rng.choice((2, 2, 3, 3, 4, 5))):
        step = _step(rng, f"s{at}", last, frames)
        if step is not None:
            steps.append(step)
            last = step.name
    if not steps:
        raise Invalid("nothing was drawn")
    program = Program(seed, mode, is_onramp, sources, tuple(steps), _settings(rng))
    program = _pruned(program)
    made = frames_of(program)[program.steps[-1].name]
    if not is_onramp and is_plain(made) and made.of(PLAIN) and rng.random() < 0.2:
        many = rng.choice((2, 3)) if rng.random() < 0.5 else None
        program = msgspec.structs.replace(program, sink_by=(rng.choice(made.of(PLAIN)),), sink_partitions=many)
    if any(op.kind in ("hint", "count_partition") for _, _, op in program.ops()) and rng.random() < 0.6:
        program = msgspec.structs.replace(program, settings=program.settings | SKEWED)
    if any(op.kind == "case_twin" for _, _, op in program.ops()):
        program = msgspec.structs.replace(program, settings=program.settings | {"spark.sql.caseSensitive": "true"})
    if any(op.kind == "sample" for _, _, op in program.ops()):
        # Another driver may cut the files in another way, and then samples other rows.
        kept = {key: value for key, value in program.settings.items() if key not in (MAX_BYTES, OPEN_COST)}
        program = msgspec.structs.replace(program, settings=kept)
    if mode is Mode.CHANGED and rng.random() < 0.5:
        program = _with_udf(rng, program)
    if mode.has_fault:
        program = _struck(rng, program)
    if mode is Mode.SETTINGS or (mode is Mode.NEW_DRIVER and rng.random() < 0.5):
        later = _later(rng, program.settings)
        if any(op.kind == "sample" for _, _, op in program.ops()):
            later.pop(MAX_BYTES, None)
        program = msgspec.structs.replace(program, later_settings=later)
    if mode is Mode.CHANGED or (mode is Mode.NEW_DRIVER and rng.random() < 0.2):
        program = _changed(rng, program, is_needed=mode is Mode.CHANGED)
    return program


def _source(rng: Random, at: int) -> Source:
    how = rng.choices(list(HOWS), list(HOWS.values()))[0]
    usual = ["id", "k", "x"]
    menu = FLAT if how in ("csv", "json", "range", "rows") else tuple(COLUMNS)
    more = [name for name in menu if name not in usual and rng.random() < 0.45]
    rows = rng.choice((40, 120, 120, 300))
    return Source(f"t{at}", how, (*usual, *more), rows, rng.choice((1, 2, 4)), rng.randrange(50))


def _step(rng: Random, name: str, last: str, frames: dict[str, Frame]) -> Step | None:
    others = [one for one in frames if one != last and frames[one].is_exact]
    frame, ops = frames[last], []
    used: list[str] = []
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        op = _op(rng, frame, others, frames)
        if op is not None:
            ops.append(op)
            frame = apply_all(frame, (op,), frames.__getitem__)
            if KINDS[op.kind].needs_other:
                used.append(op.args["other"])
            if op.kind in ENDINGS and rng.random() < 0.6:
                break
    if not ops:
        return None
    frames[name] = replace(frame, is_cut=True)
    inputs = tuple(dict.fromkeys((last, *used)))
    result = rng.choices(list(RESULTS), list(RESULTS.values()))[0]
    return Step(name, inputs, tuple(ops), result, *_layout(rng, frame, ops, result))


def _op(rng: Random, frame: Frame, others: list[str], frames: dict[str, Frame]) -> Op | None:
    kinds = [one for one in KINDS.values() if (others or not one.needs_other) and (frame.is_exact or one.is_row_wise)]
    for _ in range(8):
        one = rng.choices(kinds, [kind.weight * (SHOWN if kind.shows(frame) else 1) for kind in kinds])[0]
        args = one.draw(rng, frame, others, frames.__getitem__)
        if args is not None and is_usable(Op(one.name, args), frame, frames.__getitem__):
            return Op(one.name, args)
    return None


def _layout(rng: Random, frame: Frame, ops: list[Op], result: str) -> tuple[tuple[str, ...], int | None]:
    """By what the step is kept: often by what its last operation puts together, seldom where an order is to hold."""
    names = frame.of(PLAIN)
    share = 0.08 if frame.is_ordered or frame.is_single or frame.alias else 0.35
    if result == "pipelined" or not names:
        return (), None
    is_hinted = ops[-1].kind in ("hint", "dotted_struct")
    if not is_hinted and rng.random() > share:
        return (), rng.choice((2, 3, 5)) if rng.random() < 0.1 else None
    wanted = [name for name in (*_keys_of(ops[-1].args), "a.b") if name in names]
    key = rng.choice(wanted) if wanted and rng.random() < 0.7 else rng.choice(names)
    return (key,), rng.choice((2, 3, 5)) if rng.random() < 0.5 else None


def _keys_of(args: Args) -> list[str]:
    keys = [args[name] for name in ("key", "column") if isinstance(args.get(name), str)]
    return [*keys, *args.get("keys", [])]


def _settings(rng: Random) -> dict[str, str]:
    made: dict[str, str] = {}
    if rng.random() < 0.95:
        made[SHUFFLE] = rng.choice(("2", "3", "5", "8"))
    if rng.random() < 0.35:
        made[MAX_BYTES] = rng.choice(("2KB", "8KB"))
        made[OPEN_COST] = "1KB"
    if rng.random() < 0.35:
        made["spark.sql.adaptive.advisoryPartitionSizeInBytes"] = rng.choice(("512B", "4KB"))
        made["spark.sql.adaptive.coalescePartitions.minPartitionSize"] = "256B"
    if rng.random() < 0.15:
        made[AQE] = "false"
    if rng.random() < 0.15:
        made["spark.sql.autoBroadcastJoinThreshold"] = "-1"
    return made


def _later(rng: Random, now: dict[str, str]) -> dict[str, str]:
    """The settings of the second driver."""
    made = dict(now)
    if rng.random() < 0.6:
        made[AQE] = "true" if now.get(AQE) == "false" else "false"
    if rng.random() < 0.5:
        made[SHUFFLE] = rng.choice(("2", "4", "7"))
    if rng.random() < 0.3:
        made[MAX_BYTES] = rng.choice(("1KB", "64KB"))
    return made


def _pruned(program: Program) -> Program:
    """Without what nothing reads."""
    needed = {program.steps[-1].name}
    for step in reversed(program.steps):
        if step.name in needed:
            needed |= set(step.inputs)
    return msgspec.structs.replace(
        program,
        steps=tuple(step for step in program.steps if step.name in needed),
        sources=tuple(source for source in program.sources if source.name in needed),
    )


def _with(program: Program, name: str, ops: tuple[Op, ...]) -> Program:
    steps = tuple(msgspec.structs.replace(one, ops=ops) if one.name == name else one for one in program.steps)
    return msgspec.structs.replace(program, steps=steps)


def _struck(rng: Random, program: Program) -> Program:
    """One function fails on some rows. Where there is none, one is added."""
    places = [(step, at) for step, at, op in program.ops() if op.kind in STRUCK]
    if not places:
        program = _with_udf(rng, program)
        places = [(step, at) for step, at, op in program.ops() if op.kind in STRUCK]
    frames = frames_of(program)
    names = frames[program.steps[-1].name].names
    places = [(step, at) for step, at in places if step.ops[at].args["name"] in names] or places
    # Late, so that there is something to be kept from the time before the fault.
    step, at = places[-1] if rng.random() < 0.5 else rng.choice(places)
    frame = apply_all(frames[step.inputs[0]], step.ops[:at], frames.__getitem__)
    names = frame.of(NUMBERS)
    column = next((name for name in (frame.unique, "id", "x") if name in names), step.ops[at].args["column"])
    ops = list(step.ops)
    ops[at] = Op(ops[at].kind, ops[at].args | {"is_struck": True, "column": column})
    return _with(program, step.name, tuple(ops))


def _with_udf(rng: Random, program: Program) -> Program:
    frames = frames_of(program)
    for _ in range(10):
        step = rng.choice(program.steps)
        at = rng.randrange(len(step.ops) + 1)
        frame = apply_all(frames[step.inputs[0]], step.ops[:at], frames.__getitem__)
        args = KINDS["udf"].draw(rng, frame, [], frames.__getitem__)
        if args is None:
            continue
        made = _with(program, step.name, (*step.ops[:at], Op("udf", args), *step.ops[at:]))
        try:
            frames_of(made)
        except Invalid:
            continue
        return made
    raise Invalid("no place for a function")


def _changed(rng: Random, program: Program, *, is_needed: bool) -> Program:
    """Another rate or seed in the second driver's program."""
    found = []
    names = frames_of(program)[program.steps[-1].name].names
    struck = next((step.name for step, _, op in program.ops() if op.args.get("is_struck")), "")
    is_before = True
    for step, at, op in program.ops():
        is_before = is_before and step.name != struck
        args = KINDS[op.kind].change(rng, op.args)
        if args is not None:
            weight = 3 if op.kind == "sample" or op.args.get("style") in ("registered", "method", "column") else 1
            weight *= 3 if is_before else 1
            weight *= 4 if op.kind == "sample" or op.args.get("name") in names else 1
            found += [Change(step.name, at, args)] * weight
    if not found:
        if is_needed:
            raise Invalid("nothing can be changed")
        return program
    return msgspec.structs.replace(program, change=rng.choice(found))
