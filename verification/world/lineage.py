"""What each committed partition was made from, against what counts now: checked at every record, not only at the end.

- What counts was made from what counts: what read another version of a partition than the one that counts is stale.
- It was made by the code on record, unless the user accepted the change.
- What the master says it can compare (`seen` with equal inputs) was made from what counts, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from rekindle.master.state.run_state import Phase, RunState
from rekindle.model.ids import AttemptId
from world.values import HOLE, Label, Values

Vertex = tuple[str, int]
Labels = dict[Vertex, Label]
Below = tuple[tuple[Label, ...], tuple[tuple[str, int], ...]]
RUNNING = (Phase.RUNNING, Phase.FAILING, Phase.FAILED)


class Lineage:
    """The labels of everything that was ever committed. Files may be gone since; what they were is remembered."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._made: dict[tuple[AttemptId, int], Label] = {}
        self._last: Labels = {}
        self._kept: dict[Label, Below] = {}

    def committed(self, attempt: AttemptId, partition: int, label: Label) -> None:
        self._made[attempt, partition] = label
        self._last[attempt.step, partition] = label

    def stale(self, state: RunState, accepted: Set[str]) -> str | None:
        """The first partition that counts and should not, or that is said to be comparable and is not. A change of
        `accepted` steps changes no value where they are not kept."""
        if state.phase not in RUNNING:
            return None
        counts = dict(self._counting(state))
        for vertex, label in counts.items():
            if found := self._differs(state, counts, label, accepted):
                return f"{vertex[0]}[{vertex[1]}] counts and {found}"
        for vertex, label in self._comparable(state):
            if found := self._differs(state, counts, label, accepted - state.steps.keys()):
                return f"{vertex[0]}[{vertex[1]}] is said to have equal inputs and {found}"
        return None

    def _counting(self, state: RunState) -> Iterator[tuple[Vertex, Label]]:
        for name, step in state.steps.items():
            for segment in step.segments:
                for partition in segment.partitions:
                    label = self._made.get((segment.attempt, partition))
                    if label is not None:
                        yield (name, partition), label
            for partition in step.holes:
                yield (name, partition), self._values.hole(name, partition)

    def _comparable(self, state: RunState) -> Iterator[tuple[Vertex, Label]]:
        for name, step in state.steps.items():
            if state.layout.repeatable[name] is None:
                continue
            for seen in step.superseded:
                if seen.is_hole or not seen.are_inputs_equal:
                    continue
                for partition in seen.partitions:
                    if (name, partition) in self._last:
                        yield (name, partition), self._last[name, partition]

    def _differs(self, state: RunState, counts: Labels, label: Label, accepted: Set[str]) -> str | None:
        read, codes = self._below(state, label)
        for one in read:
            name, partition, *_ = self._values.node(one)
            if counts.get((name, partition), one) != one:
                return f"read another version of {name}[{partition}]"
        for name, code in codes:
            if name not in accepted and str(code) != state.spec.fingerprints[name]["code"]:
                return f"was made by code {code} of {name}"
        return None

    def _below(self, state: RunState, label: Label) -> Below:
        """The kept partitions that it read, and the code that made it, of its own step and those that flow into it."""
        found = self._kept.get(label)
        if found is None:
            read: set[Label] = set()
            codes: set[tuple[str, int]] = set()
            todo, seen = [label], {label}
            while todo:
                one = todo.pop()
                name, _, code, _, inputs = self._values.node(one)
                if one != label and name in state.steps:
                    read.add(one)
                    continue
                if code != HOLE:
                    codes.add((name.split("=>")[-1], code))
                todo.extend(set(inputs) - seen)
                seen.update(inputs)
            found = self._kept[label] = tuple(sorted(read)), tuple(sorted(codes))
        return found
