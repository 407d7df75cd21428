"""Types, versions and lifts: a journal written by older code is read, one by newer code is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rekindle.errors import JournalRefused, NewerJournal
from rekindle.journal.codec import Codec
from support.facts import CODEC, Noted


class Committed(msgspec.Struct, frozen=True, tag=True):
    step: str
    files: int


class Lost(msgspec.Struct, frozen=True, tag=True):
    step: str


def rename_name(old: dict[str, Any]) -> dict[str, Any]:
    return {"type": old["type"], "step": old["name"]}


def add_files(old: dict[str, Any]) -> dict[str, Any]:
    return old | {"files": 0}


NOW: Codec[Committed | Lost] = Codec(
    Committed | Lost,
    versions={"Committed": 3},
    lifts={("Committed", 1): rename_name, ("Committed", 2): add_files},
)


def test_round_trip() -> None:
    event = Committed("clean", 3)
    name, raw = NOW.encode(event)
    assert (name, NOW.decode(name, raw)) == ("Committed/3", event)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("Committed/1", b'{"type":"Committed","name":"clean"}'),
        ("Committed/2", b'{"type":"Committed","step":"clean"}'),
    ],
)
def test_an_older_version_is_lifted_step_by_step(name: str, body: bytes) -> None:
    assert NOW.decode(name, msgspec.Raw(body)) == Committed("clean", 0)


def test_a_newer_version_is_refused_with_a_sentence() -> None:
    with pytest.raises(NewerJournal, match="Committed/4, which is known up to version 3 here"):
        NOW.decode("Committed/4", msgspec.Raw(b"{}"))


def test_an_unknown_type_is_refused_with_a_sentence() -> None:
    with pytest.raises(NewerJournal, match="Moved/1, which is not known here: a newer Rekindle wrote it"):
        NOW.decode("Moved/1", msgspec.Raw(b"{}"))


def test_a_version_without_a_lift_is_refused() -> None:
    codec: Codec[Lost] = Codec(Lost, versions={"Lost": 2})
    with pytest.raises(JournalRefused, match="no rule lifts version 1"):
        codec.decode("Lost/1", msgspec.Raw(b'{"type":"Lost","step":"x"}'))


def test_an_event_that_is_not_its_type_is_refused() -> None:
    with pytest.raises(JournalRefused, match="Lost/1 is not what its type says"):
        NOW.decode("Lost/1", msgspec.Raw(b'{"type":"Lost","step":3}'))


def test_a_stranger_is_not_written() -> None:
    with pytest.raises(TypeError, match="Noted is not an event of this journal"):
        NOW.encode(Noted("x"))  # type: ignore[arg-type]


def test_an_added_field_of_newer_code_is_refused_and_no_damage() -> None:
    with pytest.raises(NewerJournal, match=r"Noted/1 with a field that is not known here .*more.*: a newer Rekindle"):
        CODEC.decode("Noted/1", msgspec.Raw(b'{"type":"Noted","text":"a","more":1}'))
