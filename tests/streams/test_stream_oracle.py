"""A slice of `make stream-oracle`, and masters that make too much again, or forget who needs what: each is seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any, cast

import pytest
from msgspec.structs import replace as changed

import stream_oracle
from rekindle.streams.stream_events import BatchesLost, BatchesReplayed
from rekindle.streams.stream_machine import STREAM
from rekindle.streams.stream_state import StreamRecord
from stream_oracle import BATCHES, cases, check

SLICE = 397


def test_what_is_made_again_is_the_least_that_is_right() -> None:
    assert [wrong for case in islice(cases(), 0, None, SLICE) for wrong in check(case)] == []


def more(event: StreamRecord) -> StreamRecord:
    return changed(event, batches=tuple(range(BATCHES))) if isinstance(event, BatchesLost) else event


def forgets(event: StreamRecord) -> StreamRecord:
    return changed(event, needed=()) if isinstance(event, BatchesLost) else event


def all_fail(event: StreamRecord) -> StreamRecord:
    is_unmade = isinstance(event, BatchesReplayed) and event.why
    return changed(event, unmade=tuple(range(BATCHES))) if is_unmade else event


@pytest.mark.parametrize("planted", [more, forgets, all_fail])
def test_another_master_is_seen(monkeypatch: pytest.MonkeyPatch, planted: Callable[[StreamRecord], Any]) -> None:
    def decide(*given: Any) -> tuple[StreamRecord, ...]:
        return tuple(map(planted, STREAM.decide(*given)))

    monkeypatch.setattr(stream_oracle, "STREAM", replace(STREAM, decide=cast(Any, decide)))
    assert any(_sees(case) for case in islice(cases(), 0, None, 17))


def _sees(case: stream_oracle.Case) -> bool:
    try:
        return bool(check(case))
    except AssertionError:
        return True
