"""The store in memory with the faults that real stores have, for tests and for the simulator.

- A fault plan is asked before each put-if-absent and answers with one `Fault`.
- `deliver` lets a delayed write land, at a moment the driver chooses: before or after a competitor.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from rekindle.errors import StoreFailed
from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import Put


class Fault(Enum):
    """What happens to one put-if-absent."""

    NONE = "done and answered"
    REFUSED = "not done, and said so"
    LOST = "not done, answer unknown"
    UNACKNOWLEDGED = "done, answer unknown"
    DELAYED = "not yet done, answer unknown; may land later"
    DUPLICATED = "done twice: the second says it exists"
    TORN = "half of it done, answer unknown"


FaultPlan = Callable[[str], Fault]


def no_faults(key: str) -> Fault:
    """The plan of a perfect store."""
    return Fault.NONE


class FaultyStore(MemoryStore):
    """`delayed` are the writes that have not landed yet."""

    def __init__(self, plan: FaultPlan = no_faults) -> None:
        super().__init__()
        self.plan = plan
        self.delayed: list[tuple[str, bytes]] = []

    def put_if_absent(self, key: str, body: bytes) -> Put:
        create = super().put_if_absent
        match self.plan(key):
            case Fault.NONE:
                return create(key, body)
            case Fault.REFUSED:
                raise StoreFailed(f"{self.name} did not write {key}: told to fail")
            case Fault.LOST:
                return Put.UNKNOWN
            case Fault.UNACKNOWLEDGED:
                create(key, body)
                return Put.UNKNOWN
            case Fault.DELAYED:
                self.delayed.append((key, body))
                return Put.UNKNOWN
            case Fault.DUPLICATED:
                create(key, body)
                return Put.EXISTS
            case Fault.TORN:
                create(key, body[: len(body) // 2])
                return Put.UNKNOWN

    def deliver(self, index: int = 0) -> Put:
        """Let one delayed write land now."""
        return super().put_if_absent(*self.delayed.pop(index))
