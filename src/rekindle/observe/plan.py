"""The plan of a run: one list of stages that `plan` prints and `run` executes.

Rules
- Every declared step has one stage, in the order of the pipeline; every vertex that runs has one reason.
- What cannot be known yet is None, shown as `?`.
- How it is told stands here once: text, JSON, HTML and the terminal show the same cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from rekindle.errors import visible
from rekindle.master.facts.events import Reasons
from rekindle.model.kinds import Determinism, KeepUntil
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.reasons import sentence
from rekindle.observe.plan_times import Span
from rekindle.observe.show_words import vertices
from rekindle.observe.words import UNKNOWN, bytes_text, count_text, differing, escape, names_text, span_text, time_text
from rekindle.remedies import Say, in_python

NUMBERS_SHOWN_MAX = 40


class Action(Enum):
    """What becomes of a step in this run."""

    REUSE = "reuse"
    COMPUTE = "compute"
    FUSED = "fused"
    PUBLISH = "publish"
    LEFT_OUT = "left out"


class Start(Enum):
    """What kind of start it is."""

    NEW = "new run"
    RESUME = "resume"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One step in the plan. `computed` are the vertices that run, `kept` those whose results stand; `into` are the kept
    steps that a fused one is computed with, each time (`times`), or the step whose result a sink publishes. `tasks` are
    Spark tasks of all Spark stages. `holes` are left out on the user's word; `lost` are gone and not
    needed; `taken_from` is the number of an earlier run whose result it is, 0 if it is of this one."""

    step: str
    action: Action
    partitions: int | None = None
    computed: Partitions = EMPTY
    kept: Partitions = EMPTY
    why: Reasons = ()
    changes: tuple[str, ...] = ()
    into: tuple[str, ...] = ()
    times: int = 0
    tasks: int | None = None
    bytes_kept: int | None = None
    determinism: Determinism | None = None
    doubts: tuple[str, ...] = ()
    span: Span | None = None
    saved_ms: int | None = None
    note: str = ""
    holes: Partitions = EMPTY
    keep: KeepUntil | None = None
    lost: Partitions = EMPTY
    taken_from: int = 0
    bytes_written: int | None = None

    @property
    def numbers(self) -> str:
        """`3/256`: how many of how many run; of a step that is reused, how many stand."""
        if self.partitions is None:
            return ""
        return f"{len(self.computed or self.kept)}/{self.partitions}"

    @property
    def reason(self) -> str:
        match self.action:
            case Action.COMPUTE:
                return " · ".join((*self.changes, *self._pieces(), *self._left_out()))
            case Action.REUSE:
                return self._reused()
            case Action.FUSED:
                many = f", computed {self.times} times" if self.times > 1 else ""
                return f"pipelined into {names_text(self.into)}{many if self.times else ', which is reused'}"
            case Action.PUBLISH:
                return f"publishes {self.into[0]}"
            case Action.LEFT_OUT:
                return self.note

    @property
    def trust(self) -> str:
        """The determinism level, with what decided it."""
        if self.determinism is None:
            return ""
        doubts = ", ".join(self.doubts) if self.determinism is not Determinism.DETERMINATE else ""
        return f"{self.determinism.value} ({doubts})" if doubts else self.determinism.value

    @property
    def stands(self) -> str:
        """What is kept, and what that saves."""
        if not self.kept:
            return ""
        pieces = [f"{len(self.kept)} kept"] if self.computed else []
        if self.bytes_kept is not None:
            pieces.append(bytes_text(self.bytes_kept))
        if self.saved_ms is not None:
            pieces.append(f"about {time_text(self.saved_ms)} saved")
        return ", ".join(pieces)

    def _pieces(self) -> Iterator[str]:
        """Each reason behind its partitions; alone where all have it."""
        for why, at in self.why:
            is_all = len(at) == self.partitions
            yield sentence(why) if is_all else f"{numbers_text(at)}: {sentence(why)}"

    def _left_out(self) -> Iterator[str]:
        if self.holes:
            yield f"{numbers_text(self.holes)}: left out"

    def _reused(self) -> str:
        lost, holes = len(self.lost), len(self.holes)
        gone = {"lost": lost, "released": (self.partitions or 0) - len(self.kept) - holes - lost}
        told = [f"{count} {word}, no longer needed" for word, count in gone.items() if count]
        if told or holes:
            return " · ".join((*self._left_out(), *told))
        if self.taken_from:
            return f"reused from run {self.taken_from}, which computed the same"
        return "kept, change accepted: " + " · ".join(self.changes) if self.changes else "unchanged"

    def values(self) -> dict[str, Any]:
        """For JSON: sets as text, unknown as null."""
        return {
            "step": self.step,
            "action": self.action.value,
            "partitions": self.partitions,
            "computed": str(self.computed),
            "kept": str(self.kept),
            "reasons": [
                {"why": type(why).__struct_config__.tag, "text": sentence(why), "partitions": str(at)}
                for why, at in self.why
            ],
            "changes": list(self.changes),
            "into": list(self.into),
            "times": self.times,
            "tasks": self.tasks,
            "bytes_kept": self.bytes_kept,
            "bytes_written": self.bytes_written,
            "determinism": self.determinism.value if self.determinism else None,
            "doubts": list(self.doubts),
            "ms": _pair(self.span),
            "saved_ms": self.saved_ms,
            "note": self.note,
            "left_out": str(self.holes),
            "keep_until": self.keep.value if self.keep else None,
        }


