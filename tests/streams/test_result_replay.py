"""Batches of a result that are gone: what is made again, who waits, who gives up. Exact events, exact sets."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.model.failures import Cause, FailureKind
from rekindle.model.machine import WakeAt
from rekindle.streams.replaced_rows import ReaderPlace, refused_replacement
from rekindle.streams.stream_commands import ReplayBatches, StartQuery, StopQuery
from rekindle.streams.stream_decide import told_batches
from rekindle.streams.stream_events import (
    BatchesLost,
    BatchesReplayed,
    QueryEnd,
    QueryEnded,
    QueryStarted,
    RecordsQuarantined,
    RegionGivenUp,
    RegionsRestart,
    StopRequested,
)
from rekindle.streams.stream_spec import StreamSpec
from rekindle.streams.stream_state import StreamRecord
from rekindle.streams.stream_stimuli import PoisonReport, ReplayReport, StopStream, StreamTick
from streams.specs import region_spec
from streams.test_quarantine import BAD, record
from streams.test_stream_machine import StreamWorld

GONE = Cause(FailureKind.EVICTED, "block rdd_7_3 was not found")


def world_of(*, strategy: str = "region", **nature: Any) -> StreamWorld:
    """`clean`, whose result `sums` and `flags` read."""
    world = StreamWorld("clean", strategy=strategy)
    readers = [region_spec(name, reads=("clean",)) for name in ("sums", "flags")]
    world.open(spec=StreamSpec(regions=(region_spec("clean", result="memory", quarantine=2, **nature), *readers)))
    return world


def misses(world: StreamWorld, reader: str, *batches: int) -> tuple[StreamRecord, ...]:
    return world.fails(reader, GONE, signature="gone", lost={"clean": batches})


def replayed(world: StreamWorld, *batches: int, number: int = 1, **given: Any) -> tuple[StreamRecord, ...]:
    return world.take(ReplayReport(region="clean", number=number, batches=batches, **given))


def test_exactly_what_is_gone_is_made_again_while_the_producer_and_the_other_reader_go_on() -> None:
    world = world_of()
    ended, lost, restart = misses(world, "sums", 4, 5)
    assert isinstance(ended, QueryEnded) and isinstance(restart, RegionsRestart) and restart.regions == ("sums",)
    assert lost == BatchesLost(region="clean", batches=(4, 5), reader="sums", readers=("sums",), at_ms=1_000)
    made = ReplayBatches(region="clean", number=1, batches=(4, 5))
    assert world.commands() == [StartQuery("clean", 1), made, StartQuery("flags", 1)], "nobody wakes for who waits"
    assert made.key == ("replay", ("clean", 1))
    assert world.take(StreamTick(), 5_000) == (), "it waits for its batches, not for its time"
    back, started = replayed(world, 4, 5)
    assert back == BatchesReplayed(region="clean", batches=(4, 5), at_ms=5_000)
    assert started == QueryStarted("sums", 2, 5_000)
    assert not any(isinstance(one, ReplayBatches) for one in world.commands())


def test_what_is_made_again_early_waits_for_the_delay_of_its_reader() -> None:
    world = world_of()
    misses(world, "sums", 4)
    replayed(world, 4)
    assert WakeAt(1_100) in world.commands()
    assert world.take(StreamTick(), 1_100) == (QueryStarted("sums", 2, 1_100),)


def test_two_readers_that_miss_the_same_batch_have_it_made_once() -> None:
    world = world_of()
    misses(world, "sums", 4, 5)
    _, lost, _ = misses(world, "flags", 5, 6)
    assert isinstance(lost, BatchesLost) and lost.batches == (6,) and lost.readers == ("flags",)
    assert [one.batches for one in world.commands() if isinstance(one, ReplayBatches)] == [(4, 5)]
    (back,) = replayed(world, 4, 5)
    assert isinstance(back, BatchesReplayed), "both wait for batch 6: one replay at a time"
    assert [(one.number, one.batches) for one in world.commands() if isinstance(one, ReplayBatches)] == [(2, (6,))]
    assert replayed(world, 4, 5, number=1) == (), "a late report"
    assert replayed(world, 6, number=2) == (BatchesReplayed(region="clean", batches=(6,), at_ms=1_000),)
    assert world.take(StreamTick(), 1_100) == (QueryStarted("sums", 2, 1_100), QueryStarted("flags", 2, 1_100))
    assert replayed(world, 6, number=2) == (), "a doubled report"


def test_a_second_reader_that_misses_what_is_being_made_joins_the_first() -> None:
    world = world_of()
    misses(world, "sums", 4)
    _, lost, _ = misses(world, "flags", 4)
    assert isinstance(lost, BatchesLost) and lost.batches == ()
    replayed(world, 4)
    assert world.take(StreamTick(), 1_100) == (QueryStarted("sums", 2, 1_100), QueryStarted("flags", 2, 1_100))


def test_readers_of_rows_that_may_differ_stop_before_they_are_made_again() -> None:
    world = world_of(doubts=("rand()",))
    _, lost, restart = misses(world, "sums", 4)
    assert isinstance(lost, BatchesLost) and lost.readers == ("sums", "flags")
    assert isinstance(restart, RegionsRestart) and restart.regions == ("sums", "flags")
    assert world.commands() == [StartQuery("clean", 1), StartQuery("flags", 1), StopQuery("flags", 1)]
    world.ends("flags", QueryEnd.STOPPED)
    assert world.commands()[-1] == ReplayBatches(region="clean", number=1, batches=(4,)), "after it has ended"
    replayed(world, 4, changed=(4,))
    assert world.take(StreamTick(), 1_100) == (QueryStarted("sums", 2, 1_100), QueryStarted("flags", 2, 1_100))


def test_a_reader_that_waits_for_its_time_waits_for_rows_that_may_differ_too() -> None:
    world = world_of(doubts=("rand()",))
    world.fails("flags")
    _, lost, restart = misses(world, "sums", 4)
    assert isinstance(lost, BatchesLost) and lost.readers == ("sums", "flags")
    assert isinstance(restart, RegionsRestart) and restart.regions == ("sums",), "it starts again anyway"
    assert world.take(StreamTick(), 1_100) == ()


def test_who_needs_what_cannot_be_made_again_gives_up_and_nobody_else() -> None:
    world = world_of(doubts=("rand()",))
    misses(world, "sums", 4, 5)
    world.ends("flags", QueryEnd.STOPPED)
    why = "batch 5 of clean was made again with other rows, and flags has read it"
    back, gave_up = replayed(world, 4, why=why)
    assert back == BatchesReplayed(region="clean", batches=(4,), at_ms=1_000, why=why, unmade=(5,))
    assert isinstance(gave_up, RegionGivenUp)
    assert (gave_up.region, gave_up.who, gave_up.why, gave_up.cause) == ("sums", "replay", why, GONE)
    assert world.take(StreamTick(), 1_100) == (QueryStarted("flags", 2, 1_100),)


def test_a_stream_that_ends_with_one_region_ends_with_that() -> None:
    world = world_of()
    world.limits = world.limits.__class__(backoff=world.limits.backoff, is_ended_by_one=True)
    world.open()
    misses(world, "sums", 4)
    assert isinstance(replayed(world, why="its source is gone")[-1], StopRequested)


def test_a_batch_of_what_keeps_state_is_not_made_again() -> None:
    world = world_of(unreplayable="it keeps state (dedupe)")
    _, gave_up = misses(world, "sums", 4)
    assert isinstance(gave_up, RegionGivenUp)
    told = "batch 4 of the result of clean cannot be read any more: it keeps state (dedupe)"
    assert (gave_up.region, gave_up.who, gave_up.why) == ("sums", "replay", told)
    assert not any(isinstance(one, ReplayBatches) for one in world.commands())


def test_records_in_quarantine_are_left_out_when_a_batch_is_made_again() -> None:
    world = world_of()
    for _ in range(3):
        world.fails("clean", signature="s", batch=3)
        world.take(StreamTick(), at_ms=world.now_ms + 100)
    assert world.state is not None
    number = world.state.regions["clean"].number
    quarantined, _ = world.take(PoisonReport(region="clean", number=number, records=(record(1),)))
    assert isinstance(quarantined, RecordsQuarantined) and quarantined.records[0].cause is BAD
    misses(world, "sums", 4)
    (made,) = (one for one in world.commands() if isinstance(one, ReplayBatches))
    assert made.without == (record(1),)


def test_what_is_lost_again_and_again_is_bounded_as_every_failure_is() -> None:
    world = world_of()
    for number in (1, 2):
        misses(world, "sums", 4)
        replayed(world, 4, number=number)
        world.take(StreamTick(), at_ms=world.now_ms + 100)
    _, gave_up = misses(world, "sums", 4)
    assert isinstance(gave_up, RegionGivenUp) and gave_up.who == "fixed delay"


def test_a_stop_and_a_new_driver_forget_what_was_to_be_made_again() -> None:
    world = world_of()
    misses(world, "sums", 4)
    world.take(StopStream("asked"))
    assert world.state is not None
    assert not any(one.replaying or one.lost or one.awaits or one.needs for one in world.state.regions.values())
    assert replayed(world, 4) == ()
    world.open()
    misses(world, "sums", 4)
    misses(world, "flags", 6)
    assert [one.batches for one in world.commands() if isinstance(one, ReplayBatches)] == [(4,)]
    _, started = world.open()
    assert started == QueryStarted("clean", 3, 1_000), "the others wait for their time, and for nothing else"
    assert not any(isinstance(one, ReplayBatches) for one in world.commands())
    world.take(StreamTick(), 1_100)
    misses(world, "flags", 4)
    assert [one.number for one in world.commands() if isinstance(one, ReplayBatches)] == [3], "numbers go on"


def test_an_older_driver_that_reports_of_a_region_that_is_gone_changes_nothing() -> None:
    world = world_of()
    assert world.take(ReplayReport(region="others", number=1)) == ()


@pytest.mark.parametrize(
    ("batches", "told"),
    [
        ((4,), "batch 4 of the result of clean cannot be read any more"),
        ((4, 5, 6), "batches 4, 5, 6 of the result of clean cannot be read any more"),
        ((4, 5, 6, 7, 8), "batches 4, 5, 6 and 2 more of the result of clean cannot be read any more"),
    ],
)
def test_batches_are_told_in_words(batches: tuple[int, ...], told: str) -> None:
    assert told_batches("clean", batches) == told


@pytest.mark.parametrize(
    ("is_equal", "places", "told"),
    [
        (True, {"sums": ReaderPlace.BEYOND}, ""),
        (False, {"sums": ReaderPlace.BEFORE, "flags": ReaderPlace.BEFORE}, ""),
        (
            False,
            {"sums": ReaderPlace.BEFORE, "flags": ReaderPlace.BEYOND},
            "batch 4 of clean was made again with other rows, and flags has read it",
        ),
        (
            False,
            {"sums": ReaderPlace.MAY_READ},
            "batch 4 of clean was made again with other rows, and sums may be reading it",
        ),
    ],
)
def test_other_rows_take_the_place_only_of_what_nobody_has_read(
    is_equal: bool, places: dict[str, ReaderPlace], told: str
) -> None:
    assert refused_replacement(4, "clean", places, is_equal=is_equal) == told


def chained(unreplayable: str = "") -> StreamWorld:
    """`sums` and `flags` read `clean`, which reads `raw`."""
    world = StreamWorld("raw")
    raw = region_spec("raw", result="memory", unreplayable=unreplayable)
    clean = region_spec("clean", result="memory", reads=("raw",))
    readers = [region_spec(name, reads=("clean",)) for name in ("sums", "flags")]
    world.open(spec=StreamSpec(regions=(raw, clean, *readers)))
    return world


def test_a_batch_that_can_be_made_is_although_another_one_cannot() -> None:
    """Found by the oracle: who needed the one gave up because of the other."""
    world = world_of()
    misses(world, "sums", 4, 5)
    misses(world, "flags", 5)
    why = "its source is gone"
    back, gave_up = replayed(world, unmade=(4,), why=why)
    assert back == BatchesReplayed(region="clean", batches=(), at_ms=1_000, why=why, unmade=(4,))
    assert isinstance(gave_up, RegionGivenUp) and gave_up.region == "sums"
    assert [(one.number, one.batches) for one in world.commands() if isinstance(one, ReplayBatches)] == [(2, (5,))]
    replayed(world, 5, number=2)
    assert world.take(StreamTick(), 1_100) == (QueryStarted("flags", 2, 1_100),)
    _, gave_up = misses(world, "flags", 4)
    assert isinstance(gave_up, RegionGivenUp) and gave_up.why == why, "nobody tries that one again in this driver"


def test_a_replay_goes_on_with_the_batches_whose_inputs_are_there() -> None:
    world = chained()
    misses(world, "sums", 4, 5)
    misses(world, "flags", 5)
    replayed(world, lost={4: {"raw": (7,)}, 5: {"raw": (8,)}})
    world.take(ReplayReport(region="raw", number=1, why="it is gone", unmade=(7,)))
    world.take(ReplayReport(region="raw", number=2, batches=(8,)))
    over, gave_up = replayed(world, number=2, lost={4: {"raw": (7,)}})
    assert isinstance(over, BatchesReplayed) and over.unmade == (4,)
    assert isinstance(gave_up, RegionGivenUp) and gave_up.region == "sums"
    assert [one.batches for one in world.commands() if isinstance(one, ReplayBatches)] == [(5,)]


def test_a_replay_whose_own_input_is_gone_waits_for_another_one() -> None:
    world = chained()
    misses(world, "sums", 4)
    (lost,) = replayed(world, lost={4: {"raw": (7, 8)}})
    assert lost == BatchesLost(region="raw", batches=(7, 8), reader="clean", at_ms=1_000)
    made = [one for one in world.commands() if isinstance(one, ReplayBatches)]
    assert made == [ReplayBatches(region="raw", number=1, batches=(7, 8))]
    assert replayed(world, 4) == (), "the first try is over"
    world.take(ReplayReport(region="raw", number=1, batches=(7, 8)))
    made = [one for one in world.commands() if isinstance(one, ReplayBatches)]
    assert made == [ReplayBatches(region="clean", number=2, batches=(4,))]
    replayed(world, 4, number=2)
    assert world.take(StreamTick(), 1_100) == (QueryStarted("sums", 2, 1_100),)


@pytest.mark.parametrize("unreplayable", ["", "it keeps state"])
def test_who_needs_a_replay_that_needs_what_cannot_be_made_gives_up(unreplayable: str) -> None:
    world = chained(unreplayable)
    misses(world, "sums", 4)
    why = "batch 7 of the result of raw cannot be read any more: it keeps state"
    found = replayed(world, lost={4: {"raw": (7,)}})
    if not unreplayable:
        why = "its source is gone"
        (raw,) = world.take(ReplayReport(region="raw", number=1, why=why))
        assert raw == BatchesReplayed(region="raw", batches=(), at_ms=1_000, why=why, unmade=(7,))
        found = replayed(world, number=2, lost={4: {"raw": (7,)}})
    over, gave_up = found
    assert over == BatchesReplayed(region="clean", batches=(), at_ms=1_000, why=why, unmade=(4,))
    assert isinstance(gave_up, RegionGivenUp) and (gave_up.region, gave_up.why) == ("sums", why)
    assert not any(isinstance(one, ReplayBatches) for one in world.commands())
