"""Drawings: what is drawn is what is built, and what is built can be drawn."""

from __future__ import annotations

import pytest

from rekindle.errors import Refused
from rekindle.model.edges import ALL, BROADCAST, IDENTITY, INTERVAL, Offset
from rekindle.model.graph import Edge, Graph, Step
from rekindle.model.kinds import Determinism, KeepUntil, ResultKind
from rekindle.testing.drawing import draw, drawn


def test_everything_a_drawing_can_say() -> None:
    graph = draw(
        """
        a[4] ~> b[4]! =blocking all.=> c[2]?:memory@forever@unordered
        a ~interval~> d[2]*@constants =caching +1!=> e[3]@whole@run_end
        f =memory broadcast=> e
        """
    )
    d = Determinism
    assert graph == Graph.of(
        [
            Step(name="a", partitions=4, kind=ResultKind.PIPELINED, determinism=d.DETERMINATE),
            Step(name="b", partitions=4, kind=ResultKind.BLOCKING, determinism=d.INDETERMINATE),
            Step(
                name="c",
                partitions=2,
                kind=ResultKind.MEMORY,
                determinism=d.UNKNOWN,
                keep=KeepUntil.FOREVER,
                is_order_sensitive=False,
            ),
            Step(name="d", partitions=2, kind=ResultKind.CACHING, determinism=d.DECLARED, has_query_constants=True),
            Step(
                name="e",
                partitions=3,
                kind=ResultKind.BLOCKING,
                determinism=d.DETERMINATE,
                keep=KeepUntil.RUN_END,
                restarts_whole=True,
            ),
            Step(name="f", partitions=1, kind=ResultKind.MEMORY, determinism=d.DETERMINATE),
        ],
        [
            Edge("a", "b", IDENTITY),
            Edge("b", "c", ALL, d.DETERMINATE),
            Edge("a", "d", INTERVAL),
            Edge("d", "e", Offset(1), d.INDETERMINATE),
            Edge("f", "e", BROADCAST),
        ],
    )
    assert draw(drawn(graph)) == graph


def test_a_step_alone() -> None:
    assert drawn(draw("a[3]")) == "a[3]:blocking"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("a -> b", "an arrow is expected at '-> b'", id="an arrow that is none"),
        pytest.param("a ~> ~> b", "a step is expected at '~> b'", id="a step left out"),
        pytest.param("a ~> b\na =memory=> c", "a is both pipelined and memory", id="two kinds for one step"),
    ],
)
def test_refused(text: str, says: str) -> None:
    with pytest.raises(Refused) as refused:
        draw(text)
    assert says in refused.value.message
