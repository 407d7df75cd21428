"""The cheap line of a run says at every record what the whole fold says."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from master.driving import Driven
from observe.telling import RECORDINGS, frames_in, name_of, records_in
from rekindle.master.state.apply import fold
from rekindle.master.state.run_state import RunState
from rekindle.master.state.wire import enc_hook
from rekindle.observe.runs import RunCounts
from support.recorded import load


def counted(state: RunState) -> tuple[str, int, int]:
    return (
        state.phase.value,
        sum(len(step.committed) for step in state.steps.values()),
        sum(state.layout.graph.steps[name].partitions for name in state.steps),
    )


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_a_tally_agrees_with_the_fold_at_every_record(path: Path) -> None:
    tally, state = RunCounts(), None
    for frame, record in zip(frames_in(load(path)), records_in(path), strict=True):
        tally.add(frame.frame.types, frame.frame.events)
        state = fold(state, record.events)
        assert state is not None
        assert (tally.phase, tally.kept, tally.wanted) == counted(state)
        assert tally.steps == len(state.steps)


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_a_tally_goes_on_from_any_snapshot(path: Path) -> None:
    frames, records = frames_in(load(path)), records_in(path)
    at = len(frames) // 2
    middle = fold(None, (event for record in records[:at] for event in record.events))
    end = fold(middle, (event for record in records[at:] for event in record.events))
    assert end is not None
    tally = RunCounts()
    tally.begin(msgspec.msgpack.encode(middle, enc_hook=enc_hook))
    for frame in frames[at:]:
        tally.add(frame.frame.types, frame.frame.events)
    assert (tally.phase, tally.kept, tally.wanted) == counted(end)


def test_rows_and_bytes_are_those_of_what_is_published() -> None:
    run = Driven("a[2]\nb[2]", sinks=("a", "b"))
    for step in "ab":
        run.commit(step, "0-1", rows=10, size_bytes=100)
        run.end(step)

    def told() -> tuple[int | None, int | None]:
        tally = RunCounts()
        tally.begin(msgspec.msgpack.encode(run.state, enc_hook=enc_hook))
        return tally.rows, tally.size_bytes

    assert told() == (None, None)
    run.publish()
    assert told() == (20, 200)


def test_the_time_of_a_run_is_that_of_its_newest_record() -> None:
    tally = RunCounts()
    tally.last([msgspec.Raw(b'{"type":"SinkPublished"}'), msgspec.Raw(b'{"at_ms":7}'), msgspec.Raw(b'{"at_ms":9}')])
    assert tally.changed_ms == 7
