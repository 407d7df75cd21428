"""Which results are kept, and which steps are fused into which: `result="auto"` as rules, each with its reason.

A step that the user gave a kind has it. Else it is kept where losing it would cost more than a file: if it ends an
exchange, runs Python, starts Spark jobs while it is built, was given a layout, a strategy or a word on reuse, goes to a
sink, is read by nothing, or is a source that cannot be pinned. Everything else is pipelined into its reader.

A pipelined step is computed once for each place that reads it. That is allowed if it is determinate and narrow; if it
is not, two readers would see two versions, or pay twice: it is promoted to a kept one, and says why.

A step that a cut would change for its reader is not kept, whatever it costs to lose it (see spark/cuts.py): it is
pipelined, and says why. If its readers could then see two versions of it, the pipeline is refused. If the user asked
for it to be kept, it is, and the reader that would see something else computes it once more (`Copies`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from rekindle.errors import GraphRefused
from rekindle.model.kinds import Determinism, KeepUntil
from rekindle.pipeline.check import AUTO, BLOCKING, IN_BLOCKS, PIPELINED
from rekindle.pipeline.declared import Declared, Role


class StepPlacement(Enum):
    """What becomes of a declared step in the execution graph."""

    KEPT = "kept"
    FUSED = "pipelined"
    PUBLISHES = "publishes the result of its input"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlanFacts:
    """What Spark's plan of a step says, with all that is fused below it, over stand-ins of the kept results.
    `not_kept` is why a reader would see something else if the step were kept."""

    exchanges: int = 0
    has_python: bool = False
    is_narrow: bool = True
    determinism: Determinism = Determinism.DETERMINATE
    because: tuple[str, ...] = ()
    is_pinned: bool = True
    is_input_itself: bool = False
    not_kept: str = ""


@dataclass(frozen=True, slots=True)
class GroupingDecision:
    """The fate of one step, and why. `of` is the step whose result a sink publishes; `is_given_up`: it would be kept if
    its readers could not tell."""

    fate: StepPlacement
    why: str
    of: str = ""
    is_given_up: bool = False

    @property
    def sentence(self) -> str:
        """The fate with its reason, as `plan -v` prints it."""
        is_told = self.fate in (StepPlacement.FUSED, StepPlacement.PUBLISHES)
        return self.why if is_told else f"{self.fate.value}: {self.why}"


Decisions = dict[str, GroupingDecision]
# Which readers compute a kept step once more, and why: (reader, step).
Copies = Mapping[tuple[str, str], str]
NO_COPIES: Copies = MappingProxyType({})


def decide(ordered: Sequence[Declared], looks: Mapping[str, StepPlanFacts], copies: Copies = NO_COPIES) -> Decisions:
    """The fate of every step; `ordered` has producers first."""
    decisions = {one.name: alone(one, looks[one.name], _readers(one, ordered)) for one in ordered}
    steps = {one.name: one for one in ordered}
    for one in ordered:
        if one.role is Role.SINK:
            _publish_in_place(one, steps, looks[one.name], decisions)
    roots: dict[str, list[str]] = {}
    for one in reversed(ordered):
        roots[one.name] = _places(one, ordered, roots, decisions, copies)
        if decisions[one.name].fate is StepPlacement.FUSED:
            decisions[one.name] = _among_readers(one, looks[one.name], roots[one.name])
    return decisions


def alone(one: Declared, look: StepPlanFacts, readers: Sequence[str]) -> GroupingDecision:
    """What a step is by itself, before anybody asks how many places compute it."""
    if one.result == PIPELINED:
        return GroupingDecision(StepPlacement.FUSED, "result='pipelined'")
    if look.not_kept:
        return GroupingDecision(StepPlacement.FUSED, look.not_kept, is_given_up=True)
    reason = _reason_to_keep(one, look, readers)
    return GroupingDecision(StepPlacement.KEPT, reason) if reason else GroupingDecision(StepPlacement.FUSED, "")


def members_of(
    root: str, ordered: Sequence[Declared], decisions: Mapping[str, GroupingDecision], copies: Copies = NO_COPIES
) -> tuple[str, ...]:
    """The steps that are computed as one Spark plan with a kept one, producers first, itself last."""
    steps = {one.name: one for one in ordered}
    found, todo = {root}, [root]
    while todo:
        reader = todo.pop()
        for name in steps[reader].inputs:
            if (decisions[name].fate is StepPlacement.FUSED or (reader, name) in copies) and name not in found:
                found.add(name)
                todo.append(name)
    return tuple(one.name for one in ordered if one.name in found)


def _reason_to_keep(one: Declared, look: StepPlanFacts, readers: Sequence[str]) -> str:
    if one.result in (BLOCKING, *IN_BLOCKS):
        return f"result={one.result!r}"
    if one.role is Role.SOURCE and not readers:
        return ""
    if one.role is Role.SINK:
        return f"it is published to {one.shown_target}"
    if one.is_eager:
        return "it starts Spark jobs while it is built"
    if one.has_layout:
        return "partition_by or partitions is set"
    if look.exchanges:
        return "it contains an exchange"
    if look.has_python:
        return "it runs Python functions"
    if one.keep is KeepUntil.FOREVER:
        return "keep_until='forever'"
    if one.is_reusable or one.is_pessimistic is not None:
        return "reuse or failover is set"
    if one.role is Role.SOURCE:
        return "" if look.is_pinned else "its input cannot be pinned to one version"
    return "" if readers else "no step reads it, so it is a result of the run"


def _publish_in_place(sink: Declared, steps: Mapping[str, Declared], look: StepPlanFacts, decisions: Decisions) -> None:
    """A sink that hands on its one input needs no copy of it: the kept result itself is published. Each kept result
    has one target; a second sink over it keeps its own, and so does one over blocks: what is published is files."""
    if not look.is_input_itself or sink.has_layout or len(sink.inputs) != 1:
        return
    name = sink.inputs[0]
    is_auto_step = steps[name].role is Role.STEP and steps[name].result == AUTO
    if steps[name].result in IN_BLOCKS:
        return
    is_taken = any(other.of == name for other in decisions.values())
    if is_taken or not (decisions[name].fate is StepPlacement.KEPT or is_auto_step) or decisions[name].is_given_up:
        return
    if decisions[name].fate is not StepPlacement.KEPT:
        decisions[name] = GroupingDecision(StepPlacement.KEPT, f"sink {sink.name} publishes it")
    shown = sink.shown_target
    decisions[sink.name] = GroupingDecision(StepPlacement.PUBLISHES, f"publishes {name} to {shown}", name)


def _readers(one: Declared, ordered: Sequence[Declared]) -> list[str]:
    return [other.name for other in ordered if one.name in other.inputs]


def _places(
    one: Declared,
    ordered: Sequence[Declared],
    roots: Mapping[str, list[str]],
    decisions: Decisions,
    copies: Copies,
) -> list[str]:
    """The kept steps in whose plans it is computed: one more than once if it is reached in two ways."""
    found: list[str] = []
    for reader in _readers(one, ordered):
        match decisions[reader].fate:
            case StepPlacement.KEPT:
                found.append(reader)
                for above in (above for above, copied in copies if copied == reader):
                    found += [above] if decisions[above].fate is StepPlacement.KEPT else roots[above]
            case StepPlacement.FUSED:
                found += roots[reader]
            case StepPlacement.PUBLISHES | StepPlacement.LEFT_OUT:
                pass
    return found


def _among_readers(one: Declared, look: StepPlanFacts, places: list[str]) -> GroupingDecision:
    if not places:
        return GroupingDecision(StepPlacement.LEFT_OUT, "no step reads it")
    names = " and ".join(dict.fromkeys(places))
    cause = f": {', '.join(look.because)}" if look.because else ""
    if look.not_kept:
        if len(places) > 1 and not (look.determinism.is_repeatable and look.is_pinned):
            raise GraphRefused(
                f"{one.place}: {one.name} cannot be kept ({look.not_kept}), and {names} would compute it separately "
                f"and read different rows{cause}",
                hint=f"let one step read {one.name}, or move what observes it into {one.name} itself",
            )
        return GroupingDecision(
            StepPlacement.FUSED, f"pipelined into {names}, not kept: {look.not_kept}", is_given_up=True
        )
    if len(places) == 1:
        return GroupingDecision(StepPlacement.FUSED, f"pipelined into {names}")
    if not look.determinism.is_repeatable:
        return GroupingDecision(
            StepPlacement.KEPT, f"{names} read it and must see one version, and it is not determinate{cause}"
        )
    if look.is_narrow or one.result == PIPELINED:
        kind = "pinned" if one.role is Role.SOURCE else "narrow"
        return GroupingDecision(
            StepPlacement.FUSED, f"pipelined into {names}, computed in each of them: it is determinate and {kind}"
        )
    return GroupingDecision(StepPlacement.KEPT, f"{names} read it and it is not narrow, so it is computed once")
