"""Which targets a pipeline has published to: noted in its location when a run starts, for gc."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from rekindle.storage.store import Store


class NotedTarget(msgspec.Struct, frozen=True):
    """Where the versions of a target lie."""

    base: str


def note_targets(store: Store, pipeline: str, bases: Iterable[str]) -> None:
    """Once for each target, however many runs publish to it."""
    for base in bases:
        name = hashlib.sha256(base.encode()).hexdigest()[:32]
        store.put_if_absent(_folder(pipeline) + name, msgspec.json.encode(NotedTarget(base)))


def noted_targets(store: Store, pipeline: str) -> list[str]:
    folder = _folder(pipeline)
    bodies = store.get_many(folder, store.list_after(folder))
    return sorted(msgspec.json.decode(body, type=NotedTarget).base for body in bodies if body is not None)


def _folder(pipeline: str) -> str:
    return f"{pipeline}/_targets/"
