"""Rule 4: the proofs by which an older partition stands in a new generation; and rule 5: readers of a new version."""

from __future__ import annotations

import msgspec
import pytest

from given import finished, parts, sets
from rekindle.failover.carry import Carried, Checksums, below, carry_over
from rekindle.failover.restart import restart_set
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.model.edges import ALL, IDENTITY
from rekindle.model.graph import Edge, Graph, Step
from rekindle.model.ids import ExchangeId
from rekindle.model.kinds import Determinism, FailureDomain, Proof
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.testing.drawing import draw

AGAIN, SAME, OTHER = Checksums.UNKNOWN, Checksums.EQUAL, Checksums.DIFFERENT
OLDER = Partitions.span(1, 4)

# drawing, the step, exchanges made again, the proof
ROWS = [
    pytest.param("a[4]! =blocking=> b[4]!", "b", {}, Proof.NARROW, id="(a) narrow: any mix is a possible outcome"),
    pytest.param("a[4]! ~> b[4]!", "b", {}, Proof.NARROW, id="(a) narrow, with an indeterminate step fused in"),
    pytest.param("a[4]! =blocking all=> b[4]!", "b", {}, Proof.UNTOUCHED, id="an exchange, but nobody made it again"),
    pytest.param(
        "a[4]! =blocking all=> b[4]",
        "b",
        {"a=>b": AGAIN},
        Proof.DETERMINATE,
        id="(b) determinate from committed inputs up",
    ),
    pytest.param(
        "a[4] ~all=> b[4]".replace("~all=>", "~all~>"),
        "b",
        {"a=>b": OTHER},
        Proof.DETERMINATE,
        id="(b) is a proof, checksums are not asked",
    ),
    pytest.param(
        "a[4]! ~all~> b[4]", "b", {"a=>b": AGAIN}, None, id="an indeterminate step below the exchange: starts over"
    ),
    pytest.param(
        "a[4]? ~all~> b[4]@unordered",
        "b",
        {"a=>b": SAME},
        Proof.CHECKSUMS,
        id="(c) equal checksums, order does not matter",
    ),
    pytest.param("a[4]? ~all~> b[4]", "b", {"a=>b": SAME}, None, id="equal checksums, but the reader minds the order"),
    pytest.param("a[4]? ~all~> b[4]@unordered", "b", {"a=>b": OTHER}, None, id="different checksums"),
    pytest.param("a[4]? ~all~> b[4]@unordered", "b", {"a=>b": AGAIN}, None, id="no checksum is no proof"),
    pytest.param(
        "a[4]? ~all~> b[4]@unordered ~> c[4]", "c", {"a=>b": SAME}, None, id="a step further up minds the order"
    ),
    pytest.param(
        "a[4]? ~all~> b[4]@unordered ~> c[4]@unordered =blocking=> d[4]",
        "c",
        {"a=>b": SAME},
        Proof.CHECKSUMS,
        id="steps of other groups may mind what they like",
    ),
    pytest.param(
        "a[4]* ~all~> b[4]", "b", {"a=>b": AGAIN}, Proof.DECLARED, id="(d) on the user's word, never as determinate"
    ),
    pytest.param(
        "a[4]* ~all~> b[4]@unordered", "b", {"a=>b": SAME}, Proof.CHECKSUMS, id="a checksum is better than a word"
    ),
    pytest.param(
        "a[4] =blocking=> b[4]?@constants@unordered", "b", {"=>b": SAME}, None, id="query constants have no checksum"
    ),
    pytest.param(
        "a[4] =blocking=> b[4]@constants", "b", {"=>b": AGAIN}, Proof.DETERMINATE, id="constants of a determinate step"
    ),
    pytest.param(
        "s[4] =blocking all?=> a[4] ~> m[4] ~all=> b[4]".replace("~all=>", "~all~>"),
        "b",
        {"m=>b": AGAIN},
        None,
        id="an unknown exchange deeper down",
    ),
]


@pytest.mark.parametrize(("drawing", "step", "again", "proof"), ROWS)
def test_proofs(drawing: str, step: str, again: dict[str, Checksums], proof: Proof | None) -> None:
    recomputed = {x: again[name] for name in again for x in parts(f"{name}:0").exchanges}
    carried = carry_over(draw(drawing), step, OLDER, EMPTY, recomputed)
    assert carried == Carried(OLDER if proof else EMPTY, proof)


def test_what_read_a_changed_input_is_never_carried() -> None:
    graph = draw("a[4]! =blocking=> b[4]!")
    assert carry_over(graph, "b", OLDER, Partitions((2,)), {}).partitions == Partitions((1, 3))


