"""The in-memory twin of a store, with the faults real stores have. For tests and for the simulator.

- Without a fault plan it is a perfect store. Its clock is set by whoever drives it.
- A fault plan is asked before each put-if-absent and answers with one `Fault`.
- `deliver` lets a delayed write land, at a moment the driver chooses: before or after a competitor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from rekindle.errors import StoreFailed
from rekindle.journal.store import PAGE, Entry, Put


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


class MemoryStore:
    """Objects in a dictionary, with times of a clock that only moves when told."""

    def __init__(self, plan: FaultPlan = no_faults, name: str = "memory:") -> None:
        self.plan = plan
        self.clock = 0.0
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.delayed: list[tuple[str, bytes]] = []
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def put_if_absent(self, key: str, body: bytes) -> Put:
        match self.plan(key):
            case Fault.NONE:
                return self._create(key, body)
            case Fault.REFUSED:
                raise StoreFailed(f"{self.name} did not write {key}: told to fail")
            case Fault.LOST:
                return Put.UNKNOWN
            case Fault.UNACKNOWLEDGED:
                self._create(key, body)
                return Put.UNKNOWN
            case Fault.DELAYED:
                self.delayed.append((key, body))
                return Put.UNKNOWN
            case Fault.DUPLICATED:
                self._create(key, body)
                return Put.EXISTS
            case Fault.TORN:
                self._create(key, body[: len(body) // 2])
                return Put.UNKNOWN

    def deliver(self, index: int = 0) -> Put:
        """Let one delayed write land now."""
        return self._create(*self.delayed.pop(index))

    def put(self, key: str, body: bytes) -> None:
        self.objects[key] = (body, self.clock)

    def get(self, key: str) -> bytes | None:
        found = self.objects.get(key)
        return None if found is None else found[0]

    def get_many(self, folder: str, names: Sequence[str]) -> Iterator[bytes | None]:
        return (self.get(folder + name) for name in names)

    def list_after(self, folder: str, after: str = "") -> list[str]:
        names = (key.removeprefix(folder) for key in self.objects if key.startswith(folder))
        return sorted(name for name in names if name > after and "/" not in name)

    def list_folders(self, folder: str) -> list[str]:
        inside = (key.removeprefix(folder) for key in self.objects if key.startswith(folder))
        return sorted({name.split("/")[0] for name in inside if "/" in name})

    def walk(self, folder: str) -> Iterator[list[Entry]]:
        keys = sorted(key for key in self.objects if key.startswith(folder))
        for start in range(0, len(keys), PAGE):
            found = [(key, self.objects[key]) for key in keys[start : start + PAGE] if key in self.objects]
            yield [Entry(key.removeprefix(folder), len(body), time) for key, (body, time) in found]

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def delete_many(self, folder: str, names: Sequence[str]) -> None:
        for name in names:
            self.delete(folder + name)

    def modified(self, key: str) -> float | None:
        found = self.objects.get(key)
        return None if found is None else found[1]

    def now(self) -> float:
        return self.clock

    def _create(self, key: str, body: bytes) -> Put:
        if key in self.objects:
            return Put.EXISTS
        self.objects[key] = (body, self.clock)
        return Put.CREATED
