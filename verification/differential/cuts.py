"""Which steps are still kept: `result="auto"` keeps what moves rows or runs Python, unless its reader sees the cut."""

from __future__ import annotations

from differential.values import Op, Program, Step

# What a step is made of that is cheap to make again: it is fused into its reader, and was before.
NARROW = frozenset(
    "filter select compute rename case_twin dotted_struct alias by_alias explode sql file_name sample time_zone hour "
    "partition_id ids sort_within cache".split()
)
KEPT = ("compute", "reuse")


def is_narrow(op: Op) -> bool:
    if op.kind == "repartition" and op.args["how"] == "coalesce":
        return True
    if op.kind == "hint" and op.args["how"] == "coalesce":
        return True
    return op.kind in NARROW


def is_asked(step: Step) -> bool:
    """Whether `auto` should keep it, by what it does alone."""
    return step.result == "auto" and (bool(step.partition_by) or not all(is_narrow(op) for op in step.ops))


def kept_of(program: Program, cuts: dict[str, str]) -> tuple[int, int, list[str]]:
    """How many are kept, of how many; and why the others are not."""
    asked = [step for step in program.steps if is_asked(step) and step.name in cuts]
    given_up = [f"{step.name}: {cuts[step.name]}" for step in asked if not cuts[step.name].startswith(KEPT)]
    return len(asked) - len(given_up), len(asked), given_up
