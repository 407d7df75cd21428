"""Every fault on a small graph, told twice: as the policies hear it, and as values that are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from oracle_graphs import Node
from oracle_world import Value
from rekindle.model.availability import Availability
from rekindle.model.graph import Graph
from rekindle.model.ids import ExchangeId
from rekindle.model.kinds import FailureDomain, ResultKind
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.parts import Parts, less
from rekindle.testing.drawing import finished


@dataclass(frozen=True)
class Fault:
    """`unfinished` had not been committed when it happened; `missing` is the mask of values that are not there."""

    text: str
    missing: int
    failed: dict[str, Partitions]
    lost: Parts
    unfinished: dict[str, Partitions]

    def __add__(self, other: Fault) -> Fault:
        return Fault(
            f"{self.text} and {other.text}",
            self.missing | other.missing,
            dict((Parts(self.failed) | Parts(other.failed)).results),
            self.lost | other.lost,
            dict((Parts(self.unfinished) | Parts(other.unfinished)).results),
        )

    def before(self, graph: Graph) -> Availability:
        """What was there when the fault came."""
        done = finished(graph)
        return Availability(less(done.results, self.unfinished), done.started, {}, done.exchanges)


class Faults:
    """The single faults of one graph."""

    def __init__(self, graph: Graph, nodes: list[Node], values: tuple[Value, ...]) -> None:
        self.graph, self.nodes, self.values = graph, nodes, values

    def singles(self) -> Iterator[Fault]:
        for at, (thing, number) in enumerate(self.nodes):
            if isinstance(thing, ExchangeId):
                yield self._lost(f"{thing} part {number} lost", {at})
            elif self.values[at].is_stored:
                yield self._failed(at)
                yield self._lost(f"{thing}[{number}] lost", {at})
            else:
                yield self._failed(at)
        yield from self._wide()
        last = next(reversed(self.graph.steps))
        for done in (0, 1):
            rest = Partitions.span(done, self.graph.steps[last].partitions)
            if rest:
                missing = self._mask({at for at, node in enumerate(self.nodes) if node[0] == last and node[1] >= done})
                yield Fault(f"only {done} of {last} done", missing, {}, Parts(), {last: rest})

    def _wide(self) -> Iterator[Fault]:
        domains: list[tuple[str, FailureDomain, Callable[[int], bool]]] = [
            ("executor 0 lost", FailureDomain.EXECUTOR, lambda number: number % 2 == 0),
            ("executor 1 lost", FailureDomain.EXECUTOR, lambda number: number % 2 == 1),
            ("application died", FailureDomain.APPLICATION, lambda number: True),
            ("storage lost", FailureDomain.STORAGE, lambda number: True),
            ("memory evicted", FailureDomain.EVICTION, lambda number: True),
        ]
        for text, domain, is_hit in domains:
            hit = {at for at, node in enumerate(self.nodes) if is_hit(node[1]) and self._dies(at, domain)}
            if hit:
                yield self._lost(text, hit)

    def _dies(self, at: int, domain: FailureDomain) -> bool:
        """Nature's own table, not that of the model."""
        thing = self.nodes[at][0]
        if not self.values[at].is_stored:
            return False
        kind = ResultKind.CACHING if isinstance(thing, ExchangeId) else self.graph.steps[thing].kind
        in_memory = kind is ResultKind.MEMORY
        on_executor = in_memory or kind is ResultKind.CACHING
        return {
            FailureDomain.EXECUTOR: on_executor,
            FailureDomain.APPLICATION: on_executor,
            FailureDomain.STORAGE: kind is ResultKind.BLOCKING,
            FailureDomain.EVICTION: in_memory,
            FailureDomain.TASK: False,
        }[domain]

    def _failed(self, at: int) -> Fault:
        """A vertex fails in a task; what that task was to store is not there."""
        step, number = self.nodes[at]
        assert isinstance(step, str)
        gone, todo = set[int](), [at]
        while todo:
            node = todo.pop()
            if self.values[node].is_stored:
                gone.add(node)
            if not self.values[node].is_stored or isinstance(self.nodes[node][0], ExchangeId):
                todo.extend(reader for reader, value in enumerate(self.values) if node in value.reads)
        results, exchanges = self._sets(gone)
        unfinished = results if not self.values[at].is_stored else {}
        lost = Parts({}, exchanges)
        return Fault(f"{step}[{number}] failed", self._mask(gone), {step: Partitions((number,))}, lost, unfinished)

    def _lost(self, text: str, gone: set[int]) -> Fault:
        return Fault(text, self._mask(gone), {}, Parts(*self._sets(gone)), {})

    def _sets(self, at: set[int]) -> tuple[dict[str, Partitions], dict[ExchangeId, Partitions]]:
        results: dict[str, Partitions] = {}
        exchanges: dict[ExchangeId, Partitions] = {}
        for node in at:
            thing, number = self.nodes[node]
            if isinstance(thing, ExchangeId):
                exchanges[thing] = exchanges.get(thing, EMPTY) | Partitions((number,))
            else:
                results[thing] = results.get(thing, EMPTY) | Partitions((number,))
        return results, exchanges

    @staticmethod
    def _mask(at: set[int]) -> int:
        return sum(1 << node for node in at)
