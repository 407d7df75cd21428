"""Backtrack to a fixed point, with bitmaps.

Rules
- Up: a vertex that runs needs what it reads. What is not held runs too. A pipelined result never is; an exchange
  that the engine still has spares everything behind it.
- Down: a vertex that comes out different, or may, takes every vertex that read it along, finished or not. One
  that is repeatable and reads nothing that changed comes out the same, and takes nobody along.
- Why this is the smallest set: every vertex in it is demanded by an output that is missing, or holds a value
  made from one that exists no more and that another output will see anew. `verification/oracle.py` checks it.
- Sets only grow, each vertex is walked up once and down once, each walk is one operation on a whole bitmap.
"""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.model.graph import Edge, Graph
from rekindle.model.ids import ExchangeId
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.reasons import (
    AnyReason,
    ExchangeChanged,
    Failed,
    FusedInto,
    InputDiffers,
    NeededBy,
    NotYetRun,
    WholeStep,
)
from rekindle.model.regions import readers, reads


class Closure:
    """One computation. Made, fed, spread once, read, thrown away; it never leaves the policy that made it."""

    def __init__(
        self,
        graph: Graph,
        held: Mapping[str, Partitions],
        exchanges: Mapping[ExchangeId, Partitions],
        failed: Mapping[str, Partitions],
        started: Mapping[str, Partitions],
        is_pessimistic: bool,
    ) -> None:
        self._graph = graph
        self.run: dict[str, Partitions] = {}
        self.recomputed: dict[ExchangeId, Partitions] = {}
        self.because: dict[str, list[tuple[AnyReason, Partitions]]] = {}
        self._held = held
        self._exchanges = exchanges
        self._failed = failed
        self._started = started
        self._is_pessimistic = is_pessimistic
        self._changed: dict[str, Partitions] = {}
        self._to_walk_up: dict[str, Partitions] = {}
        self._to_walk_down: dict[str, Partitions] = {}

    def add(self, step: str, partitions: Partitions, reason: AnyReason) -> None:
        """These vertices run."""
        new = partitions - self.run.get(step, EMPTY)
        if not new:
            return
        self._grow(step, new, reason)
        if self._graph.steps[step].restarts_whole:
            self._grow(step, self._graph.whole[step] - self.run[step], WholeStep())

    def change(self, step: str, partitions: Partitions) -> None:
        """These vertices come out, or came out, as something else than their readers saw."""
        before = self._changed.get(step, EMPTY)
        new = partitions - before
        if new:
            self._changed[step] = before | new
            self._to_walk_down[step] = self._to_walk_down.get(step, EMPTY) | new

    def change_exchange(self, exchange: ExchangeId) -> None:
        """All readers of the exchange saw another version of it."""
        step = exchange.consumer
        self.add(step, self._graph.whole[step], ExchangeChanged(exchange))
        self.change(step, self._graph.whole[step])

    def spread(self) -> None:
        """Up, then down, until nothing new is found."""
        forwards = tuple(self._graph.steps)
        backwards = forwards[::-1]
        while self._to_walk_up or self._to_walk_down:
            for step in backwards:
                if step in self._to_walk_up:
                    self._walk_up(step, self._to_walk_up.pop(step))
            for step in forwards:
                if step in self._to_walk_down:
                    self._walk_down(step, self._to_walk_down.pop(step))

    def _grow(self, step: str, new: Partitions, reason: AnyReason) -> None:
        if not new:
            return
        self.run[step] = self.run.get(step, EMPTY) | new
        self._to_walk_up[step] = self._to_walk_up.get(step, EMPTY) | new
        self._say_why(step, new, reason)
        if self._counts_as_different(step) and not self._graph.steps[step].determinism.is_repeatable:
            self.change(step, new)

    def _counts_as_different(self, step: str) -> bool:
        """What the step says of itself, and else what the strategy says."""
        own = self._graph.steps[step].is_pessimistic
        return self._is_pessimistic if own is None else own

    def _say_why(self, step: str, new: Partitions, reason: AnyReason) -> None:
        pieces = self.because.setdefault(step, [])
        failed = new & self._failed.get(step, EMPTY)
        seen = self._started.get(step, EMPTY)
        fresh = new - seen - failed
        for piece, why in ((failed, Failed()), (fresh, NotYetRun()), (new - failed - fresh, reason)):
            if piece:
                pieces.append((why, piece))

    def _walk_up(self, step: str, running: Partitions) -> None:
        constants = ExchangeId(step)
        if constants in self._graph.exchanges:
            self._recompute(constants, Partitions.first(1))
        for edge in self._graph.inputs[step]:
            producer = edge.producer
            if edge.has_exchange:
                wanted = self._recompute(_through(edge), self._graph.whole[producer])
                self._demand(edge, wanted - self._held.get(producer, EMPTY))
                continue
            idle = self._graph.whole[producer] - self._held.get(producer, EMPTY) - self.run.get(producer, EMPTY)
            if idle:
                self._demand(edge, reads(self._graph, edge, running) & idle)

    def _demand(self, edge: Edge, wanted: Partitions) -> None:
        fused = self._graph.steps[edge.producer].kind.joins_region
        self.add(edge.producer, wanted, FusedInto(edge.consumer) if fused else NeededBy(edge.consumer))

    def _recompute(self, exchange: ExchangeId, wanted: Partitions) -> Partitions:
        """The parts among `wanted` that the engine must make again, not counting those it already must."""
        before = self.recomputed.get(exchange, EMPTY)
        missing = wanted - self._exchanges.get(exchange, EMPTY) - before
        if missing:
            self.recomputed[exchange] = before | missing
            is_repeatable = self._graph.exchanges[exchange].determinism.is_repeatable
            if not is_repeatable and self._counts_as_different(exchange.consumer):
                self.change_exchange(exchange)
        return missing

    def _walk_down(self, step: str, changed: Partitions) -> None:
        for edge in self._graph.outputs[step]:
            if edge.has_exchange:
                exchange = _through(edge)
                self.recomputed[exchange] = self.recomputed.get(exchange, EMPTY) | changed
            whole = self._graph.whole[edge.consumer]
            if self._changed.get(edge.consumer) == whole == self.run.get(edge.consumer):
                continue  # One that only came out different before has not read what changes now.
            touched = readers(self._graph, edge, changed)
            self.add(edge.consumer, touched, InputDiffers(step))
            self.change(edge.consumer, touched)


def _through(edge: Edge) -> ExchangeId:
    return ExchangeId(edge.consumer, edge.producer)
