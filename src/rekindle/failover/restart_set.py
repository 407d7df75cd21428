"""The answer to "which vertices run again": a value, in which every vertex has exactly one reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rekindle.model.ids import ExchangeId, Vertex
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.reasons import AnyReason, sentence


@dataclass(frozen=True, slots=True)
class StepRestart:
    """The partitions of one step that run, and the same partitions cut into disjoint pieces by reason."""

    partitions: Partitions
    because: tuple[tuple[AnyReason, Partitions], ...]

    def why(self, partition: int) -> AnyReason:
        return next(reason for reason, at in self.because if partition in at)


@dataclass(frozen=True, slots=True)
class RestartSet:
    """Step to what of it runs, in topological order; and the exchange parts the engine recomputes for it."""

    steps: Mapping[str, StepRestart] = field(default_factory=dict)
    exchanges: Mapping[ExchangeId, Partitions] = field(default_factory=dict)

    def __len__(self) -> int:
        """The number of vertices."""
        return sum(len(restart.partitions) for restart in self.steps.values())

    def __contains__(self, vertex: Vertex) -> bool:
        return vertex.partition in self.partitions(vertex.step)

    def __iter__(self) -> Iterator[Vertex]:
        for step, restart in self.steps.items():
            for partition in restart.partitions:
                yield Vertex(step, partition)

    def partitions(self, step: str) -> Partitions:
        restart = self.steps.get(step)
        return restart.partitions if restart else EMPTY

    def why(self, vertex: Vertex) -> AnyReason:
        """Ask only for a vertex that is `in` the set."""
        return self.steps[vertex.step].why(vertex.partition)

    @property
    def tasks(self) -> int:
        """Spark tasks of all stages: the map side of each recomputed exchange counts too."""
        return len(self) + sum(len(at) for at in self.exchanges.values())

    def lines(self) -> Iterator[str]:
        """One line per step, as `plan` and `explain` print it."""
        for step, restart in self.steps.items():
            pieces = " · ".join(f"{at}: {sentence(reason)}" for reason, at in restart.because)
            yield f"{step}  {len(restart.partitions)}  {pieces}"
