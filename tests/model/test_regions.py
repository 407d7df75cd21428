"""Scenario table A: what fails as one."""

from __future__ import annotations

import pytest

from rekindle.model.ids import Vertex
from rekindle.model.partitions import Partitions
from rekindle.model.regions import region_of, regions
from rekindle.testing.drawing import draw

ROWS = [
    pytest.param("a[2]\nb", "a0 | a1 | b0", id="isolated vertices: one region each"),
    pytest.param("a[2] ~> b[2] ~> c[2]", "a0 b0 c0 | a1 b1 c1", id="parallel pipelined chains: one region per chain"),
    pytest.param(
        "a[2] ~all~> b[2] ~all~> c[2]", "a0 a1 b0 b1 c0 c1", id="two all-to-all pipelined exchanges: one region"
    ),
    pytest.param(
        "a[2] ~> c[2] ~> e[2]\nb[2] ~all~> c\nd[2] ~> e",
        "a0 a1 b0 b1 c0 c1 d0 d1 e0 e1",
        id="cascade of pipelined joins: one region",
    ),
    pytest.param("a ~> b\na ~> c\na ~> d", "a0 b0 c0 d0", id="fan-out from one source: one region"),
    pytest.param(
        "a[2] ~all~> b[2] =blocking=> c[2]",
        "a0 a1 b0 b1 | c0 | c1",
        id="pipelined all-to-all then blocking pointwise",
    ),
    pytest.param(
        "a[2] ~all~> b[2] =blocking all=> c[2]",
        "a0 a1 b0 b1 | c0 | c1",
        id="pipelined all-to-all then blocking all-to-all",
    ),
    pytest.param(
        "v1 ~> v5 =blocking=> v7\nv2 ~> v5\nv3 ~> v6 =blocking=> v7\nv4 ~> v6",
        "v10 v20 v50 | v30 v40 v60 | v70",
        id="joins with blocking tops: {1,2,5},{3,4,6},{7}",
    ),
    pytest.param(
        "a ~> b ~> d\na ~> c =blocking=> d",
        "a0 b0 c0 d0",
        id="diamond with one blocking edge: joined through the pipelined side",
    ),
    pytest.param(
        "a[2] ~> d[2] =blocking=> x[2] =blocking=> e[2]\na ~> e",
        "a0 d0 e0 x0 | a1 d1 e1 x1",
        id="regions that depend on each other form a cycle: merged",
    ),
    pytest.param(
        "a[2] ~+0~> u[3] =caching=> v[3]\nb ~+2~> u",
        "a0 u0 | a1 u1 | b0 u2 | v0 | v1 | v2",
        id="a union joins each side to its own part",
    ),
    pytest.param(
        "a[4] ~interval~> b[2] =memory=> c[2]", "a0 a1 b0 | a2 a3 b1 | c0 | c1", id="a coalesce joins its interval"
    ),
    pytest.param("a[2] =caching=> b[2] =memory=> c[2]", "a0 | a1 | b0 | b1 | c0 | c1", id="kept kinds never join"),
]


@pytest.mark.parametrize(("drawing", "expected"), ROWS)
def test_regions(drawing: str, expected: str) -> None:
    found = [
        " ".join(sorted(f"{step}{at}" for step, partitions in region.items() for at in partitions))
        for region in regions(draw(drawing))
    ]
    assert sorted(found) == sorted(expected.split(" | "))


def test_a_region_of_a_million_is_found_without_listing_it() -> None:
    graph = draw("a[1000000] ~> b[1000000] ~all~> c[1000000] =blocking=> d[1000000]")
    assert region_of(graph, Vertex("d", 7)) == {"d": Partitions((7,))}
    assert sum(map(len, region_of(graph, Vertex("a", 7)).values())) == 3_000_000


def test_regions_within_some_steps() -> None:
    graph = draw("a[2] ~> b[2] =blocking=> c[2]")
    assert [set(region) for region in regions(graph, within=["c"])] == [{"c"}, {"c"}]
