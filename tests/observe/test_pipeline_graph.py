"""The graph of a pipeline before anything runs, and what would run again after a failure."""

from __future__ import annotations

import pytest

from rekindle.errors import NotFound, Refused
from rekindle.failover.restart import Strategy
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import DeclaredStep, RunSpec
from rekindle.model.partitions import Partitions
from rekindle.observe.pipeline_graph import PipelineGraph
from rekindle.testing.drawing import draw

SHOP = """
    enriched[8]@run_end =blocking=> scored[8]? =caching all=> totals[4]
    scored =caching=> detail[8]
"""
STEPS = (
    DeclaredStep(name="orders", role="source"),
    DeclaredStep(name="valid", role="step", reads=("orders",)),
    DeclaredStep(name="enriched", role="step", reads=("valid",)),
    DeclaredStep(name="scored", role="step", reads=("enriched",)),
    DeclaredStep(name="big", role="step", reads=("scored",)),
    DeclaredStep(name="totals", role="sink", reads=("big",), target="files gold/totals"),
    DeclaredStep(name="detail", role="step", reads=("scored",)),
    DeclaredStep(name="out", role="sink", reads=("detail",), target="files gold/detail"),
    DeclaredStep(name="unused", role="source"),
)
REGIONS: dict[str, tuple[str, ...]] = {
    "enriched": ("orders", "valid", "enriched"),
    "scored": ("scored",),
    "totals": ("big", "totals"),
    "detail": ("detail",),
}


def shop(strategy: Strategy = Strategy.REGION, sinks: tuple[str, ...] = ("totals", "detail")) -> PipelineGraph:
    doubts: dict[str, tuple[str, ...]] = {"scored": ("PythonUDF",), "totals": ("none",)}
    spec = RunSpec(graph=GraphSpec.of(draw(SHOP)), declared=STEPS, regions=REGIONS, sinks=sinks, doubts=doubts)
    return PipelineGraph(pipeline="shop", spec=spec, strategy=strategy)


def again(graph: PipelineGraph) -> dict[str, str]:
    assert graph.restarts is not None
    return {name: str(step.partitions) for name, step in graph.restarts.steps.items()}


def test_every_declared_step_is_drawn() -> None:
    assert str(shop()).splitlines() == [
        "orders source",
        "  enriched [....................] 8 blocking, determinate  <- orders",
        "    computes valid with it",
        "    scored [....................] 8 caching, unknown  <- enriched",
        "      totals [....................] 4 blocking, determinate  <- scored (all)",
        "        computes big with it",
        "      detail [....................] 8 blocking, determinate  <- scored",
        "        out publishes detail  <- detail",
        "unused source",
    ]


@pytest.mark.parametrize(
    ("failure", "strategy", "expected"),
    [
        ("enriched[3]", Strategy.REGION, {"enriched": "3"}),
        ("enriched[3]", Strategy.FULL, {"enriched": "0-7"}),
        ("scored[3]", Strategy.FULL, {"enriched": "0-7", "scored": "0-7"}),
        ("totals[1]", Strategy.INDIVIDUAL, {"totals": "1"}),
        ("totals", Strategy.REGION, {"totals": "0-3"}),
        ("executor", Strategy.REGION, {"scored": "0-7", "totals": "0-3", "detail": "0-7"}),
        ("driver", Strategy.REGION, {"scored": "0-7", "totals": "0-3", "detail": "0-7"}),
        ("storage", Strategy.REGION, {"totals": "0-3", "detail": "0-7"}),
    ],
)
def test_what_would_run_again(failure: str, strategy: Strategy, expected: dict[str, str]) -> None:
    assert again(shop(strategy).what_if(failure)) == expected


def test_the_answer_is_told_with_its_reasons() -> None:
    graph = shop().what_if("scored[3]")
    lines = str(graph).splitlines()
    assert "    scored [!!==================] 8 caching, unknown *  <- enriched" in lines
    assert lines[-3:] == [
        "! fails   # runs again   = stays   . has not started",
        "If scored[3] fails when what it reads is computed and what reads it is not (region), 1 of 28 vertices run:",
        "  scored 3: failed",
    ]
    assert "<title>scored: 8 caching, unknown (PythonUDF)\n3: failed</title>" in graph.svg()
    assert "If scored[3] fails" in graph.html() and "<svg" in graph._repr_html_()
    assert "graph of shop, if scored[3] fails" in graph.html() and "<pre>" not in shop().html()
    assert "If driver fails when the sinks run" in str(shop().what_if("driver"))


