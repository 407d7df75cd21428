"""A scenario: everything that a schedule consists of, as a value that prints and can be read back.

One seed draws it, and the same seed drives the order of everything while it runs. A printed scenario can be edited by
hand (fewer faults, a smaller graph) and replayed.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import msgspec

from rekindle.errors import Refused
from rekindle.failover.restart import Strategy
from rekindle.model.edges import ALL, BROADCAST, IDENTITY, INTERVAL, Interval, Mapping, Offset
from rekindle.model.graph import Edge, Graph, Step, promoted
from rekindle.model.kinds import Determinism, KeepUntil, ResultKind
from rekindle.testing.drawing import draw, drawn
from world.faults import CELLS, Cell, Fault, FaultKind, FaultPhase

KINDS = (ResultKind.PIPELINED, ResultKind.BLOCKING, ResultKind.CACHING, ResultKind.MEMORY)
LEVELS = (Determinism.DETERMINATE, Determinism.DECLARED, Determinism.UNKNOWN, Determinism.INDETERMINATE)
# A file is seldom there to be damaged while something else recovers: drawn more often, so that it happens as often.
RARE_KINDS = (FaultKind.MISSING_FILE, FaultKind.TRUNCATED, FaultKind.FLIPPED)
RARE = tuple(cell for cell in CELLS if cell[0] in RARE_KINDS and cell[1] is FaultPhase.RECOVERY)
ATTEMPTS_MAX = 60
CELLS_OF: dict[ResultKind, tuple[Cell, ...]] = {
    kind: tuple(cell for cell in (*CELLS, *RARE * 3) if cell[2] is kind) for kind in KINDS
}


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What happens. `is_live` schedules stop failing and must then succeed; the others only must stay correct. `budget`
    is what stored results may take, in the units of the world's files; `publishes_read` publishes one that is read;
    `attempts_max` is how often a step may be attempted; `changes_strategy`: each driver is given another one."""

    seed: int
    drawing: str
    faults: tuple[Fault, ...]
    strategy: Strategy
    has_digests: bool
    has_checksums: bool
    has_code_change: bool
    is_change_accepted: bool
    has_later_run: bool
    is_closed_at_end: bool
    is_live: bool
    accepts_holes: bool = False
    publishes_read: bool = False
    budget: int = 0
    has_second_change: bool = False
    attempts_max: int = ATTEMPTS_MAX
    changes_strategy: bool = False

    def graph(self) -> Graph:
        return draw(self.drawing)

    def __str__(self) -> str:
        """One `name: value` per line; the graph and the faults follow, indented."""
        plain = [
            f"{name}: {getattr(self, name)}"
            for name in self.__struct_fields__
            if name not in ("drawing", "faults", "strategy")
        ]
        graph = [f"  {line}" for line in self.drawing.splitlines()]
        faults = [f"  {fault}" for fault in self.faults]
        return "\n".join([*plain, f"strategy: {self.strategy.value}", "drawing:", *graph, "faults:", *faults])

    @classmethod
    def parse(cls, text: str) -> Scenario:
        head, _, tail = text.partition("\ndrawing:\n")
        graph, _, faults = tail.partition("faults:")
        told = dict(line.split(": ", 1) for line in head.strip().splitlines())
        flags = {name: value == "True" for name, value in told.items() if value in ("True", "False")}
        return cls(
            seed=int(told["seed"]),
            budget=int(told.get("budget", 0)),
            attempts_max=int(told.get("attempts_max", ATTEMPTS_MAX)),
            drawing="\n".join(line.strip() for line in graph.strip().splitlines()),
            faults=tuple(Fault.parse(line) for line in faults.strip().splitlines()),
            strategy=Strategy(told["strategy"]),
            **flags,
        )


def scenario_of(seed: int) -> Scenario:
    """Draw the scenario of a seed."""
    rng = Random(seed)
    graph = _graph(rng)
    kinds = sorted({step.kind for step in graph.steps.values()}, key=KINDS.index)
    strategies = [Strategy.REGION] * 8 + [Strategy.FULL]
    if ResultKind.PIPELINED not in kinds:
        strategies.append(Strategy.INDIVIDUAL)
    scenario = Scenario(
        seed=seed,
        drawing=drawn(graph),
        faults=tuple(_fault(rng, kinds) for _ in range(rng.choice((3, 5, 6, 7, 8, 9)))),
        strategy=rng.choice(strategies),
        has_digests=rng.random() < 0.6,
        has_checksums=rng.random() < 0.6,
        has_code_change=rng.random() < 0.25,
        is_change_accepted=rng.random() < 0.5,
        has_later_run=rng.random() < 0.05,
        is_closed_at_end=rng.random() < 0.4,
        is_live=rng.random() < 0.8,
    )
    scenario = _with_holes(rng, scenario) if rng.random() < 0.4 else scenario
    budget = rng.choice((1, 4, 8, 12, 20)) if rng.random() < 0.5 else 0
    scenario = msgspec.structs.replace(scenario, publishes_read=rng.random() < 0.3, budget=budget)
    has_second = scenario.has_code_change and rng.random() < 0.5
    attempts = ATTEMPTS_MAX if scenario.is_live else rng.choice((1, 2, 4, ATTEMPTS_MAX))
    changes = rng.random() < 0.2
    if rng.random() < 0.3:
        scenario = msgspec.structs.replace(scenario, drawing=drawn(_with_own_strategies(rng, graph)))
    return msgspec.structs.replace(
        scenario, has_second_change=has_second, attempts_max=attempts, changes_strategy=changes
    )


