"""Pictures: every step once, nothing per partition, nothing from the network, and small for large runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from rekindle.journal.history import read
from rekindle.model.partitions import Partitions
from rekindle.observe.picture import (
    INSIDE_HEIGHT,
    NODE_HEIGHT,
    NODE_WIDTH,
    Link,
    Picture,
    PictureLayout,
    PictureNode,
    Share,
)
from rekindle.observe.picture_page import graph_page, page
from rekindle.observe.picture_svg import bar, legend, svg, text
from rekindle.observe.picture_timeline import BARS_MAX, bars_of, timeline
from rekindle.observe.show import AttemptView, RunView, view_of
from rekindle.runtime.opening import codec
from rekindle.storage.memory import MemoryStore
from support.instant import Instant
from support.location import AT_ONCE, always, make_run

FIVE = Partitions.first(5)


def view_after(drawing: str, engine: Instant | None = None) -> RunView:
    store = MemoryStore()
    make_run(store, "run-1", drawing=drawing, engine=engine)
    return view_of(record.events for record in read(store, "daily/run-1", codec()).records)[0]


def picture(links: str) -> Picture:
    """`a-b b-c` as a picture."""
    pairs = [pair.split("-") for pair in links.split()]
    names = dict.fromkeys(name for pair in pairs for name in pair)
    nodes = tuple(PictureNode(name=name, note="1/1", shares=(Share("computed", 1),)) for name in names)
    return Picture(nodes, tuple(Link(one, other) for one, other in pairs))


def test_a_step_stands_behind_what_it_reads() -> None:
    drawn = picture("a-b b-c a-c c-d")
    assert drawn.layers() == {"a": 0, "b": 1, "c": 2, "d": 3}
    placed = PictureLayout(drawn)
    assert [placed.at(name)[0] for name in "abcd"] == sorted(placed.at(name)[0] for name in "abcd")


def test_nodes_do_not_overlap_and_lie_inside() -> None:
    drawn = picture("a-c b-c a-d b-d c-e d-e a-e b-f f-e")
    placed = PictureLayout(drawn)
    corners = [placed.at(node.name) for node in drawn.nodes]
    for at, (x, y) in enumerate(corners):
        assert 0 <= x <= placed.width - NODE_WIDTH and 0 <= y <= placed.height - NODE_HEIGHT
        for other_x, other_y in corners[:at]:
            assert x != other_x or abs(y - other_y) >= NODE_HEIGHT


def test_a_box_is_as_high_as_its_region() -> None:
    few = PictureNode(name="few", note="1/1", inside=("x", "y"))
    many = PictureNode(name="many", note="1/1", inside=tuple(f"s{number}" for number in range(20)))
    assert few.height == NODE_HEIGHT + 2 * INSIDE_HEIGHT
    assert many.inside_lines == ["s0", "s1", "s2", "s3", "s4", "… and 15 more"]
    drawn = Picture((few, many, PictureNode(name="end", note="1/1")), (Link("few", "end"), Link("many", "end")))
    placed = PictureLayout(drawn)
    tops = {name: placed.at(name)[1] for name in ("few", "many")}
    assert tops["many"] >= tops["few"] + few.height, "no box lies over another"
    assert tops["many"] + many.height <= placed.height
    assert [line for line in svg(drawn).split("<text") if ">x</text>" in line or "15 more" in line]


def test_a_long_link_passes_the_columns_between_in_a_lane_of_its_own() -> None:
    drawn = picture("a-b b-c a-c")
    points = PictureLayout(drawn).path(Link("a", "c"))
    assert len(points) == 4
    assert points[1][1] == points[2][1]
    _, y = PictureLayout(drawn).at("b")
    assert not y <= points[1][1] <= y + NODE_HEIGHT


@pytest.mark.parametrize(
    ("shares", "marks"),
    [
        ({}, ""),
        ({"computed": 3}, "####"),
        ({"computed": 1, "missing": 1}, "##.."),
        ({"computed": 999_999, "failed": 1}, "###!"),
        ({"reused": 1, "computed": 1, "running": 1, "failed": 1}, "=#>!"),
    ],
)
def test_a_bar_shows_all_that_is_there(shares: dict[str, int], marks: str) -> None:
    assert bar([Share(state, count) for state, count in shares.items()], 4) == marks


def test_the_text_of_a_graph() -> None:
    lines = list(text(view_after("a[2] =blocking all=> b[3]", Instant(dies_after=1)).picture()))
    assert lines[0].startswith("a [####################] 2/2 blocking")
    assert lines[1].startswith("  b [>>>>>>>>>>>>>>>>>>>>] 0/3 blocking") and lines[1].endswith("<- a (all)")
    assert legend([Share("failed", 1)]) == "! failed"


def elements(markup: str) -> Iterator[ElementTree.Element]:
    return ElementTree.fromstring(markup).iter()


def test_an_svg_is_whole_and_names_are_escaped() -> None:
    hostile = PictureNode(name="<script>&", note="x", shares=(Share("missing", 1),), title='title "<b>"')
    drawn = svg(Picture((hostile,), ()))
    assert "<script>" not in drawn
    assert any(one.text == "<script>&" for one in elements(drawn))


def test_a_page_of_a_failed_run_says_what_and_why() -> None:
    view = view_after("orders[4] =blocking=> clean[4] =blocking all=> daily[3]", Instant(breaks=always("clean", 2)))
    made = page(view)
    assert "gave up: poison: clean[2] failed 3 times" in made
    assert "ValueError: no such customer" in made
    assert "2: failed" in made and "started more than once" in made
    assert made.count('<g class="rk-node"') == 3
    assert "<svg" in graph_page(view) and "Timeline" not in graph_page(view)


def test_nothing_is_loaded_from_anywhere() -> None:
    made = page(view_after("a[2] =blocking=> b[2]"))
    assert set(re.findall(r"https?://[^\s\"'<]*", made)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script|<link|<img|@import|url\(", made)


def test_a_hundred_steps_of_a_hundred_thousand_partitions_stay_small() -> None:
    arrows = [" =blocking=> ", " =blocking all=> "]
    chain = "s0[100000]" + "".join(f"{arrows[at % 2]}s{at}[100000]" for at in range(1, 60))
    sides = "\n".join(f"s{at} =blocking=> t{at}[100000]" for at in range(40))
    view = view_after(f"{chain}\n{sides}", Instant(breaks=always("s7", 99_999)))
    assert len(view.steps) == 100
    made = page(view)
    assert made.count('<g class="rk-node"') == 100
    assert len(made) < 300_000
    assert made.count("<rect") < 1_000


def test_many_attempts_become_few_bars() -> None:
    attempts = [
        AttemptView(
            name=f"a{at}",
            step="a",
            generation=0,
            epoch=1,
            asked=5,
            partitions=FIVE,
            because=(),
            opened_ms=at * 10,
            committed=5,
            adopted=0,
            closed_ms=at * 10 + 5,
            outcome="failed" if at == 70 else "succeeded",
        )
        for at in range(1000)
    ]
    bars = bars_of(attempts, 10_000)
    assert len(bars) <= BARS_MAX
    assert [bar.outcome for bar in bars].count("failed") == 1
    assert bars[0].title.startswith("25 attempts: succeeded, 125 of 125 partitions committed")
    assert (bars[0].begin_ms, bars[-1].end_ms) == (0, 9995)
    open_one = AttemptView(
        name="a1", step="a", generation=0, epoch=1, asked=5, partitions=FIVE, because=(), opened_ms=10
    )
    assert bars_of([open_one], 99)[0].end_ms == 99
    assert bars_of([], 99) == []


def test_a_timeline_has_a_row_per_step_and_a_mark_per_failure() -> None:
    view = view_after("orders[4] =blocking=> clean[4]", Instant(breaks=always("clean", 2)))
    drawn = timeline(view)
    tags = [one.tag.rpartition("}")[2] for one in elements(drawn)]
    assert tags.count("circle") == 3
    assert tags.count("line") == 1
    assert tags.count("rect") == len(view.attempts) == 4
    assert AT_ONCE.poison_tries_max == 3
