"""May partitions of an older generation stand in the new one? (Rule 4.)

Rules
- A step's generation changes when its inputs or an exchange inside its group had to be recomputed.
- What read something that changed is never carried (rule 5). Of the rest:
  (a) a narrow group is a function of committed inputs alone: any mix of attempts is a possible fault-free outcome;
  (b) every recomputed exchange is determinate by our own table, from the committed inputs up;
  (c) every recomputed exchange has the map-output checksums it had, and what reads it is insensitive to order;
  (d) as (b), but somewhere on the user's word.
- No proof: nothing is carried, the step starts over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from rekindle.model.graph import Graph, Group
from rekindle.model.ids import ExchangeId
from rekindle.model.kinds import Determinism, Proof
from rekindle.model.partitions import EMPTY, Partitions


class Checksums(Enum):
    """The map-output checksums of a recomputed exchange against those journaled when it was read."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Carried:
    """The partitions that stand, and by which proof. No proof, no partitions."""

    partitions: Partitions
    proof: Proof | None


def carry_over(
    graph: Graph,
    root: str,
    older: Partitions,
    touched: Partitions,
    recomputed: Mapping[ExchangeId, Checksums],
) -> Carried:
    """`older` were committed before; `touched` of them read an input that changed; `recomputed` are the exchanges
    of the group that the engine made again since."""
    group = graph.groups[root]
    rest = older - touched
    if group.is_narrow:
        return Carried(rest, Proof.NARROW)
    if not recomputed:
        return Carried(rest, Proof.UNTOUCHED)
    words = {level for exchange in recomputed for level in below(graph, exchange)}
    if words == {Determinism.DETERMINATE}:
        return Carried(rest, Proof.DETERMINATE)
    if _is_unchanged(graph, group, recomputed):
        return Carried(rest, Proof.CHECKSUMS)
    if all(level.is_repeatable for level in words):
        return Carried(rest, Proof.DECLARED)
    return Carried(EMPTY, None)


def below(graph: Graph, exchange: ExchangeId) -> set[Determinism]:
    """The determinism of all the work between committed inputs and the exchange."""
    levels = {graph.exchanges[exchange].determinism}
    todo = [exchange.producer] if exchange.producer else []
    while todo:
        step = todo.pop()
        if graph.steps[step].kind.is_kept:
            continue
        levels.add(graph.steps[step].determinism)
        levels.update(x.determinism for x in graph.exchanges.values() if x.id.consumer == step)
        todo.extend(edge.producer for edge in graph.inputs[step])
    return levels


def _is_unchanged(graph: Graph, group: Group, recomputed: Mapping[ExchangeId, Checksums]) -> bool:
    return all(
        verdict is Checksums.EQUAL
        and exchange.producer is not None
        and not any(graph.steps[step].is_order_sensitive for step in _above(graph, group, exchange.consumer))
        for exchange, verdict in recomputed.items()
    )


def _above(graph: Graph, group: Group, step: str) -> set[str]:
    """The steps of the group through which rows of the exchange pass: its reader and all up to the root."""
    found, todo = {step}, [step]
    while todo:
        for edge in graph.outputs[todo.pop()]:
            if edge.consumer in group.members and edge.consumer not in found:
                found.add(edge.consumer)
                todo.append(edge.consumer)
    return found
