"""Events to bytes and back, for any closed union of msgspec structs with tags.

- Each event is written with its type and version. An older version is lifted step by step before it is
  decoded.
- An unknown type, a newer version, or a field that an event of its version does not have here is refused with a
  sentence: skipping a fact, or a part of one, would fold to something untrue.
- One type of event may close a journal: the record that holds it is the last there can be. One may be a base: it holds
  all that the records before it said.
- A field that is added with a default needs no new version; a change of meaning does. Defaults are not written, so
  that an older release reads what does not use the new field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, get_args

import msgspec

from rekindle.errors import JournalRefused, NewerJournal

E = TypeVar("E")
Lift = Callable[[dict[str, Any]], dict[str, Any]]
Hook = Callable[[Any], Any]
BackHook = Callable[[type, Any], Any]
# What msgspec says of a field that a struct with `forbid_unknown_fields` does not have.
UNKNOWN_FIELD = "contains unknown field"


class Codec(Generic[E]):
    """Encodes and decodes the events of one union."""

    def __init__(
        self,
        union: Any,
        *,
        versions: Mapping[str, int] | None = None,
        lifts: Mapping[tuple[str, int], Lift] | None = None,
        enc_hook: Hook | None = None,
        dec_hook: BackHook | None = None,
        closing: type | None = None,
        base: type | None = None,
    ) -> None:
        members = get_args(union) or (union,)
        tags = {member: str(member.__struct_config__.tag) for member in members}
        self._lifts = dict(lifts or {})
        self._versions = {tag: (versions or {}).get(tag, 1) for tag in tags.values()}
        self._dec_hook = dec_hook
        self._closing = closing
        self._base = base
        self._members = {tag: member for member, tag in tags.items()}
        self._decoders = {
            f"{tag}/{self._versions[tag]}": msgspec.json.Decoder(member, dec_hook=dec_hook)
            for member, tag in tags.items()
        }
        self._names = {member: f"{tag}/{self._versions[tag]}" for member, tag in tags.items()}
        self._encoder = msgspec.json.Encoder(enc_hook=enc_hook)

    def encode(self, event: E) -> tuple[str, msgspec.Raw]:
        """`Type/version` and the bytes of one event."""
        name = self._names.get(type(event))
        if name is None:
            raise TypeError(f"{type(event).__name__} is not an event of this journal")
        return name, msgspec.Raw(self._encoder.encode(event))

    def closes(self, events: Iterable[E]) -> bool:
        """Whether a record with these events is the tombstone of its run."""
        return self._closing is not None and any(isinstance(event, self._closing) for event in events)

    def is_base(self, events: Sequence[E]) -> bool:
        """Whether a record of these events holds all that was said before it."""
        return self._base is not None and len(events) == 1 and isinstance(events[0], self._base)

    def decode(self, name: str, raw: msgspec.Raw) -> E:
        """One event, from the version it was written in."""
        decoder = self._decoders.get(name)
        try:
            if decoder is not None:
                event: E = decoder.decode(raw)
                return event
            return self._lift(name, raw)
        except (msgspec.MsgspecError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
            if UNKNOWN_FIELD in str(error):
                raise NewerJournal(
                    f"the journal holds an event {name} with a field that is not known here ({error}): "
                    "a newer Rekindle wrote it",
                    "pip install -U rekindle",
                ) from error
            raise JournalRefused(f"an event {name} is not what its type says: {error}") from error

    def _lift(self, name: str, raw: msgspec.Raw) -> E:
        tag, _, number = name.partition("/")
        newest = self._versions.get(tag)
        if newest is None or not number.isdecimal() or int(number) > newest:
            known = "not known" if newest is None else f"known up to version {newest}"
            raise NewerJournal(
                f"the journal holds an event {name}, which is {known} here: a newer Rekindle wrote it",
                "pip install -U rekindle",
            )
        value: dict[str, Any] = msgspec.json.decode(raw)
        for version in range(int(number), newest):
            lift = self._lifts.get((tag, version))
            if lift is None:
                raise JournalRefused(f"an event {name} cannot be read: no rule lifts version {version}")
            value = lift(value)
        event: E = msgspec.convert(value, self._members[tag], dec_hook=self._dec_hook)
        return event
