"""What the plan says that a result between regions costs, as the kind that it is and as others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rekindle.observe.edge_costs import EdgeCost, took_text
from rekindle.observe.stream_told import StreamPlan
from rekindle.results.checkpoint_log import batch_ms
from rekindle.storage.local_disk import LocalDisk
from rekindle.streams.stream_spec import RegionSpec, StreamSpec
from streams.specs import region_spec

FILES, MEMORY = "as files 2 MB written and 6 MB read", "in memory 2 MB of executors (20 MB hold 10 batches)"
TOPIC = "in a topic 2 MB sent and 6 MB read"
FUSED = "fused at most 1.5 s of computing in each of 3 regions"


@pytest.mark.parametrize(
    ("region", "kinds"),
    [
        pytest.param(region_spec("a", result="caching", columns={"id": "int"}), (FILES, MEMORY, FUSED), id="any step"),
        pytest.param(
            region_spec("a", result="caching", columns={"value": "string"}), (FILES, MEMORY, TOPIC, FUSED), id="records"
        ),
        pytest.param(
            region_spec(
                "a", result="caching", columns={"id": "int"}, unreplayable="it keeps state", doubts=("rand()",)
            ),
            (FILES,),
            id="neither made again alone nor proved",
        ),
    ],
)
def test_only_kinds_that_the_step_can_have_are_told(region: RegionSpec, kinds: tuple[str, ...]) -> None:
    cost = EdgeCost(region=region, readers=3, bytes=2_000_000, batch_ms=1_500, memory_bytes=20_000_000)
    assert list(cost.lines()) == [
        f"each batch costs: {'; '.join(kinds)}",
        "a reader that fails reads 2 MB again for each batch; fused it would compute it again, at most 1.5 s",
    ]


def test_tenths_are_told_while_they_are_much() -> None:
    assert [took_text(one) for one in (40, 9_940, 30_000)] == ["0.0 s", "9.9 s", "30 s"]


def test_nothing_is_told_that_was_not_measured() -> None:
    region = region_spec("a", result="memory", columns={"id": "int"})
    assert list(EdgeCost(region=region, readers=1).lines()) == []
    told = "\n".join(EdgeCost(region=region, readers=1, bytes=0, memory_bytes=5, batch_ms=2_000).lines())
    assert "hold" not in told and "in each of" not in told


def test_the_time_of_a_batch_is_that_between_its_plan_and_its_commit(tmp_path: Path) -> None:
    store = LocalDisk(str(tmp_path))
    assert batch_ms(store, "checkpoints/a") is None
    for batch in range(20):
        for kind, at in (("offsets", 1_000 + batch * 10), ("commits", 1_002 + batch * 11)):
            if (batch, kind) != (19, "commits"):
                path = tmp_path / "checkpoints" / "a" / kind / str(batch)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
                os.utime(path, (at, at))
    assert batch_ms(store, "checkpoints/a") == 16_000, "the median of batches 9 to 18"


def test_a_step_that_several_regions_compute_has_the_time_of_their_batches() -> None:
    spec = StreamSpec(regions=(region_spec("a", shared=("clean",)), region_spec("b", shared=("clean",))))
    told = list(StreamPlan(pipeline="shop", run="r", spec=spec, batch_ms={"a": 2_000}).lines())
    assert "    no state; clean is computed in several regions, where a batch took 2.0 s lately" in told
    assert "    no state; clean is computed in several regions" in told
