"""What came of running a step twice over the same rows, or in two ways, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.model.kinds import Determinism


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One step. `rows` it gave the first time; `different` is how many of them did not come again, `example` one of
    those; `failure` is why it could not be tried. `level` and `doubts` are what its plan says of it."""

    step: str
    place: str
    level: Determinism
    doubts: tuple[str, ...] = ()
    rows: int = 0
    different: int = 0
    example: str = ""
    failure: str = ""

    @property
    def is_same(self) -> bool:
        return not self.different and not self.failure and not self.is_empty

    @property
    def is_empty(self) -> bool:
        """No row of the sample reached its end: nothing was compared."""
        return not (self.rows or self.different or self.failure)

    @property
    def is_word_broken(self) -> bool:
        """The user declared it, and it is not so."""
        return bool(self.different) and self.level is Determinism.DECLARED

    @property
    def trust(self) -> str:
        doubts = ", ".join(self.doubts) if self.level is not Determinism.DETERMINATE else ""
        return f"{self.level.value} ({doubts})" if doubts else self.level.value


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsCompared:
    """How many rows there should be, and how many are not the same on both sides."""

    rows: int
    different: int