def test_mermaid() -> None:
    drawn = shop().what_if("scored[3]").mermaid().splitlines()
    assert drawn[:5] == [
        "flowchart LR",
        "  subgraph region_n2 [region of enriched]",
        '    n0["orders<br/>source, pipelined into enriched"]',
        '    n1["valid<br/>pipelined into enriched"]',
        '    n2["enriched<br/>8 blocking, determinate"]',
    ]
    assert "  n3 -. all .-> n4" in drawn and "  n4 --> n5" in drawn
    assert drawn[-1] == "  style n3 stroke:#e08a1e,stroke-width:3px"


@pytest.mark.parametrize(
    ("failure", "message", "hint"),
    [
        ("valid[0]", "valid is not a kept step", "it is pipelined into enriched: ask for a partition of that"),
        ("score[0]", "score is not a kept step", "ask for one of enriched, scored, totals, detail, executor, driver"),
        ("scored[x]", "scored[x] is not a kept step", "ask for one of"),
        ("scored[8]", "scored has partitions 0 to 7", "ask for scored[7]"),
    ],
)
def test_what_there_is_not(failure: str, message: str, hint: str) -> None:
    with pytest.raises(NotFound) as refused:
        shop().what_if(failure)
    assert refused.value.message == message and hint in str(refused.value)


def test_without_sinks_every_step_runs_when_a_driver_dies() -> None:
    assert set(again(shop(sinks=()).what_if("driver"))) == {"enriched", "scored", "totals", "detail"}


def test_a_strategy_that_would_be_wrong_is_refused() -> None:
    spec = RunSpec(graph=GraphSpec.of(draw("a[1] ~> b[1]")))
    graph = PipelineGraph(pipeline="p", spec=spec, strategy=Strategy.INDIVIDUAL)
    with pytest.raises(Refused, match="a -> b is pipelined"):
        graph.what_if("b[0]")


def test_a_source_that_is_kept_does_not_read_itself() -> None:
    """As a script keeps a frame, or a pipeline a source that cannot be pinned."""
    declared = (
        DeclaredStep(name="a", role="source"),
        DeclaredStep(name="b", role="source"),
        DeclaredStep(name="c", role="sink", reads=("a", "b")),
    )
    graph = GraphSpec.of(draw("a[2] =blocking=> c[2]"))
    regions = {"a": ("a",), "c": ("b", "c")}
    drawn = PipelineGraph(
        pipeline="p", spec=RunSpec(graph=graph, declared=declared, regions=regions), strategy=Strategy.REGION
    )
    assert [(one.producer, one.consumer) for one in drawn.picture().links] == [("b", "c"), ("a", "c")]
    assert drawn.svg().count('class="rk-link"') == 2 and "subgraph region_n2" in drawn.mermaid()


def test_a_kept_step_that_another_region_computes_once_more_stands_in_its_own() -> None:
    declared = tuple(DeclaredStep(name=name, role="step") for name in "ab")
    graph = GraphSpec.of(draw("a[2]\nb[2]"))
    spec = RunSpec(graph=graph, declared=declared, regions={"b": ("a", "b"), "a": ("a",)})
    assert "subgraph" not in PipelineGraph(pipeline="p", spec=spec, strategy=Strategy.REGION).mermaid()


def test_what_would_run_again_depends_on_what_had_begun() -> None:
    whole = {name: Partitions.first(8) for name in ("enriched", "scored", "detail")}
    asked = shop(Strategy.FULL).what_if("detail[1]")
    done = {**whole, "totals": Partitions.first(2), "detail": whole["detail"] - Partitions((1,))}
    found = asked.planned_at(done, {**whole, "totals": Partitions.first(2)})
    assert str(found.partitions("totals")) == "0-1", "a branch beside it"
    driver = shop().what_if("driver")
    assert not driver.planned_at(done, done).partitions("enriched")
    assert driver.planned_at(done, done).partitions("scored") == whole["scored"], "it was on executors"
