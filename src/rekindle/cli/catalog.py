"""What a location holds: pipelines, and their runs by name and number.

Reading only. A pipeline is a folder in which runs took numbers; whatever else lies at the location is somebody else's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from rekindle.errors import NotFound, Refused
from rekindle.journal.keys import listed, numbered, numbers, stream_folder, streams_of
from rekindle.remedies import CommandRemedy, TextRemedy
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.store import Store

PARALLEL = 32
LISTED_MAX = 5
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Named:
    """A run by all its names. `number` is its place among the runs of its pipeline."""

    pipeline: str
    run: str
    number: int
    is_stream: bool = False

    @property
    def folder(self) -> str:
        return stream_folder(self.pipeline, self.run) if self.is_stream else f"{self.pipeline}/{self.run}"

    def __str__(self) -> str:
        return f"{self.pipeline}/{self.number}"


def pipelines(store: Store) -> list[str]:
    folders = [name for name in store.list_folders("") if not name.startswith("_")]
    found = each(store, lambda name: bool(numbers(store, name)), folders)
    return [name for name, has_runs in zip(folders, found, strict=True) if has_runs]


def runs_of(store: Store, pipeline: str) -> list[Named]:
    """Every run of a pipeline, oldest first."""
    streams = frozenset(streams_of(store, pipeline))
    return [Named(pipeline, run, number, run in streams) for number, run in listed(store, pipeline).items()]


def newest_of(store: Store, pipeline: str) -> Named | None:
    found = (_numbered(store, pipeline, place) for place in reversed(numbers(store, pipeline)))
    return next((one for one in found if one is not None), None)


def find_run(store: Store, word: str | None) -> Named:
    """The run that a user means: by number, name, unique beginning of a name, its pipeline, or (nothing said) the
    newest of all. `pipeline/…` looks at one pipeline only."""
    known = pipelines(store)
    if not known:
        hint = (CommandRemedy("run", "start one"), TextRemedy("or look at another location"))
        raise NotFound(f"there is no run at {store.name}", hint)
    pipeline, slash, rest = (word or "").rpartition("/")
    if slash:
        if pipeline not in known:
            raise NotFound(f"there is no pipeline {pipeline} at {store.name}", f"the pipelines are {_few(known)}")
        return _pick(store, [pipeline], rest or None, word or "")
    return _pick(store, known, word, word or "")


def find_batch(store: Store, word: str | None) -> Named:
    """The same, where a stream does not do."""
    named = find_run(store, word)
    refuse_stream(named)
    return named


def refuse_stream(named: Named) -> None:
    if named.is_stream:
        raise Refused(
            f"run {named} is a stream, and this command is for batches",
            CommandRemedy("show", run=str(named)),
        )


def each(store: Store, act: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """`act` on each item, in order; in parallel where the store is far away."""
    if isinstance(store, LocalDisk) or len(items) < 2:
        yield from map(act, items)
        return
    with ThreadPoolExecutor(min(PARALLEL, len(items)), "rekindle-read") as pool:
        yield from pool.map(act, items)


def _pick(store: Store, among: Sequence[str], word: str | None, given: str) -> Named:
    if word is None or word in among:
        newest = [newest_of(store, name) for name in ([word] if word else among)]
        return max((one for one in newest if one is not None), key=lambda one: one.run)
    if word.isdecimal():
        by_number = [_numbered(store, name, int(word)) for name in among]
        matches = [one for one in by_number if one is not None]
        if matches:
            return _only(matches, given)
    every = [one for name in among for one in runs_of(store, name)]
    matches = [one for one in every if one.run == word] or [one for one in every if one.run.startswith(word)]
    if not matches:
        newest_first = sorted(every, key=lambda one: one.run, reverse=True)
        newest_few = TextRemedy(f"the newest are {_few(map(str, newest_first))}")
        raise NotFound(f"there is no run {given}", (newest_few, CommandRemedy("runs", "see all of them")))
    return _only(matches, given)


def _only(matches: Sequence[Named], given: str) -> Named:
    if len(matches) == 1:
        return matches[0]
    raise NotFound(f"{given} matches {len(matches)} runs", f"name one: {_few(map(str, matches))}")


def _numbered(store: Store, pipeline: str, number: int) -> Named | None:
    run = numbered(store, pipeline, number)
    return None if run is None else Named(pipeline, run, number, run in streams_of(store, pipeline))


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - LISTED_MAX} more" if len(listed) > LISTED_MAX else ""
    return ", ".join(listed[:LISTED_MAX]) + more
