"""A table that has a log of its own, as a target: what is the same for every format of such tables.

Rules
- The kept files get a second name in the table's own folder (a link on a disk, a copy made by the store on S3), and one
  commit of the table's log adds them, with the statistics of their footers. The same commit removes what they replace,
  and carries the fence: readers see the old version or the new one, and the older one by time travel.
- `overwrite` replaces everything. `append` replaces what the same parameters published before, and nothing else.
  `partition` replaces the rows that have the values of `partition`, and its own rows must have them.
- Files whose rows would have to be written again to be taken, or to be replaced, are refused with their reason, where
  the format does not say otherwise (delta.py).
- Others may write to the table, also between two publications: they are not fenced, and their versions stay.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from rekindle.errors import Refused
from rekindle.publish.target import ADDS_SEEN, APPEND, MODES, OVERWRITE, PARTITION, check_mode

# What a template has where a run has a value.
BRACES = re.compile(r"{[^{}]*}")
IDENTIFIER = re.compile(r"[A-Za-z0-9_]+")
AS_THEY_ARE = "its files are added to the table as they are"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTable:
    """A table by its name; `kind` is what a message calls such a table, and `format` the name of its format."""

    kind: ClassVar[str]
    format: ClassVar[str]
    is_versioned: ClassVar[bool] = False
    by_parameters: ClassVar[tuple[str, ...]] = ("table", "partition")
    is_written_once: ClassVar[bool] = False
    modes: ClassVar[tuple[str, ...]] = MODES

    table: str
    mode: str
    partition: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> str:
        below = "".join(f", {name}={value}" for name, value in self.partition)
        return f"{self.format} table {self.table}{below}"

    @property
    def adds(self) -> bool:
        """Some of what is there stays."""
        return self.mode != OVERWRITE

    @property
    def seen(self) -> str:
        adds = ADDS_SEEN if self.mode == APPEND else ""
        return f"the old version of the table or the new one, whole, by one commit{adds}"

    @property
    def how(self) -> str:
        """What a plan says of the way in which it is published, where the table takes files as they are."""
        return f"{AS_THEY_ARE}: no row is written again"

    @property
    def spelling(self) -> str:
        """A name is looked at again when there is a catalog."""
        return self.shown

    @property
    def name_parts(self) -> tuple[str, ...]:
        """The parts of its name; empty if it is none."""
        parts = tuple(BRACES.sub("x", self.table).split("."))
        return parts if all(IDENTIFIER.fullmatch(part) for part in parts) else ()

    def __post_init__(self) -> None:
        check_mode(self.shown, self.mode, known=self.modes)
        if (self.mode == PARTITION) != bool(self.partition):
            raise Refused(
                f"{self.shown}: mode {self.mode!r} {'without' if self.mode == PARTITION else 'with'} partition=",
                'say which rows are replaced: mode="partition", partition={"day": "{day}"}',
            )
