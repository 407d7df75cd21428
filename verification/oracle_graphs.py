"""Every small graph, once, and every fault on it.

Shapes: up to 4 steps in a fixed order, 1 to 3 partitions each, each pair of steps joined by nothing, identity, an
offset, an interval, or all; connected. Each shape is taken with every choice of pipelined or kept, of repeatable or
not, and of an exchange as repeatable as its reader or the other way round. The kept kinds differ only in what a
failure takes with it, so that they rotate over the graphs, as do `all` and `broadcast`, and the words for
(not) repeatable.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from oracle_world import Value
from rekindle.model.edges import ALL, BROADCAST, IDENTITY, INTERVAL, All, Identity, Interval, Mapping, Offset
from rekindle.model.graph import Edge, Graph, Step
from rekindle.model.ids import ExchangeId
from rekindle.model.kinds import Determinism, ResultKind

Shape = tuple[tuple[int, ...], tuple[tuple[int, int, Mapping], ...]]
Node = tuple[str | ExchangeId, int]
KEPT = (ResultKind.BLOCKING, ResultKind.CACHING, ResultKind.MEMORY)
SAME = (Determinism.DETERMINATE, Determinism.DECLARED)
OTHER = (Determinism.UNKNOWN, Determinism.INDETERMINATE)


def shapes(steps: int) -> Iterator[Shape]:
    """Connected shapes with this many steps."""
    pairs = list(combinations(range(steps), 2))
    for counts in product((1, 2, 3), repeat=steps):
        choices = [_mappings(counts[a], counts[b]) for a, b in pairs]
        for chosen in product(*choices):
            edges = tuple((a, b, how) for (a, b), how in zip(pairs, chosen, strict=True) if how is not None)
            if _is_connected(steps, edges):
                yield counts, edges


def choices_of(shape: Shape) -> int:
    """How many graphs a shape has."""
    counts, wires = shape
    return 1 << (len(counts) + len({a for a, _, _ in wires}) + sum(isinstance(how, All) for _, _, how in wires))


def graph_at(shape: Shape, choice: int, turn: int) -> tuple[list[Step], list[Edge]]:
    """One graph of a shape: the bits of `choice` say which steps are repeatable, which of those that are read are
    pipelined, which exchanges are the other way round than their reader. `turn` moves the words that are only
    other names for the same behaviour."""
    counts, wires = shape

    def bit() -> bool:
        nonlocal choice
        choice, drawn = divmod(choice, 2)
        return bool(drawn)

    repeatable = [bit() for _ in counts]
    pipelined = {at for at in sorted({a for a, _, _ in wires}) if bit()}
    steps = [
        Step(
            name="abcd"[at],
            partitions=counts[at],
            kind=ResultKind.PIPELINED if at in pipelined else KEPT[(turn + at) % 3],
            determinism=SAME[(turn + at) % 2] if repeatable[at] else OTHER[(turn + at) % 2],
        )
        for at in range(len(counts))
    ]
    edges = []
    for a, b, how in wires:
        is_flipped = isinstance(how, All) and bit()
        other = None if not is_flipped else Determinism.UNKNOWN if repeatable[b] else Determinism.DETERMINATE
        word = BROADCAST if isinstance(how, All) and (turn + a + b) % 2 else how
        edges.append(Edge("abcd"[a], "abcd"[b], word, other))
    return steps, edges


def world_of(graph: Graph) -> tuple[list[Node], tuple[Value, ...]]:
    """The graph as bare values: each vertex, and each part of an exchange."""
    nodes: list[Node] = []
    values: list[Value] = []
    place: dict[Node, int] = {}

    def add(node: Node, value: Value) -> None:
        place[node] = len(nodes)
        nodes.append(node)
        values.append(value)

    for name, step in graph.steps.items():
        for edge in graph.inputs[name]:
            if isinstance(edge.mapping, All):
                x = ExchangeId(name, edge.producer)
                same = (edge.determinism or step.determinism) in SAME
                for part in range(graph.steps[edge.producer].partitions):
                    add((x, part), Value((place[edge.producer, part],), True, same, False))
        for partition in range(step.partitions):
            reads = tuple(place[node] for edge in graph.inputs[name] for node in _reads(graph, edge, partition))
            is_stored = step.kind is not ResultKind.PIPELINED
            add((name, partition), Value(reads, is_stored, step.determinism in SAME, not graph.outputs[name]))
    return nodes, tuple(values)


def is_torn(steps: list[Step], edges: list[Edge]) -> bool:
    """A run without a fault would make something twice, and not the same: a pipelined step is made once for each
    stored step it ends in, however it gets there."""
    made: dict[str, int] = {}
    for step in reversed(steps):
        readers = [made[edge.consumer] for edge in edges if edge.producer == step.name]
        made[step.name] = sum(readers) if step.kind is ResultKind.PIPELINED else 1
    crossings = [(edge.consumer, edge.determinism) for edge in edges if isinstance(edge.mapping, All)]
    work = [(step.name, step.determinism) for step in steps] + crossings
    return any(made[name] > 1 and level is not None and level not in SAME for name, level in work)


def size_of(shape: Shape) -> int:
    """The number of values in the world of a shape."""
    counts, wires = shape
    return sum(counts) + sum(counts[a] for a, _, how in wires if isinstance(how, All))


def _reads(graph: Graph, edge: Edge, partition: int) -> list[Node]:
    """By definition of the mappings, one partition at a time; shares no line with `rekindle.model.edges`."""
    producers = graph.steps[edge.producer].partitions
    consumers = graph.steps[edge.consumer].partitions
    match edge.mapping:
        case Identity():
            return [(edge.producer, partition)]
        case Offset(by):
            return [(edge.producer, partition - by)] if by <= partition < by + producers else []
        case Interval(by, of):
            total = of or producers
            low, high = partition * total // consumers, (partition + 1) * total // consumers
            return [(edge.producer, at - by) for at in range(low, high) if by <= at < by + producers]
        case All():
            return [(ExchangeId(edge.consumer, edge.producer), at) for at in range(producers)]


def _mappings(producers: int, consumers: int) -> list[Mapping | None]:
    found: list[Mapping | None] = [None, ALL]
    if producers == consumers:
        found.append(IDENTITY)
    if producers > consumers:
        found.append(INTERVAL)
    if producers < consumers:
        found.extend(Offset(by) for by in range(consumers - producers + 1))
    return found


def _is_connected(steps: int, edges: tuple[tuple[int, int, Mapping], ...]) -> bool:
    together = {0}
    for _ in range(steps):
        together |= {at for a, b, _ in edges if together & {a, b} for at in (a, b)}
    return len(together) == steps
