"""What changed code means for a checkpoint, and whether a query is stalled."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rekindle.streams.region_changes import (
    TARGET_PART,
    ChangeVerdict,
    RegionChange,
    change_of,
    changes_of,
    restart_change,
)
from rekindle.streams.region_health import RegionHealth, RegionProgress, is_stalled, progressed
from rekindle.streams.stream_spec import Delivery, RegionSpec, StreamSpec

SPARK = {"spark.sql.ansi.enabled": "true", "python": "3.11.7"}
WAS = RegionSpec(
    name="totals",
    steps=("orders", "clean", "grouped", "totals"),
    sources=("orders",),
    target="files totals",
    delivery=Delivery.EXACTLY_ONCE,
    trigger="as soon as there is input",
    output_mode="append",
    stateful=("orders", "clean", "grouped"),
    fingerprints={
        **{name: {"code": "1", "plan": "#1"} for name in ("orders", "clean", "grouped", "totals")},
        "": SPARK,
    },
)
STATELESS = replace(WAS, stateful=())


def with_code(region: RegionSpec, **codes: str) -> RegionSpec:
    found = {name: {"code": code, "plan": "#1"} for name, code in codes.items()}
    return replace(region, fingerprints={**region.fingerprints, **found})


@pytest.mark.parametrize(
    ("was", "now", "verdict", "told"),
    [
        (WAS, WAS, ChangeVerdict.SAME, ()),
        (WAS, with_code(WAS, totals="2"), ChangeVerdict.COMPATIBLE, ("totals: code",)),
        (WAS, with_code(WAS, grouped="2"), ChangeVerdict.MIXES_STATE, ("grouped: code",)),
        (WAS, with_code(WAS, clean="2"), ChangeVerdict.MIXES_STATE, ("clean: code",)),
        (STATELESS, with_code(STATELESS, clean="2"), ChangeVerdict.COMPATIBLE, ("clean: code",)),
        (STATELESS, with_code(WAS, grouped="2"), ChangeVerdict.MIXES_STATE, ("grouped: code",)),
        (WAS, replace(WAS, trigger="1 second"), ChangeVerdict.SAME, ()),
    ],
)
def test_a_change_at_or_below_state_changes_its_meaning(
    was: RegionSpec, now: RegionSpec, verdict: ChangeVerdict, told: tuple[str, ...]
) -> None:
    found = change_of(was, now)
    assert (found.region, found.verdict, found.told) == ("totals", verdict, told)


def test_a_region_that_restarts_is_refused_what_a_new_driver_would_be_refused() -> None:
    assert not restart_change(WAS, WAS).is_refused
    assert not restart_change(WAS, with_code(WAS, totals="2")).is_refused
    mixed = restart_change(WAS, with_code(WAS, grouped="2"))
    assert mixed.is_refused and mixed.verdict is ChangeVerdict.MIXES_STATE
    named = replace(WAS, names={"orders": "/orders"})
    assert restart_change(named, replace(WAS, names={"all": "/orders"})).is_refused, "a renamed stream"
    accepted = {verdict for verdict in ChangeVerdict if not RegionChange("totals", verdict).is_refused}
    assert accepted == {ChangeVerdict.SAME, ChangeVerdict.COMPATIBLE, ChangeVerdict.SPLIT}


def test_steps_that_come_and_go_are_changes() -> None:
    without = {name: one for name, one in WAS.fingerprints.items() if name != "clean"}
    now = replace(WAS, steps=("orders", "grouped", "totals"), fingerprints=without)
    assert change_of(WAS, now).told == ("clean is gone",) and change_of(WAS, now).verdict is ChangeVerdict.MIXES_STATE
    assert change_of(now, WAS).told == ("clean is new",)


def test_settings_that_change_values_count_and_versions_do_not() -> None:
    other = replace(WAS, fingerprints={**WAS.fingerprints, "": {**SPARK, "spark.sql.ansi.enabled": "false"}})
    assert change_of(WAS, other).verdict is ChangeVerdict.MIXES_STATE
    assert change_of(WAS, other).told == ("settings: spark.sql.ansi.enabled",)
    assert change_of(STATELESS, replace(other, stateful=())).verdict is ChangeVerdict.COMPATIBLE
    newer = replace(WAS, fingerprints={**WAS.fingerprints, "": {**SPARK, "python": "3.12.1"}})
    assert change_of(WAS, newer).verdict is ChangeVerdict.SAME


def test_another_output_mode_with_other_code_is_no_small_change() -> None:
    now = replace(with_code(STATELESS, clean="2"), output_mode="update")
    assert change_of(STATELESS, now).verdict is ChangeVerdict.MIXES_STATE


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sources": ("orders", "returns")}, "it read the streams orders and reads orders, returns now"),
        ({"target": "files elsewhere"}, "it wrote to files totals and writes to files elsewhere now"),
    ],
)
def test_other_sources_or_another_target_need_a_new_checkpoint(changes: dict[str, Any], told: str) -> None:
    found = change_of(WAS, replace(WAS, **changes))
    assert found.verdict is ChangeVerdict.NEEDS_CHECKPOINT and found.told == (told,)


def test_streams_in_another_order_or_place_need_a_new_checkpoint() -> None:
    """A checkpoint has positions by the number of a stream: swapped in a union, all rows came twice."""
    was, now = replace(WAS, leaves=("#1", "#2")), replace(WAS, leaves=("#2", "#1"))
    assert change_of(was, now).verdict is ChangeVerdict.NEEDS_CHECKPOINT
    assert change_of(was, was).verdict is ChangeVerdict.SAME
    assert change_of(WAS, now).verdict is ChangeVerdict.SAME, "a stream that began before they were noted goes on"


def test_streams_with_names_come_and_go_over_one_checkpoint() -> None:
    """A name that Spark does not find among the last positions is read from its beginning: rows would come twice."""
    was = replace(STATELESS, sources=("a", "b"), leaves=("#1", "#2"), names={"a": "#1", "b": "#2"})

    def now(noted: tuple[str, ...] = (), **names: str) -> tuple[ChangeVerdict, tuple[str, ...]]:
        changed = replace(was, sources=tuple(names), leaves=tuple(names.values()), names=names)
        found = change_of(was, changed, noted)
        return found.verdict, found.told

    added = "the stream c is added, and is read from where its options begin"
    removed = "the stream b is removed, and what it has left is not read"
    assert now(b="#2", a="#1") == (ChangeVerdict.SAME, ())
    assert now(a="#1", b="#2", c="#3") == (ChangeVerdict.COMPATIBLE, (added,))
    assert now(a="#1") == (ChangeVerdict.COMPATIBLE, (removed,))
    assert now(a="#1", c="#3") == (ChangeVerdict.COMPATIBLE, (added, removed))
    for verdict, (told,) in (now(a="#1", c="#2"), now(a="#1", b="#3"), now(("c",), a="#1", b="#2", c="#3")):
        assert verdict is ChangeVerdict.NEEDS_CHECKPOINT
        assert "the stream b is removed and c is added" in told or "another place" in told or "removed before" in told
    assert change_of(was, replace(was, names={})).told[0].startswith("its streams had names and have none now")
    assert change_of(replace(was, names={}), was).told[0].startswith("its streams had no names and have some now")


def test_state_that_is_kept_by_other_operators_needs_a_new_checkpoint() -> None:
    was = replace(WAS, operators=("Aggregate",))
    now = replace(with_code(WAS, grouped="2"), operators=("Deduplicate",))
    found = change_of(was, now)
    assert found.verdict is ChangeVerdict.NEEDS_CHECKPOINT
    assert found.told == ("its state was kept by Aggregate, and is by Deduplicate now",)
    assert change_of(WAS, was).verdict is ChangeVerdict.SAME, "a stream that began before they were noted goes on"
    came, went = change_of(STATELESS, was), change_of(was, STATELESS)
    assert came.told == ("its state was kept by no operator, and is by Aggregate now",)
    assert came.verdict is went.verdict is ChangeVerdict.NEEDS_CHECKPOINT


def test_columns_may_be_added_and_nothing_else() -> None:
    was = replace(WAS, columns={"id": "bigint", "amount": "string"})
    more = replace(WAS, columns={"id": "bigint", "amount": "string", "note": "string"})
    other = replace(WAS, columns={"id": "bigint", "amount": "int"})
    gone = replace(WAS, columns={"id": "bigint", "price": "string"})
    assert change_of(was, more).verdict is ChangeVerdict.SAME
    assert change_of(was, other).told == ("amount was string, is int",)
    found = change_of(was, gone)
    assert found.verdict is ChangeVerdict.OTHER_COLUMNS and found.told == ("amount was string, is gone",)
    moved = change_of(was, replace(gone, target="files elsewhere"))
    assert moved.verdict is ChangeVerdict.NEEDS_CHECKPOINT, "there are no old rows in another target"
    told = change_of(was, replace(gone, sources=("returns",)))
    assert told.verdict is ChangeVerdict.OTHER_COLUMNS, "a new checkpoint would not help"


def health(batch: int = 3, at: str = "t", *, is_in_batch: bool = True) -> RegionHealth:
    return RegionHealth(key="a#1", is_active=True, is_in_batch=is_in_batch, batch=batch, at=at)


def test_a_batch_that_shows_no_progress_is_stalled_and_waiting_for_input_is_not() -> None:
    first = progressed(None, health(), 1_000)
    assert first == RegionProgress((3, "t", True), 1_000)
    assert progressed(first, health(), 5_000) is first
    assert not is_stalled(first, 5_999, 5_000) and is_stalled(first, 6_000, 5_000) and not is_stalled(first, 9_000, 0)
    assert progressed(first, health(batch=4), 5_000).since_ms == 5_000
    idle = progressed(first, health(is_in_batch=False), 2_000)
    assert not is_stalled(idle, 99_000, 5_000)
    assert progressed(idle, health(is_in_batch=False, at="later"), 3_000).since_ms == 3_000


def test_the_function_of_a_target_stands_above_all_state() -> None:
    was, now = (replace(WAS, fingerprints={**WAS.fingerprints, TARGET_PART: {"code": code}}) for code in ("1", "2"))
    found = change_of(was, now)
    assert (found.verdict, found.told) == (ChangeVerdict.COMPATIBLE, (f"{TARGET_PART}: code",))


def test_state_over_the_rows_of_a_region_that_changed_has_both_meanings() -> None:
    made = replace(STATELESS, name="made")
    held, passed = (
        replace(WAS, reads=("made",), operators=("Aggregate",)),
        replace(STATELESS, name="p", reads=("made",)),
    )
    was = {one.name: one for one in (made, held, passed)}
    changes = changes_of(
        was, StreamSpec(regions=(with_code(made, clean="2"), held, passed, replace(made, name="new"))), {}, {}
    )
    assert {one.region: (one.verdict, one.told) for one in changes} == {
        "made": (ChangeVerdict.COMPATIBLE, ("clean: code",)),
        "totals": (ChangeVerdict.MIXES_STATE, ("it reads made, which changed: clean: code",)),
        "p": (ChangeVerdict.COMPATIBLE, ("it reads made, which changed: clean: code",)),
    }
    other = replace(held, sources=("others",))
    (_, needs) = changes_of(was, StreamSpec(regions=(with_code(made, clean="2"), other)), {}, {})
    assert needs.verdict is ChangeVerdict.NEEDS_CHECKPOINT, "more is not needed"


def test_regions_over_other_parts_of_a_source_are_no_longer_those_of_the_checkpoints() -> None:
    def shards(count: int) -> list[RegionSpec]:
        return [replace(WAS, name=f"totals.{number}", shard_of="totals", shards=count) for number in range(count)]

    def verdicts(was: list[RegionSpec], now: list[RegionSpec]) -> dict[str, tuple[ChangeVerdict, tuple[str, ...]]]:
        found = changes_of({one.name: one for one in was}, StreamSpec(regions=tuple(now)), {}, {})
        return {one.region: (one.verdict, one.told) for one in found}

    told = "totals was read in {} shards, and is in {} now"
    assert {verdict for verdict, _ in verdicts(shards(2), shards(2)).values()} == {ChangeVerdict.SAME}
    for was, now in ((shards(2), shards(3)), (shards(2), [WAS]), ([WAS], shards(2))):
        refused = (ChangeVerdict.OTHER_SHARDS, (told.format(len(was), len(now)),))
        assert verdicts(was, now) == {one.name: refused for one in now}
    assert verdicts([replace(WAS, name="others")], shards(2)) == {}
