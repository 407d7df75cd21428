"""Protections that are switched off, so that the campaign must find what they protect from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

from rekindle.engine.spark.publish import directory, versions
from rekindle.publish.pointers import (
    POINTERS,
    NewestPointer,
    Part,
    Pointer,
    advance,
    encode,
    newest,
    put_certainly,
    top_of,
)
from rekindle.publish.target import PointerStore

Prepare = Callable[[NewestPointer], Pointer]


def pointer_first() -> None:
    """The pointer is put before the files are there."""
    fill = versions._fill

    def late(store: PointerStore, part: Part, prepare: Prepare, **options: Any) -> Pointer:
        waiting: list[tuple[Any, ...]] = []
        with mock.patch.object(versions, "_fill", lambda *arguments: waiting.append(arguments)):
            top = advance(store, part, prepare, **options)
        for arguments in waiting:
            fill(*arguments)
        return top

    mock.patch.object(versions, "advance", late).start()


def no_fence() -> None:
    """Whoever has made its files puts the next number that is free."""

    def compare_then_act(store: PointerStore, part: Part, prepare: Prepare, **options: Any) -> Pointer:
        body = encode(prepare(newest(store)))
        while not put_certainly(store, f"{POINTERS}{newest(store).number + 1:020d}", body):
            pass
        return top_of(store)

    mock.patch.object(versions, "advance", compare_then_act).start()


def no_staging() -> None:
    """A new directory on a disk gets its files one by one."""
    mock.patch.object(directory, "_on_disk", directory._on_objects).start()


PLANTED: Mapping[str, Callable[[], None]] = {
    "": lambda: None,
    "pointer-first": pointer_first,
    "no-fence": no_fence,
    "no-staging": no_staging,
}
