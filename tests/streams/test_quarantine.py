"""Poison and quarantine: when records are sought, and when a region goes on without them."""

from __future__ import annotations

from msgspec.structs import replace

from rekindle.model.failures import Cause, FailureKind
from rekindle.streams.source_records import QuarantinedRecord, SourceRecord
from rekindle.streams.stream_commands import FindPoison, StartQuery
from rekindle.streams.stream_events import (
    PoisonSuspected,
    QueryEnded,
    QueryStarted,
    RecordsQuarantined,
    RegionGivenUp,
    StreamEnded,
    StreamPhase,
)
from rekindle.streams.stream_spec import StreamSpec
from rekindle.streams.stream_state import StreamRecord
from rekindle.streams.stream_stimuli import PoisonReport, StopStream, StreamTick
from streams.specs import region_spec
from streams.test_stream_machine import OOPS, StreamWorld

BAD = Cause(FailureKind.EXCEPTION, "ValueError: x, at shop.py:3 in cents", at="shop.py:3 in cents")


def record(number: int, copies: int = 1) -> QuarantinedRecord:
    return QuarantinedRecord(SourceRecord(source=0, place="in/a.parquet", number=number, copies=copies), BAD)


def failing(*names: str, quarantine: int = 2) -> StreamWorld:
    """A stream whose first region has failed three times in its batch 4."""
    world = StreamWorld(*names)
    world.open(spec=StreamSpec(regions=tuple(region_spec(name, quarantine=quarantine) for name in names)))
    fail(world, names[0])
    return world


def fail(world: StreamWorld, name: str) -> tuple[StreamRecord, ...]:
    found: tuple[StreamRecord, ...] = ()
    for _ in range(3):
        found = world.fails(name, signature="s", batch=3)
        if isinstance(found[-1], PoisonSuspected | RegionGivenUp):
            break
        world.take(StreamTick(), at_ms=world.now_ms + 100)
    return found


def told(world: StreamWorld, *records: QuarantinedRecord, why: str = "") -> tuple[StreamRecord, ...]:
    assert world.state is not None
    number = world.state.regions["a"].number
    return world.take(PoisonReport(region="a", number=number, records=records, why=why, jobs=9))


def test_records_are_sought_before_a_region_gives_up() -> None:
    world = failing("a", "b")
    ended, suspected = world.events[-2:]
    assert isinstance(ended, QueryEnded)
    assert suspected == PoisonSuspected(region="a", batch=4, cause=OOPS, at_ms=world.now_ms)
    assert world.commands() == [FindPoison(region="a", number=3, batch=4, most=2, cause=OOPS), StartQuery("b", 1)]
    assert world.commands()[0].key == ("find poison", ("a", 3))


def test_a_region_goes_on_at_once_without_records_that_were_named() -> None:
    world = failing("a")
    quarantined, started = told(world, record(7))
    assert quarantined == RecordsQuarantined(region="a", batch=4, records=(record(7),), at_ms=world.now_ms, jobs=9)
    assert started == QueryStarted("a", 4, world.now_ms)
    assert world.commands() == [StartQuery("a", 4, (record(7),))]
    assert told(world, record(8)) == (), "nothing is sought any more"


def test_what_was_left_out_counts_for_the_next_search_and_with_another_driver() -> None:
    world = failing("a")
    told(world, record(7))
    world.open()
    assert world.commands() == [StartQuery("a", 5, (record(7),))]
    assert isinstance(fail(world, "a")[-1], PoisonSuspected)
    assert world.commands() == [FindPoison(region="a", number=7, batch=4, most=1, cause=OOPS, without=(record(7),))]


def test_a_region_gives_up_if_no_record_is_named() -> None:
    world = failing("a")
    gave_up, ended = told(world, why="no record fails alone")
    assert isinstance(gave_up, RegionGivenUp) and gave_up.who == "poison" and gave_up.cause == OOPS
    assert gave_up.why == "batch 4: no record was quarantined: no record fails alone"
    assert ended == StreamEnded(StreamPhase.FAILED, world.now_ms)


def test_a_region_gives_up_over_its_bound_and_equal_records_count_each() -> None:
    world = failing("a")
    gave_up, _ = told(world, record(7, copies=3))
    assert isinstance(gave_up, RegionGivenUp) and gave_up.cause == BAD
    assert gave_up.why == "batch 4: row 7 of in/a.parquet would be 3 records in quarantine, and 2 are allowed"


def test_a_record_that_was_left_out_and_fails_again_ends_it() -> None:
    world = failing("a")
    told(world, record(7))
    fail(world, "a")
    gave_up, _ = told(world, record(7))
    assert isinstance(gave_up, RegionGivenUp)
    assert gave_up.why == "batch 4: row 7 of in/a.parquet was left out already, and it fails again"


def test_late_reports_change_nothing() -> None:
    world = failing("a", "b")
    assert world.take(PoisonReport(region="a", number=2, records=(record(7),))) == ()
    assert world.take(PoisonReport(region="gone", number=1, records=(record(7),))) == ()


def test_a_stop_ends_the_search() -> None:
    world = failing("a")
    *_, ended = world.take(StopStream("asked"))
    assert ended == StreamEnded(StreamPhase.FAILED, world.now_ms)
    assert told(world, record(7)) == ()


def test_a_new_driver_tries_the_batch_again_before_it_seeks() -> None:
    world = failing("a")
    world.open()
    assert world.commands() == [StartQuery("a", 4)]
    *_, suspected = world.fails("a", signature="s", batch=3)
    assert isinstance(suspected, PoisonSuspected), "the third failure alike, once more"


def test_without_a_bound_a_region_gives_up_as_ever() -> None:
    world = failing("a", quarantine=0)
    assert any(isinstance(one, RegionGivenUp) and "failed 3 times" in one.why for one in world.events)


def test_records_in_words() -> None:
    one = SourceRecord(source=0, place="orders", partition=3, number=15)
    assert str(one) == "offset 15 in partition 3 of topic orders"
    line = SourceRecord(source=0, place="in/a.json", digest="a" * 64)
    assert str(line) == "record aaaaaaaaaaaa of in/a.json"
    assert str(replace(line, copies=2)) == "record aaaaaaaaaaaa of in/a.json (2 equal ones)"
    assert replace(line, copies=2).key == line.key


def test_a_record_is_told_by_the_name_of_its_stream_where_it_has_one() -> None:
    """Streams with names change their numbers."""
    named = SourceRecord(source=0, stream="a", place="in", partition=0, number=7)
    assert named.is_of(1, "a") and not named.is_of(0, "b")
    numbered = SourceRecord(source=0, place="in", partition=0, number=7)
    assert numbered.is_of(0, "") and not numbered.is_of(1, "")
    assert named.key != numbered.key