def _with_own_strategies(rng: Random, graph: Graph) -> Graph:
    """Some steps have one; `individual` only those that may."""
    steps = []
    for name, step in graph.steps.items():
        is_fused = any(graph.steps[edge.producer].kind.joins_region for edge in graph.inputs[name])
        own = rng.choice((None, True, None if is_fused else False))
        steps.append(replace(step, is_pessimistic=own))
    return Graph.of(steps, graph.edges)


def _with_holes(rng: Random, scenario: Scenario) -> Scenario:
    """A user who leaves out what cannot be computed, and mostly corrects the step later."""
    if rng.random() < 0.3:
        return msgspec.structs.replace(scenario, accepts_holes=True)
    return msgspec.structs.replace(scenario, accepts_holes=True, has_code_change=True, is_change_accepted=False)


def _fault(rng: Random, kinds: list[ResultKind]) -> Fault:
    kind, phase, result = rng.choice(CELLS_OF[rng.choice(kinds)])
    return Fault(kind, phase, result, rng.randrange(1 << 16))


def _graph(rng: Random) -> Graph:
    """Two to five steps, one to three partitions each; every step but the first reads one or two earlier ones."""
    count = rng.choice((2, 3, 3, 4, 4, 5))
    sizes = [rng.choice((1, 2, 2, 3)) for _ in range(count)]
    edges: list[Edge] = []
    for at in range(1, count):
        readable = list(range(at))
        for producer in sorted(rng.sample(readable, min(at, rng.choice((1, 1, 2))))):
            mapping, size = _mapping(rng, sizes[producer], sizes[at])
            sizes[at] = size
            level = rng.choice((None, *LEVELS)) if mapping in (ALL, BROADCAST) else None
            edges.append(Edge(f"s{producer}", f"s{at}", mapping, level))
    edges = [edge for edge in edges if not edge.mapping.mismatch(*_sizes(sizes, edge))]
    read = {edge.producer for edge in edges}
    steps = [_step(rng, f"s{at}", sizes[at], f"s{at}" in read) for at in range(count)]
    kept, _ = promoted(steps, edges, rng.choice((ResultKind.BLOCKING, ResultKind.CACHING)))
    return _checked(kept, edges)


def _sizes(sizes: list[int], edge: Edge) -> tuple[int, int]:
    return sizes[int(edge.producer[1:])], sizes[int(edge.consumer[1:])]


def _mapping(rng: Random, producers: int, consumers: int) -> tuple[Mapping, int]:
    """A mapping, and the number of partitions of the consumer that fits it."""
    match rng.choice(("identity", "identity", "all", "all", "broadcast", "offset", "interval", "side")):
        case "identity":
            return IDENTITY, producers
        case "offset":
            return Offset(max(0, consumers - producers)), max(producers, consumers)
        case "interval":
            return INTERVAL, min(producers, consumers)
        case "side":
            by, behind = rng.randrange(3), rng.randrange(3)
            return Interval(by, by + producers + behind), min(by + producers + behind, consumers)
        case "broadcast":
            return BROADCAST, consumers
        case _:
            return ALL, consumers


def _step(rng: Random, name: str, partitions: int, is_read: bool) -> Step:
    kind = rng.choice(KINDS if is_read else (ResultKind.BLOCKING, ResultKind.BLOCKING, ResultKind.CACHING))
    keep = rng.choice((KeepUntil.CONSUMED, KeepUntil.CONSUMED, KeepUntil.RUN_END, KeepUntil.FOREVER))
    return Step(
        name=name,
        partitions=partitions,
        kind=kind,
        determinism=rng.choice(LEVELS),
        keep=keep if kind.is_kept else KeepUntil.CONSUMED,
        is_order_sensitive=rng.random() < 0.4,
        has_query_constants=rng.random() < 0.08,
        restarts_whole=rng.random() < 0.06,
    )


def _checked(steps: list[Step], edges: list[Edge]) -> Graph:
    """The graph, with every pipelined step kept that would give its readers two versions."""
    try:
        return Graph.of(steps, edges)
    except Refused:
        return Graph.of((replace(step, kind=ResultKind.BLOCKING) for step in steps), edges)
