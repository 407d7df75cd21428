"""Streams in pictures: regions with their steps, positions, deliveries, and what restarts."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from rekindle.errors import NotFound
from rekindle.failover.restart import Strategy
from rekindle.master.facts.run_spec import DeclaredStep
from rekindle.model.failures import Cause, FailureKind
from rekindle.observe.picture_svg import text
from rekindle.observe.stream_graph import StreamGraph
from rekindle.observe.stream_page import stream_page
from rekindle.observe.stream_picture import shortened, stream_picture
from rekindle.observe.stream_view import CommittedBatch, StreamView, region_view
from rekindle.streams.source_records import QuarantinedRecord, SourceRecord
from rekindle.streams.stream_spec import Delivery, RegionSpec, StreamSpec
from rekindle.streams.stream_state import RegionState

GOLD = RegionSpec(
    name="gold",
    steps=("orders", "clean", "gold"),
    sources=("orders",),
    target="files /shop/lake/of/data/gold",
    delivery=Delivery.EXACTLY_ONCE,
    trigger="10 seconds",
    output_mode="append",
    stateful=("orders", "clean", "gold"),
    shared=("clean",),
)
LATE = replace(
    GOLD,
    name="late",
    steps=("orders", "returns", "clean", "late"),
    sources=("orders", "returns"),
    target="kafka topic late",
    delivery=Delivery.AT_LEAST_ONCE,
    why="Kafka keeps what it was sent",
    trigger="as soon as there is input, or later",
    stateful=(),
)
SPEC = StreamSpec(
    regions=(GOLD, LATE),
    declared=(
        DeclaredStep(name="orders", role="source", reads=(), target=""),
        DeclaredStep(name="returns", role="source", reads=(), target=""),
        DeclaredStep(name="clean", role="step", reads=("orders",), target=""),
        DeclaredStep(name="gold", role="sink", reads=("clean",), target=GOLD.target),
        DeclaredStep(name="late", role="sink", reads=("clean", "returns"), target=LATE.target),
    ),
)
CAUSE = Cause(FailureKind.EXCEPTION, "ValueError: <12,50>", at="shop.py:20")
BAD = QuarantinedRecord(SourceRecord(source=0, place="in", partition=0, number=7), CAUSE, 3)
RAN = RegionState(number=2, restarts=1, started_ms=1_000, quarantined=(BAD,), cause=CAUSE, failed_ms=2_000)


def graph(strategy: Strategy = Strategy.REGION) -> StreamGraph:
    seen = region_view(RAN, GOLD, CommittedBatch(4, {"0": '{"in":{"0":8}}'}), state="running")
    return StreamGraph(pipeline="shop", spec=SPEC, strategy=strategy, regions=(seen, region_view(RegionState(), LATE)))


def test_a_region_is_a_box_with_its_steps_between_its_sources_and_its_target() -> None:
    drawn = graph()
    assert str(drawn).splitlines() == [
        "orders read by 2 regions",
        "returns read by 1 region",
        "  gold [>>>>>>>>>>>>>>>>>>>>] 10 seconds  <- orders",
        "    computes [shared] clean, [state] gold with it",
        "  late [....................] as soon as there is input…  <- orders, returns",
        "    computes [shared] clean, late with it",
        "    files …lake/of/data/gold exactly once  <- gold",
        "    kafka topic late at least once  <- late",
    ]
    assert next(text(stream_picture(drawn.regions[:1]))) == 'orders {"in":{"0":8}}'
    titles = [one.text or "" for one in ElementTree.fromstring(drawn.svg()).iter("{http://www.w3.org/2000/svg}title")]
    told = "\n".join(titles)
    assert "gold: running, last batch 4, 1 restart\ntrigger: 10 seconds\nkeeps state at gold, which depends" in told
    assert "computed in other regions too: clean\nhas read stream 0 up to" in told
    assert "goes on without 1 record\nlast failure: ValueError" in told
    assert "kafka topic late\nlate: at least once, Kafka keeps what it was sent" in told
    assert drawn.html().count("<svg") == 1 and drawn._repr_html_().startswith("<div")
    assert len(shortened("files /" + "long/" * 9)) == len("files …") + 17 and shortened("files /a") == "files /a"


def test_what_restarts_is_this_region_alone_or_all_with_full() -> None:
    alone = graph().what_if("late")
    assert alone.restarts == ("late",)
    assert [(one.shares[0].state, one.is_marked) for one in alone.picture().nodes if one.shares] == [
        ("reused", False),
        ("failed", True),
    ]
    assert str(alone).splitlines()[-2:] == ["If late fails (region), 1 of 2 regions restart:", "  late"]
    every = graph(Strategy.FULL).what_if("late")
    assert every.restarts == ("gold", "late")
    assert "graph of shop, if late fails" in every.html() and "2 of 2 regions restart" in every.html()
    with pytest.raises(NotFound, match="shop is a stream, and has no region lat"):
        graph().what_if("lat")


def test_mermaid_has_a_box_for_each_region() -> None:
    lines = graph().what_if("late").mermaid().splitlines()
    assert lines[:5] == [
        "flowchart LR",
        "  subgraph region_n2 [region gold, 10 seconds]",
        '    n1["[shared] clean"]',
        '    n2["[state] gold"]',
        "  end",
    ]
    assert '  n3["files /shop/lake/of/data/gold<br/>exactly once"]' in lines
    assert "  n0 --> n1" in lines and "  n2 --> n3" in lines and "  n4 --> n6" in lines
    assert [line for line in lines if "style" in line] == [
        f"  style {one} stroke:#e08a1e,stroke-width:3px" for one in ("n5", "n6")
    ]


def test_the_page_of_a_stream_has_its_regions_and_the_records_that_they_go_on_without() -> None:
    view = StreamView(
        pipeline="shop",
        run="r",
        number=1,
        parameters={"day": "1"},
        phase="running",
        life="driver alive",
        is_alone=False,
        strategy="region",
        started_ms=1,
        opened_ms=1,
        ended_ms=None,
        stop_why="",
        regions=graph().regions,
    )
    page = stream_page(view)
    assert "<h1>stream 1 of shop " in page and "day=1" in page and page.count("<svg") == 1
    assert "ValueError: &lt;12,50&gt;" in page and "<td>offset 7 in partition 0 of topic in</td>" in page
    assert "at least once: Kafka keeps what it was sent" in page
    gave_up = replace(graph().regions[1], state="gave up", why="poison")
    ended = replace(view, phase="interrupted", ended_ms=5, stop_why="SIGTERM", regions=(gave_up,))
    assert "was to stop: SIGTERM" in stream_page(ended) and "gave up (poison)" in stream_page(ended)
    assert "No record is in quarantine." in stream_page(ended)


def test_a_region_whose_result_others_read_leads_to_them() -> None:
    made = replace(GOLD, name="clean", steps=("orders", "clean"), target="its caching result", stateful=(), shared=())
    read = replace(GOLD, steps=("clean", "gold"), sources=("clean",), reads=("clean",), shared=())
    picture = stream_picture([region_view(RAN, made), region_view(RAN, read)])
    assert [one.name for one in picture.nodes] == ["orders", "clean", "gold", shortened(GOLD.target)]
    assert [(one.producer, one.consumer) for one in picture.links] == [
        ("orders", "clean"),
        ("clean", "gold"),
        ("gold", shortened(GOLD.target)),
    ]
