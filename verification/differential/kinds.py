"""What an operation is: how one is drawn, what it makes of what is known of a frame, its text in a user's module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from differential.frames import Frame, Invalid, Others
from differential.values import Args, Op


class Kind:
    """One kind of operation. `is_row_wise`: a row makes a row, so that rows that are not determinate stay judged.
    `needs_other`: it reads a second frame, `args["other"]`. `needs_spark`: its text names the session."""

    name = ""
    weight = 1.0
    is_row_wise = False
    needs_other = False
    needs_spark = False

    def draw(self, rng: Random, frame: Frame, others: Sequence[str], look: Others) -> Args | None:
        """Arguments that make sense here, or None."""
        raise NotImplementedError

    def apply(self, frame: Frame, args: Args, look: Others) -> Frame:
        """What is known afterwards. Raises `Invalid`."""
        raise NotImplementedError

    def code(self, args: Args, tag: str) -> list[str]:
        """Statements on `df`. `tag` is a name that no other operation has."""
        raise NotImplementedError

    def head(self, args: Args, tag: str) -> list[str]:
        """Lines at the module's top."""
        return []

    def shows(self, frame: Frame) -> bool:
        """Whether its result depends on more of this frame than the rows: on their order, partitions or files, or on
        the frame's names. Such an operation is drawn more often."""
        return False

    def change(self, rng: Random, args: Args) -> Args | None:
        """What a user may change between two drivers so that other rows come out."""
        return None


def recent(rng: Random, names: Sequence[str], count: int) -> list[str]:
    """Some of these, the last ones more often: what was made just before is to be seen in the end."""
    chosen: list[str] = []
    left = list(names)
    while left and len(chosen) < count:
        chosen.append(left.pop(-1 if rng.random() < 0.6 else rng.randrange(len(left))))
    return chosen


KINDS: dict[str, Kind] = {}
Made = TypeVar("Made", bound=type[Kind])


def kind(name: str, weight: float = 1.0) -> Callable[[Made], Made]:
    def add(cls: Made) -> Made:
        one = cls()
        one.name, one.weight = name, weight
        KINDS[name] = one
        return cls

    return add


def apply_all(frame: Frame, ops: Sequence[Op], look: Others) -> Frame:
    """What is known after all of these. Raises `Invalid`."""
    for op in ops:
        one = KINDS[op.kind]
        if not frame.is_exact and not one.is_row_wise:
            raise Invalid(f"{op.kind} above rows that are not determinate")
        frame = one.apply(frame, op.args, look)
        if frame.rows > ROWS_MAX:
            raise Invalid("too many rows")
    return frame


ROWS_MAX = 4_000


def is_usable(op: Op, frame: Frame, look: Others) -> bool:
    try:
        apply_all(frame, (op,), look)
    except Invalid:
        return False
    return True
