"""What a user may say about where a new checkpoint begins, and what that comes to."""

from __future__ import annotations

import pytest

from rekindle.streams.source_starts import StartRequest, distance, offsets_lacking, start_request
from rekindle.streams.stream_spec import SourceStart

NOW = 2_000_000_000_000
FIRST, LAST = {"in": {"0": 5, "1": 0}}, {"in": {"0": 9, "1": 4}}


@pytest.mark.parametrize(
    ("text", "asked", "told"),
    [
        ("earliest", StartRequest(SourceStart.EARLIEST), "earliest"),
        ("latest", StartRequest(SourceStart.LATEST), "latest"),
        ("1970-01-01T01:00:01+01:00", StartRequest(SourceStart.TIMESTAMP, 1_000), "1970-01-01T00:00:01.000Z"),
        ('offsets:{"in":{"0":7}}', StartRequest(SourceStart.OFFSETS, offsets={"in": {"0": 7}}), "offsets"),
    ],
)
def test_what_is_said_is_told_as_it_can_be_typed_again(text: str, asked: StartRequest, told: str) -> None:
    assert start_request(text, NOW) == asked and str(asked) == told


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("newest", "'newest' is no place to begin to read"),
        ("timestamp", "'timestamp' is no place to begin to read"),
        ("2026-01-31T06:00:00", "2026-01-31T06:00:00 has no time zone"),
        ("2286-01-31T06:00:00Z", "2286-01-31T06:00:00.000Z is not in the past"),
        ("offsets:{}}", 'offsets are not JSON such as {"topic": {"0": 42}}'),
    ],
)
def test_what_nobody_can_begin_at_is_no_start(text: str, why: str) -> None:
    with pytest.raises(ValueError, match="^" + why.replace("{", r"\{").replace("[", r"\[")):
        start_request(text, NOW)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"0": 5, "1": 4}, ""),
        ({"0": 5}, "in has the partitions 0, 1, and offsets are said for 0"),
        ({}, "in has the partitions 0, 1, and offsets are said for none"),
        ({"0": 4, "1": 0}, "partition 0 of in has the offsets 5 to 9, and 4 is said"),
        ({"0": 5, "1": 5}, "partition 1 of in has the offsets 0 to 4, and 5 is said"),
    ],
)
def test_offsets_that_a_topic_does_not_have_are_named(asked: dict[str, int], why: str) -> None:
    assert offsets_lacking({"in": asked}, FIRST, LAST) == why
    assert distance(FIRST, LAST) == 8
