"""The in-memory twin of a store, for tests and for the simulator. Its clock is set by whoever drives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rekindle.storage.store import PAGE, Put, StoredObject


class MemoryStore:
    """Objects in a dictionary, with times of a clock that only moves when told."""

    def __init__(self, name: str = "memory:") -> None:
        self.clock = 0.0
        self.objects: dict[str, tuple[bytes, float]] = {}
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def put_if_absent(self, key: str, body: bytes) -> Put:
        if key in self.objects:
            return Put.EXISTS
        self.objects[key] = (body, self.clock)
        return Put.CREATED

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

    def walk(self, folder: str) -> Iterator[list[StoredObject]]:
        keys = sorted(key for key in self.objects if key.startswith(folder))
        for start in range(0, len(keys), PAGE):
            found = [(key, self.objects[key]) for key in keys[start : start + PAGE] if key in self.objects]
            yield [StoredObject(key.removeprefix(folder), len(body), time) for key, (body, time) in found]

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
