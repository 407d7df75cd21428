"""What the journal of a stream has of its batch inputs, and which list of files a batch reads."""

from __future__ import annotations

import msgspec

from rekindle.streams.pinned_inputs import EarlierInput, PinnedInput, earlier_left, earlier_of
from rekindle.streams.stream_events import StreamOpened
from rekindle.streams.stream_machine import STREAM
from rekindle.streams.stream_spec import StreamLimits, StreamSpec
from rekindle.streams.stream_state import StreamState
from rekindle.streams.stream_stimuli import OpenStream
from streams.specs import region_spec

OLD, NEW = PinnedInput(digest="old", files=1, bytes=9), PinnedInput(digest="new", files=2, bytes=18)


def opened(
    state: StreamState | None, inputs: dict[str, PinnedInput], taken: tuple[str, ...] = ()
) -> tuple[StreamState, StreamOpened]:
    stimulus = OpenStream(
        pipeline="shop",
        run="r",
        spec=StreamSpec(regions=(region_spec("a"),), inputs=inputs),
        limits=StreamLimits(),
        run_time_ms=5,
        seed=6,
        application="app",
        owner="me",
        taken=taken,
    )
    events = STREAM.decide(state, stimulus, 1_000)
    after = STREAM.fold(state, events)
    assert after is not None
    return after, next(one for one in events if isinstance(one, StreamOpened))


def test_pins_stay_until_another_one_is_journaled_and_so_does_the_users_word() -> None:
    state, first = opened(None, {"names": OLD})
    assert state.pins == {"names": OLD} and first.taken == ()
    state, _ = opened(state, {})
    assert state.pins == {"names": OLD}, "the code has no such step now, and its pin is still there"
    state, again = opened(state, {"names": NEW}, ("names",))
    assert state.pins == {"names": NEW} and again.taken == ("names",)
    assert msgspec.json.decode(msgspec.json.encode(again), type=StreamOpened) == again


def test_a_stream_of_an_older_release_has_no_pins() -> None:
    _, first = opened(None, {})
    told = msgspec.to_builtins(first)
    told["spec"].pop("inputs")
    assert msgspec.convert(told, StreamOpened).spec.inputs == {}


def test_a_batch_that_was_planned_reads_what_it_was_planned_with() -> None:
    assert earlier_of(OLD, "a", 4) == EarlierInput(4, "old")
    taken = msgspec.structs.replace(NEW, earlier={"a": EarlierInput(4, "old")})
    assert [taken.list_of("a", batch) for batch in (4, 5)] == ["old", "new"] and taken.list_of("b", 4) == "new"
    assert earlier_of(taken, "a", 4) == EarlierInput(4, "old"), "taken twice, while the same batch waits"
    assert earlier_of(taken, "a", 5) == EarlierInput(5, "new")
    assert earlier_left(taken, {"a": 3}) == taken.earlier and earlier_left(taken, {}) == taken.earlier
    assert earlier_left(taken, {"a": 4}) == {}, "it is committed"
