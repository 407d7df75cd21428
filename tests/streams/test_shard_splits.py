"""Where shards go on when there are more of them, as values."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rekindle.failover.restart import Strategy
from rekindle.streams.region_changes import ChangeVerdict, changes_of
from rekindle.streams.shard_splits import (
    FrozenRegion,
    ShardName,
    ShardSplit,
    as_parent,
    begins_after,
    parents_of,
    refused_split,
)
from rekindle.streams.source_starts import SourcePosition
from rekindle.streams.stream_decide import decide
from rekindle.streams.stream_events import CheckpointReplaced, QueryEnd, QueryStarted, ShardBegun
from rekindle.streams.stream_spec import AVAILABLE_NOW, RegionSpec, SourceStart, StreamLimits, StreamSpec
from rekindle.streams.stream_state import StreamState, fold
from rekindle.streams.stream_stimuli import OpenStream, QueryReport
from streams.specs import region_spec


def shards(count: int, *, name: str = "plain", reads: bool = False, trigger: str = "10 seconds") -> list[RegionSpec]:
    """The regions of a sink in so many shards; in one it is in none."""
    source = "drawn" if reads else "orders"
    made = []
    for number in range(count):
        end = f".{number}" if count > 1 else ""
        made.append(
            region_spec(
                f"{name}{end}",
                steps=(f"{source}{end}", f"{name}{end}"),
                sources=(f"{source}{end}",),
                reads=(f"{source}{end}",) if reads else (),
                target=f"files {name}",
                leaves=(f"{source}{end}",) if reads else ("#1",),
                fingerprints={f"{name}{end}": {"code": "1"}},
                trigger=trigger,
                shard_of=name if count > 1 else "",
                shards=count if count > 1 else 0,
            )
        )
    return made


def names(count: int, name: str = "plain") -> list[ShardName]:
    return [ShardName(f"{name}.{number}", name, number, count) for number in range(count)]


def parents(was: list[RegionSpec], count: int) -> dict[str, str]:
    return {name: one.name for name, one in parents_of(names(count), was).items()}


def test_each_shard_goes_on_from_the_one_whose_part_it_has_a_part_of() -> None:
    assert parents(shards(1), 2) == {"plain.0": "plain", "plain.1": "plain"}
    assert parents(shards(2), 4) == {f"plain.{one}": f"plain.{one % 2}" for one in range(4)}


@pytest.mark.parametrize("count", [2, 3, 1])
def test_the_same_number_or_one_that_is_no_multiple_has_no_parents(count: int) -> None:
    assert parents(shards(2), count) == {}


def test_positions_by_names_and_two_kinds_of_inputs_are_not_split() -> None:
    (plain,) = shards(1)
    assert parents([replace(plain, names={"a": "#1"})], 2) == {}
    assert parents([replace(plain, reads=("drawn",))], 2) == {}
    assert parents([replace(plain, name="other", shard_of="")], 2) == {}


def test_the_code_of_a_shard_is_compared_with_that_of_its_parent() -> None:
    old, new = shards(2), shards(4)
    found = {one.name: one for one in old}
    of = {one.name: found[f"plain.{number % 2}"] for number, one in enumerate(new)}
    same = changes_of(found, StreamSpec(regions=tuple(new)), {}, of)
    assert {one.verdict for one in same} == {ChangeVerdict.SPLIT}
    assert same[3].told == ("it reads a part of what plain.1 read",)
    changed = [replace(one, fingerprints={one.name: {"code": "2"}}) for one in new]
    (other, *_) = changes_of(found, StreamSpec(regions=tuple(changed)), {}, of)
    assert (other.verdict, other.told[1:]) == (ChangeVerdict.SPLIT, ("plain.0: code",))
    moved = [replace(one, leaves=("#2",)) for one in new]
    assert changes_of(found, StreamSpec(regions=tuple(moved)), {}, of)[0].verdict is ChangeVerdict.NEEDS_CHECKPOINT
    assert as_parent(shards(1)[0], new[1]).sources == ("orders.1",)
    assert as_parent(shards(2, reads=True)[0], shards(4, reads=True)[2]).leaves == ("drawn.2",)


def test_nothing_of_a_parent_may_be_on_its_way() -> None:
    drawn, plain = shards(1, name="drawn"), shards(1, reads=True)
    of = [*drawn, *plain]

    def refused(producer: FrozenRegion, reader: FrozenRegion) -> str:
        return refused_split(of, {"drawn": producer, "plain": reader})

    done, read = FrozenRegion(3, 3, {}), FrozenRegion(1, 1, {"drawn": 3})
    assert refused(done, read) == ""
    assert refused(FrozenRegion(4, 3, {}), read) == "batch 4 of drawn is planned, and not committed"
    assert refused(FrozenRegion(-1, -1, {}), read).startswith("drawn has no batch yet")
    told = "plain has read the result of drawn up to batch 2, and it has batch 3"
    assert refused(done, FrozenRegion(1, 1, {"drawn": 2})) == told
    assert refused(done, FrozenRegion(-1, -1, {})) == told.replace("2", "-1", 1)
    assert begins_after(drawn[0], 1, 3) == ShardSplit(parent="drawn", generation=1, batch=3)
    assert begins_after(plain[0], 0, 1).batch == -1, "it copies nothing"


def opened(spec: list[RegionSpec], **given: object) -> OpenStream:
    usual = {
        "pipeline": "live",
        "run": "r",
        "limits": StreamLimits(strategy=Strategy.REGION),
        "run_time_ms": 1,
        "seed": 1,
        "application": "a",
        "owner": "o",
    }
    return OpenStream(**{**usual, "spec": StreamSpec(regions=tuple(spec)), **given})  # type: ignore[arg-type]


def began(state: StreamState | None, stimulus: OpenStream) -> tuple[StreamState, list[object]]:
    events = decide(state, stimulus, 10)
    after = fold(state, events)
    assert after is not None
    return after, list(events)


def ended(state: StreamState) -> StreamState:
    for name in state.spec.names:
        report = QueryReport(region=name, number=state.regions[name].number, end=QueryEnd.FINISHED, batch=5)
        after = fold(state, decide(state, report, 20))
        assert after is not None
        state = after
    return state


def test_shards_begin_before_their_queries_and_a_parent_whose_name_is_gone_is_left_behind() -> None:
    since = (SourcePosition(stream="files", since_ms=7), SourcePosition(stream="topic", offsets={"t": {"0": 3}}))
    state, _ = began(None, opened(shards(1)))
    state, _ = began(
        ended(state), opened(shards(1), new_checkpoints={"plain": SourceStart.TIMESTAMP}, positions={"plain": since})
    )
    at = ShardSplit(parent="plain", generation=1, batch=5)
    state, events = began(ended(state), opened(shards(2), splits={"plain.0": at, "plain.1": at}))
    assert [type(one) for one in events[1:]] == [ShardBegun, ShardBegun, QueryStarted, QueryStarted]
    held = state.regions["plain.1"]
    assert (held.generation, held.split, held.positions, held.number) == (0, at, since[:1], 1)
    assert set(state.unsplit) == {"plain.0", "plain.1"} and state.regions["plain"].is_split
    again = {f"plain.{one}": ShardSplit(parent=f"plain.{one % 2}", generation=0, batch=5) for one in range(4)}
    state, _ = began(ended(state), opened(shards(4, trigger=AVAILABLE_NOW), splits=again))
    assert [state.regions[f"plain.{one}"].generation for one in range(4)] == [1, 1, 0, 0]
    assert set(state.unsplit) == set(again), "two of them have the names of their parents"
    state, events = began(ended(state), opened(shards(4), new_checkpoints={"plain.2": SourceStart.EARLIEST}))
    assert any(isinstance(one, CheckpointReplaced) for one in events) and state.regions["plain.2"].split is None


def test_a_shard_that_reads_a_result_and_ends_waits_for_the_one_that_makes_it() -> None:
    def both(count: int) -> list[RegionSpec]:
        reader = shards(count, reads=True, trigger=AVAILABLE_NOW)
        return [*shards(count, name="drawn", trigger=AVAILABLE_NOW), *reader]

    state, _ = began(None, opened(both(2)))
    state = ended(state)
    splits = {
        f"{name}.{one}": ShardSplit(parent=f"{name}.{one % 2}", generation=0, batch=batch)
        for name, batch in (("drawn", 5), ("plain", -1))
        for one in range(4)
    }
    state, events = began(state, opened(both(4), splits=splits))
    assert {one.region for one in events if isinstance(one, QueryStarted)} == {f"drawn.{one}" for one in range(4)}
    assert state.regions["plain.3"].due_ms == 10
