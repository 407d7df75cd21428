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


class StoreFault(Enum):
    """What happens to one put-if-absent."""

    NONE = "done and answered"
    REFUSED = "not done, and said so"
    LOST = "not done, answer unknown"
    UNACKNOWLEDGED = "done, answer unknown"
    DELAYED = "not yet done, answer unknown; may land later"
    DUPLICATED = "done twice: the second says it exists"
    TORN = "half of it done, answer unknown"


FaultPlan = Callable[[str], StoreFault]


def no_faults(key: str) -> StoreFault:
    """The plan of a perfect store."""
    return StoreFault.NONE


class FaultyStore(MemoryStore):
    """`delayed` are the writes that have not landed yet."""

    def __init__(self, plan: FaultPlan = no_faults) -> None:
        super().__init__()
        self.plan = plan
        self.delayed: list[tuple[str, bytes]] = []

    def put_if_absent(self, key: str, body: bytes) -> Put:
        create = super().put_if_absent
        match self.plan(key):
            case StoreFault.NONE:
                return create(key, body)
            case StoreFault.REFUSED:
                raise StoreFailed(f"{self.name} did not write {key}: told to fail")
            case StoreFault.LOST:
                return Put.UNKNOWN
            case StoreFault.UNACKNOWLEDGED:
                create(key, body)
                return Put.UNKNOWN
            case StoreFault.DELAYED:
                self.delayed.append((key, body))
                return Put.UNKNOWN
            case StoreFault.DUPLICATED:
                create(key, body)
                return Put.EXISTS
            case StoreFault.TORN:
                create(key, body[: len(body) // 2])
                return Put.UNKNOWN

    def deliver(self, index: int = 0) -> Put:
        """Let one delayed write land now."""
        return super().put_if_absent(*self.delayed.pop(index))
