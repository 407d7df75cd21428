"""A decision in the making: each event is folded as it is decided, so that the next one sees it.

A draft lives for one call of `decide`. Nothing outside sees it, and nothing is true before it is appended.
"""

from __future__ import annotations

from rekindle.master.facts.events import Event, GenerationOpened, PartitionsCommitted, Reasons
from rekindle.master.state.apply import apply
from rekindle.master.state.run_state import RunState, StepState
from rekindle.model.kinds import Proof
from rekindle.model.partitions import Partitions


class Decision:
    """The events decided so far, and the state as it would be after them."""

    def __init__(self, state: RunState, now_ms: int, jitter: float) -> None:
        self.state = state
        self.now_ms = now_ms
        self.jitter = jitter
        self.events: list[Event] = []

    def add(self, event: Event) -> None:
        self.state = apply(self.state, event)
        self.events.append(event)

    def step(self, name: str) -> StepState:
        return self.state.steps[name]

    def open_generation(
        self, name: str, dropped: Partitions, why: Reasons, proof: Proof | None, exchange_version: int = 0
    ) -> None:
        """A new generation of the step, without `dropped`. What is left of it is carried by `proof`."""
        step = self.step(name)
        carried = step.committed - dropped
        self.add(
            GenerationOpened(
                step=name,
                generation=step.generation + 1,
                dropped=dropped,
                because=why,
                carried=carried,
                proof=proof if carried else None,
                exchange_version=exchange_version,
            )
        )

    def has_completed(self) -> bool:
        """Some step became complete in this decision."""
        return any(
            isinstance(event, PartitionsCommitted) and self.state.is_complete(event.attempt.step)
            for event in self.events
        )
