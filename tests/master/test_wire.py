"""Events and snapshots as bytes."""

from __future__ import annotations

import msgspec
import pytest

from master.driving import Driven
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.state.graph_index import GraphIndex
from rekindle.master.state.run_state import RunState
from rekindle.master.state.wire import dec_hook, enc_hook
from rekindle.model.partitions import Partitions
from rekindle.testing.drawing import draw

EVERY_MAPPING = """
a[4] =blocking interval=> b[2]
a =blocking all?=> c[3]
a =blocking broadcast=> d[4]
a =blocking +1=> e[5]
a =blocking=> f[4]@whole@constants@unordered@forever
"""


def test_a_snapshot_of_the_state_is_read_back_equal() -> None:
    run = Driven("a[4] =blocking all=> b[3] ~> c[3]", sinks=("c",), fingerprints={"a": {"code": "1"}})
    run.commit("a", "0-2", digests=b"123")
    run.fail("a", "3")
    run.finish("a")
    run.lose("a", "1")
    packed = msgspec.msgpack.encode(run.state, enc_hook=enc_hook)
    assert msgspec.msgpack.decode(packed, type=RunState, dec_hook=dec_hook) == run.state


def test_a_graph_stands_in_the_journal_with_every_mapping() -> None:
    graph = draw(EVERY_MAPPING)
    spec = GraphSpec.of(graph)
    assert spec.graph() == graph
    assert GraphIndex(spec) == GraphIndex(GraphSpec.of(graph))
    assert hash(GraphIndex(spec)) == hash(GraphIndex(spec))
    assert GraphIndex(spec) != spec


def test_a_million_partitions_are_one_small_event() -> None:
    packed = msgspec.json.encode(Partitions.first(1_000_000), enc_hook=enc_hook)
    assert len(packed) < 1_000


@pytest.mark.parametrize("value", [object(), {1: object()}])
def test_what_has_no_form_is_refused(value: object) -> None:
    with pytest.raises(NotImplementedError, match=r"^object has no form"):
        msgspec.json.encode(value, enc_hook=enc_hook)
    with pytest.raises(NotImplementedError, match="no form"):
        dec_hook(type(value), b"")


def test_kept_steps_know_their_producers() -> None:
    layout = GraphIndex(GraphSpec.of(draw("a[2] =blocking=> b[2] ~> c[2]\na =blocking=> d[2]")))
    assert layout.producers == {"a": (), "c": ("a",), "d": ("a",)}
    assert layout.is_narrow("c")