@dataclass(frozen=True, slots=True)
class Loss:
    """The most that would have to be made again if the driver died: what counted just before the end of an attempt at
    `step`, and would not count in a new driver. `ms` is what it cost."""

    step: str
    partitions: Mapping[str, Partitions]
    ms: int | None = None

    def __len__(self) -> int:
        return sum(map(len, self.partitions.values()))

    def __str__(self) -> str:
        if not len(self):
            return (
                "If the driver dies, no finished partition is lost, only running tasks and the map sides of exchanges."
            )
        parts = names_text(f"{count_text(len(at), 'partition')} of {name}" for name, at in self.partitions.items())
        cost = f" ({time_text(self.ms)})" if self.ms is not None else ""
        are = "is" if len(self) == 1 else "are"
        return f"If the driver dies at the worst moment (at the end of {self.step}), {parts} {are} recomputed{cost}."


@dataclass(frozen=True, slots=True)
class Deletion:
    """Files that the run removes: those of these partitions, which count now; or leftovers, if there are none.
    `is_after` the run has succeeded; `is_released` if nobody needs them then, and not because others replace them."""

    step: str
    partitions: Partitions
    is_after: bool
    is_released: bool = False


@dataclass(frozen=True, slots=True)
class Budget:
    """What the results of the run may take. `peak_bytes` is what they take at the most, None where that is not known;
    `short_bytes` is how much of that is needed above the budget; `gone` are the results that go for it before the run
    ends, although they would have been kept."""

    bytes: int
    peak_bytes: int | None
    short_bytes: int = 0
    gone: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = [f"Budget {bytes_text(self.bytes)}: {self._peak()}."]
        if self.gone:
            said.append(
                f"To stay within it, the results of {names_text(self.gone)} are deleted once no step needs them."
            )
        if self.short_bytes:
            said.append(
                f"It is exceeded by {bytes_text(self.short_bytes)}, because results that are needed are never deleted."
            )
        return " ".join(said)

    def _peak(self) -> str:
        if self.peak_bytes is None:
            return "the size of the results is not known yet"
        return f"the results take at most {bytes_text(self.peak_bytes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a start of the pipeline will do. `run` is empty for a run that has no name yet; `before` says how the run
    ended so far; `destinations` say which sink is published where; `ends` is why it cannot finish, if it cannot;
    `living` is the owner if it is alive; `released` are the steps whose results are deleted before the run ends,
    because they are consumed; `differs` is what changed since a finished run was published; `protects` are the steps
    whose results are written although nobody publishes them; `tables` are sentences about tables with a log of their
    own: which version a source reads, how a sink is published."""

    pipeline: str
    run: str
    start: Start
    stages: tuple[Stage, ...]
    publishes: tuple[str, ...] = ()
    destinations: tuple[str, ...] = ()
    deletions: tuple[Deletion, ...] = ()
    uncertain: tuple[str, ...] = ()
    loss: Loss | None = None
    span: Span | None = None
    before: str = ""
    ends: str = ""
    living: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    budget: Budget | None = None
    released: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    protects: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    executors: tuple[str, ...] = ()

    @property
    def has_work(self) -> bool:
        return self.start is not Start.DONE and bool(self.vertices or self.publishes or self.ends)

    @property
    def vertices(self) -> int:
        """The number of vertices that run."""
        return sum(len(stage.computed) for stage in self.stages)

    @property
    def total(self) -> int:
        return sum(stage.partitions or 0 for stage in self.stages)

    @property
    def tasks(self) -> int | None:
        """The number of Spark tasks of all Spark stages; None if it is not known."""
        known = [stage.tasks for stage in self.stages if stage.action is Action.COMPUTE]
        return None if None in known else sum(filter(None, known))

    @property
    def without(self) -> str:
        """The partitions that the user left out, as text; empty if there are none."""
        return vertices({stage.step: stage.holes for stage in self.stages if stage.holes})

    def computed(self) -> dict[str, Partitions]:
        """The partitions that run, by step."""
        return {stage.step: stage.computed for stage in self.stages if stage.computed}

    @property
    def headline(self) -> str:
        match self.start:
            case Start.NEW:
                return f"new run of {self.pipeline}"
            case Start.RESUME:
                return f"resume of run {self.run}: {self.before}"
            case Start.DONE:
                without = f", published without {self.without}" if self.without else ""
                end = ", but something changed since" if self.differs else ": nothing to do"
                return f"run {self.run} of {self.pipeline} is done{without}{end}"

    def closing(self, say: Say = in_python) -> Iterator[str]:
        """The lines below the table. `say` is the face that they are for."""
        if self.start is Start.DONE:
            yield from differing(self.differs, say)
            return
        time = span_text(self.span.low_ms, self.span.high_ms) if self.span else UNKNOWN
        least = f"at least {count_text(self.vertices, 'Spark task')}"
        tasks = least if self.tasks is None else count_text(self.tasks, "Spark task")
        what = "Restart set" if self.start is Start.RESUME else "Work"
        yield (
            f"{what}: {self.vertices:,} of {count_text(self.total, 'partition')}, {tasks}, estimated time {time}. "
            f"{self._deleted()}"
        )
        yield from (f"Publishes {one}." for one in self.destinations)
        yield from self._together()
        yield from (f"{one}." for one in self.tables)
        yield from (f"{one[0].upper()}{one[1:]}." for one in self.executors)
        yield from self._protection()
        if self.budget is not None:
            yield str(self.budget)
        if self.loss is not None:
            yield str(self.loss)
        yield from self.uncertain
        if self.without:
            yield f"Published without {self.without}, which the user left out. The target will name what is missing."
        if self.ends:
            yield f"The run cannot finish: {self.ends}"

    def _together(self) -> Iterator[str]:
        """What a reader of several targets may see."""
        sinks = len(self.destinations)
        if sinks > 1:
            which = "Both sinks" if sinks == 2 else f"All {sinks} sinks"
            yield (
                f"{which} are complete before the first one is published. Each is published by itself: in between, a "
                "reader may see new rows in one and old rows in another."
            )

    def _protection(self) -> Iterator[str]:
        """What it costs that not everything starts from zero: bytes that bare Spark would not write."""
        sizes = {stage.step: stage.bytes_written for stage in self.stages if stage.step in self.protects}
        known = {step: size for step, size in sizes.items() if size is not None}
        if known and len(known) == len(sizes):
            told = names_text(f"{step} ({bytes_text(size)})" for step, size in known.items())
            yield f"Protection writes about {bytes_text(sum(known.values()))}, as measured in an earlier run: {told}."

    def _deleted(self) -> str:
        replaced = [one for one in self.deletions if not (one.is_after or one.is_released) and one.partitions]
        after = list(dict.fromkeys(one.step for one in self.deletions if one.is_after))
        forever = [stage.step for stage in self.stages if stage.keep is KeepUntil.FOREVER]
        said = []
        if replaced:
            gone = ", ".join(f"{count_text(len(one.partitions), 'partition')} of {one.step}" for one in replaced)
            said.append(f"Deleted after being replaced: {gone}.")
        if self.released:
            said.append(f"The results of {names_text(self.released)} are deleted as soon as they are consumed.")
        if not said and not after:
            said.append("No committed result is deleted.")
        if after:
            when = "When the run succeeds," if said else "No committed result is deleted before the run succeeds; then"
            said.append(f"{when} the results of {names_text(after)} are deleted.")
        if forever:
            said.append(f"The results of {names_text(forever)} are kept forever.")
        return " ".join(said)

    def __str__(self) -> str:
        rows = [(one.step, one.action.value, one.numbers, one.reason, one.stands) for one in self.stages]
        widths = [max((len(row[at]) for row in rows), default=0) for at in range(3)]
        lines = [
            f"  {name:<{widths[0]}}  {action:<{widths[1]}}  {numbers:>{widths[2]}}  {reason}  {stands}".rstrip()
            for name, action, numbers, reason, stands in rows
        ]
        return visible("\n".join((self.headline, *lines, *self.closing())))

    def to_json(self) -> str:
        values = {
            "pipeline": self.pipeline,
            "run": self.run or None,
            "start": self.start.value,
            "parameters": dict(self.parameters),
            "before": self.before or None,
            "stages": [stage.values() for stage in self.stages],
            "vertices": self.vertices,
            "partitions": self.total,
            "tasks": self.tasks,
            "ms": _pair(self.span),
            "publishes": list(self.publishes),
            "targets": list(self.destinations),
            "protects": list(self.protects),
            "tables": list(self.tables),
            "executors": list(self.executors),
            "differs": list(self.differs),
            "deletions": [
                {
                    "step": one.step,
                    "partitions": str(one.partitions),
                    "after_success": one.is_after,
                    "released": one.is_released,
                }
                for one in self.deletions
            ],
            "worst_loss": self.loss
            and {
                "step": self.loss.step,
                "partitions": {name: str(at) for name, at in self.loss.partitions.items()},
                "ms": self.loss.ms,
            },
            "budget": self.budget
            and {
                "bytes": self.budget.bytes,
                "peak_bytes": self.budget.peak_bytes,
                "short_bytes": self.budget.short_bytes,
                "released": list(self.budget.gone),
            },
            "released": list(self.released),
            "uncertain": list(self.uncertain),
            "ends": self.ends or None,
            "living": self.living or None,
        }
        return msgspec.json.format(msgspec.json.encode(values), indent=2).decode()

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{head}</th>" for head in ("step", "", "partitions", "why", "kept", "determinism"))
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(one))}</tr>" for one in self.stages)
        below = "".join(f"<p>{escape(line)}</p>" for line in self.closing())
        return f"<p><b>{escape(self.headline)}</b></p><table><tr>{heads}</tr>{rows}</table>{below}"


def numbers_text(partitions: Partitions) -> str:
    """The numbers themselves where they are few, else how many."""
    said = str(partitions)
    return said if len(said) <= NUMBERS_SHOWN_MAX else f"{len(partitions):,}"


def _cells(stage: Stage) -> tuple[str, ...]:
    return stage.step, stage.action.value, stage.numbers, stage.reason, stage.stands, stage.trust


def _pair(span: Span | None) -> list[int] | None:
    return None if span is None else [span.low_ms, span.high_ms]
