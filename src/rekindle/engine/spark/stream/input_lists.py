"""The list of what a batch input was when it was pinned: one object beside the checkpoints of its stream.

It is named by its digest and put if absent, before the journal names it. Nothing changes it afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import msgspec

from rekindle.engine.spark.plan.sources import UNPINNED_NAMES
from rekindle.engine.spark.publish.versions import columns
from rekindle.errors import StoreFailed
from rekindle.publish.pointers import VERSIONS
from rekindle.publish.target import PointerStore, is_certainly_put
from rekindle.streams.pinned_inputs import PinnedInput

FOLDER = "inputs"
DIGITS = 16
PLACES_NAMED_MAX = 2


class InputDirectory(msgspec.Struct, frozen=True):
    """Files (path, bytes, time) with the same values of partition columns, as text."""

    values: tuple[str | None, ...]
    files: tuple[tuple[str, int, int], ...]


class InputLeaf(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One leaf of a plan: files, or what is `loose` because it cannot be pinned. `place` has a line for each directory
    that was to be read, or is the name of a table; `schema` is Spark's, as JSON."""

    place: str = ""
    schema: str = ""
    directories: tuple[InputDirectory, ...] = ()
    loose: str = ""

    @property
    def base(self) -> str:
        """Where it lies, whichever of our versions that is."""
        return "\n".join(dict.fromkeys(one.partition(f"/{VERSIONS}/")[0] for one in self.place.splitlines()))


class InputList(msgspec.Struct, frozen=True):
    """The batch inputs of one step that can be pinned, in the order of its plan, and what cannot."""

    leaves: tuple[InputLeaf, ...]
    loose: tuple[str, ...] = ()

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(self.leaves)

    def pin(self) -> PinnedInput:
        """What the journal has of it."""
        sizes = [file[1] for leaf in self.leaves for one in leaf.directories for file in one.files]
        places = [place for leaf in self.leaves for place in leaf.base.splitlines()]
        more = f" and {len(places) - PLACES_NAMED_MAX} more" if len(places) > PLACES_NAMED_MAX else ""
        return PinnedInput(
            digest=_digest(self.body) if self.leaves else "",
            files=len(sizes),
            bytes=sum(sizes),
            place=", ".join(places[:PLACES_NAMED_MAX]) + more,
            loose=self.loose,
        )

    def differences(self, pinned: InputList) -> Iterator[str]:
        """Why the files that were pinned cannot be read in place of these, a line each."""
        if len(self.leaves) != len(pinned.leaves):
            yield f"the number of its inputs is {len(self.leaves)}, and was {len(pinned.leaves)} when they were pinned"
            return
        for now, was in zip(self.leaves, pinned.leaves, strict=True):
            if now.base != was.base:
                yield f"it reads {_line(now.base)}, and {_line(was.base)} was pinned"
            elif now.schema != was.schema:
                other = _other_columns(columns(was.schema), columns(now.schema))
                yield f"{_line(now.base)} has other columns now: {other}"


def decoded(told: str) -> InputList:
    """What a plan reads, as Java tells it."""
    found = msgspec.json.decode(told, type=tuple[InputLeaf, ...])
    loose = (UNPINNED_NAMES.get(one.loose, one.loose) for one in found if one.loose)
    return InputList(tuple(one for one in found if not one.loose), tuple(sorted(loose)))


def kept(store: PointerStore, step: str, digest: str) -> InputList | None:
    """A list that was kept; None where it is gone, or is not what it was."""
    body = store.get(_key(step, digest))
    if body is None or _digest(body) != digest:
        return None
    return InputList(msgspec.json.decode(body, type=tuple[InputLeaf, ...]))


def keep(store: PointerStore, step: str, one: InputList) -> None:
    """Put a list where `kept` finds it."""
    if not is_certainly_put(store, _key(step, _digest(one.body)), one.body):
        raise StoreFailed(f"the list of what {step} reads was not certainly put: nothing is pinned by it")


def _key(step: str, digest: str) -> str:
    return f"{FOLDER}/{step}/{digest}.json"


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:DIGITS]


def _other_columns(was: Mapping[str, str], now: Mapping[str, str]) -> str:
    found = [f"{name} was {kind}, is {now.get(name, 'gone')}" for name, kind in was.items() if now.get(name) != kind]
    found += [f"{name} is new" for name in now if name not in was]
    return "; ".join(found) or "in another order"


def _line(places: str) -> str:
    return ", ".join(places.splitlines())
