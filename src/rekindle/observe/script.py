"""What a script's run is about to find, and what it came to: folded from the runs of the results that it keeps.

Rules
- A script keeps results one by one, each a run of its own. Here they are told as one.
- What is there can be told before the script does anything. Whether it is still the same is known when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rekindle.errors import visible
from rekindle.observe.summary import SAVED_MS_MIN, RunSummary
from rekindle.observe.words import bytes_text, count_text, escape, time_text


@dataclass(frozen=True, slots=True)
class EarlierResult:
    """A result that an earlier start left: how many partitions it has, and how many of them are kept."""

    name: str
    partitions: int
    kept: int
    is_done: bool

    @property
    def cells(self) -> tuple[str, str, str]:
        if self.is_done:
            return "reuse", f"{self.kept}/{self.partitions}", "unless it changed"
        missing = self.partitions - self.kept
        return "compute", f"{missing}/{self.partitions}", f"{self.kept} kept, unless it changed"


@dataclass(frozen=True, slots=True)
class ScriptPlan:
    """What the journals of earlier starts say, for one name and its parameters."""

    name: str
    parameters: Mapping[str, str]
    found: tuple[EarlierResult, ...]

    def lines(self) -> Iterator[str]:
        title = _title(self.name, self.parameters)
        if not self.found:
            yield f"{title}: nothing is kept yet"
            return
        yield f"{title}: from earlier starts"
        yield from _table((one.name, *one.cells) for one in self.found)

    def __str__(self) -> str:
        return visible("\n".join(self.lines()))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


@dataclass(frozen=True, slots=True)
class KeptResult:
    """One result of a script. `changes` tell why what was there before does not count any more; `is_on_your_word` that
    it counts all the same."""

    name: str
    summary: RunSummary
    changes: tuple[str, ...] = ()
    is_on_your_word: bool = False

    @property
    def partitions(self) -> int:
        return sum(step.partitions for step in self.summary.steps.values())

    @property
    def computed(self) -> int:
        return sum(step.computed for step in self.summary.steps.values())

    @property
    def reused(self) -> int:
        return sum(step.reused for step in self.summary.steps.values())

    @property
    def cells(self) -> tuple[str, str, str]:
        if not self.computed:
            return "reused", f"{self.reused}/{self.partitions}", self._why("unchanged")
        return "computed", f"{self.computed}/{self.partitions}", self._why(f"{self.reused} reused" * bool(self.reused))

    def _why(self, otherwise: str) -> str:
        if not self.changes:
            return otherwise
        word = "kept, change accepted: " if self.is_on_your_word else ""
        return word + " · ".join(self.changes)

    def __str__(self) -> str:
        return visible(" ".join(filter(None, (f"{self.name}:", *self.cells))))


@dataclass(frozen=True, slots=True)
class ScriptSummary:
    """What a script's run came to. `is_complete` if the script came to the end of its `with` block."""

    name: str
    parameters: Mapping[str, str]
    results: tuple[KeptResult, ...]
    is_complete: bool = field(default=True)

    @property
    def computed(self) -> int:
        return sum(one.computed for one in self.results)

    @property
    def reused(self) -> int:
        return sum(one.reused for one in self.results)

    @property
    def saved_ms(self) -> int | None:
        """What the reused partitions cost when they were made, as far as journals tell."""
        known = [one.summary.saved_ms for one in self.results if one.reused]
        found = [ms for ms in known if ms is not None]
        return sum(found) if found else None

    def lines(self) -> Iterator[str]:
        """The closing summary."""
        title = _title(self.name, self.parameters)
        yield f"{title}: {'done' if self.is_complete else 'stopped; the next start reuses what is kept'}"
        yield from _table((one.name, *one.cells) for one in self.results)
        failures = sum(one.summary.failures for one in self.results)
        again = f", {count_text(failures, 'failure')} handled" if failures else ""
        yield f"  computed {count_text(self.computed, 'partition')}, reused {self.reused:,}{again}"
        if (self.saved_ms or 0) >= SAVED_MS_MIN:
            yield f"  saved about {time_text(self.saved_ms)} compared with a start from scratch"
        kept = sum(one.summary.bytes or 0 for one in self.results)
        if kept:
            yield f"  kept results: {bytes_text(kept)}"
        for one in self.results:
            for where in one.summary.results.values():
                yield f"  {one.name} is in {where}"

    def __str__(self) -> str:
        return visible("\n".join(self.lines()))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def _title(name: str, parameters: Mapping[str, str]) -> str:
    return " ".join((name, *(f"{key}={value}" for key, value in parameters.items())))


def _table(rows: Iterator[tuple[str, str, str, str]]) -> Iterator[str]:
    listed = list(rows)
    widths = [max((len(row[at]) for row in listed), default=0) for at in range(3)]
    for name, what, numbers, why in listed:
        yield f"  {name:<{widths[0]}}  {what:<{widths[1]}}  {numbers:>{widths[2]}}  {why}".rstrip()