def test_the_work_below_an_exchange_ends_at_committed_inputs() -> None:
    graph = draw("s[2]! =blocking all.=> a[2]* ~> b[2] ~all?~> c[2]")
    assert below(graph, ExchangeId("c", "b")) == {
        Determinism.UNKNOWN,
        Determinism.DETERMINATE,
        Determinism.DECLARED,
    }


@pytest.mark.parametrize("order", ["k =blocking=> b\np! ~> b", "p! ~> b\nk =blocking=> b"])
def test_every_fused_input_below_an_exchange_counts(order: str) -> None:
    graph = draw(f"{order}\nb ~all.~> c")
    assert below(graph, ExchangeId("c", "b")) == {Determinism.DETERMINATE, Determinism.INDETERMINATE}


def test_exchanges_elsewhere_do_not_count() -> None:
    graph = draw("a[2] ~all.~> b[2]\nx[2]! =blocking all!=> y[2]")
    assert below(graph, ExchangeId("b", "a")) == {Determinism.DETERMINATE}


@pytest.mark.parametrize("below_it", ["a[3]", "a[3]!", "a[3]?", "a[3]*"])
@pytest.mark.parametrize(
    "edge", ["~all~>", "~all.~>", "~all?~>", "~all*~>", "=blocking all=>", "=blocking all!=>", "~>"]
)
@pytest.mark.parametrize("reader", ["b[3]", "b[3]?", "b[3]*", "b[3]!@constants"])
def test_the_restart_set_carries_exactly_what_a_proof_carries(below_it: str, edge: str, reader: str) -> None:
    """After the death of the application, with one partition to go."""
    graph = draw(f"{below_it} {edge} {reader}")
    tracker = finished(graph, "b:0").after(graph, FailureDomain.APPLICATION)
    again = restart_set(graph, tracker, {}).partitions("b")
    recomputed = dict.fromkeys(graph.groups["b"].exchanges, Checksums.UNKNOWN)
    carried = carry_over(graph, "b", Partitions((1, 2)), EMPTY, recomputed)
    assert carried.partitions == Partitions((1, 2)) - again


def test_consumers_are_skipped_because_the_recomputed_digest_is_equal() -> None:
    """The lost input runs again first; who read it follows only where its digest says so."""
    graph = draw("a[3]? =blocking=> b[3]? =blocking=> c[3]")
    follow = restart_set(graph, finished(graph), {}, changed=parts("a:1-2"))
    assert {step: restart.partitions for step, restart in follow.steps.items()} == sets("b:1-2 c:1-2")


def test_silent_corruption_found_by_digest_is_a_loss() -> None:
    """A stored partition whose digest is not the journaled one is not available; its readers saw the right one."""
    graph = draw("a[2] =blocking=> b[2] =blocking=> c[2]")
    tracker = finished(graph, "c:1")
    answer = restart_set(graph, tracker, {}, parts("b:1"))
    assert {step: restart.partitions for step, restart in answer.steps.items()} == sets("b:1")


def of_one_step(below: Determinism | None, *, constants: bool = False) -> Graph:
    """A step of opaque Python with what it reads below an exchange: of a kept step, or its own part."""
    steps = [
        Step(name="a", partitions=4),
        Step(name="b", partitions=4, determinism=Determinism.UNKNOWN, below=below, has_query_constants=constants),
    ]
    return Graph.of(steps, [Edge("a", "b", IDENTITY if constants else ALL)])


@pytest.mark.parametrize(
    ("below", "constants", "proof"),
    [
        pytest.param(Determinism.DETERMINATE, False, Proof.DETERMINATE, id="(b) for what is below the exchange"),
        pytest.param(Determinism.DETERMINATE, True, Proof.DETERMINATE, id="(b) for a part of its own"),
        pytest.param(None, False, None, id="without it the step's own level counts"),
        pytest.param(None, True, None, id="also of a part of its own"),
    ],
)
def test_what_is_above_an_exchange_needs_no_proof(
    below: Determinism | None, constants: bool, proof: Proof | None
) -> None:
    graph = of_one_step(below, constants=constants)
    again = dict.fromkeys(graph.groups["b"].exchanges, AGAIN)
    assert again and carry_over(graph, "b", OLDER, EMPTY, again).proof is proof


def test_what_is_known_of_the_work_below_goes_to_the_journal() -> None:
    graph = of_one_step(Determinism.DETERMINATE)
    assert GraphSpec.of(graph).graph() == graph
    assert b"below" not in msgspec.json.encode(GraphSpec.of(of_one_step(None))), "an older release reads it"
