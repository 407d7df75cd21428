"""Is the restart set the smallest that is right? Ask a brute force that knows only labelled values.

    python -m verification oracle                all graphs of 1 and 2 steps, every 11th of 3, every 100,003rd of 4
    python -m verification oracle --every-3 1    all graphs of 3 steps too: about 11 million cases

For each graph and each single and double fault: `remaining_set` must equal the smallest subset of vertices and
exchange parts whose run makes the output one that a fault-free run could have made, and that subset must be the only
one of its size. A graph is refused exactly if it would show two versions of a value without any fault. Single faults
are asked once more with each step's code changed, and for the other strategies: `individual` waits for what comes out,
so that its first answer is the smallest subset of a world in which the same comes out, and it is refused exactly if a
step is pipelined; `full` is everything. Graphs with more than 18 values (vertices and exchange parts) are left out:
10 % of those with 4 steps.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from multiprocessing import Pool

from oracle_faults import Fault, Faults
from oracle_graphs import Node, Shape, choices_of, graph_at, is_torn, shapes, size_of, world_of
from oracle_world import World
from rekindle.errors import Refused
from rekindle.failover.restart import FailureFacts, Strategy, remaining_set
from rekindle.failover.restart_set import RestartSet
from rekindle.model.graph import Edge, Graph, Step
from rekindle.testing.drawing import drawn

VALUES_MAX = 18
Job = tuple[Shape, range, int]


def check_graph(steps: list[Step], edges: list[Edge]) -> tuple[Counter[str], list[str]]:
    """Count the cases of one graph, and describe those that differ."""
    try:
        graph = Graph.of(steps, edges)
    except Refused as refused:
        return Counter(refused=1), [] if is_torn(steps, edges) else [f"refused for no reason: {refused.message}"]
    if is_torn(steps, edges):
        return Counter(graphs=1), [f"{drawn(graph)}\n  shows two versions without any fault"]
    nodes, values = world_of(graph)
    place = {node: at for at, node in enumerate(nodes)}
    world, faults = World(values), list(Faults(graph, nodes, values).singles())
    count, wrong = Counter(graphs=1), []
    for one, other in combinations_with_replacement(faults, 2):
        fault = one if one is other else one + other
        count["double" if one is not other else "single"] += 1
        wrong += _differences(graph, place, world, fault, FailureFacts(fault.failed, fault.lost))
    for name in graph.steps:
        outdated = sum(1 << at for node, at in place.items() if node[0] == name)
        newer = World(values, outdated)
        for fault in faults:
            count["code changed"] += 1
            happened = FailureFacts(fault.failed, fault.lost, outdated={name: graph.whole[name]})
            wrong += _differences(graph, place, newer, fault, happened)
    hopeful = World(tuple(replace(value, is_repeatable=True) for value in values))
    for fault in faults:
        happened = FailureFacts(fault.failed, fault.lost)
        count["full"] += 1
        wrong += _differences(graph, place, Everything(len(nodes)), fault, happened, Strategy.FULL)
        count["individual"] += 1
        if is_refused(graph) != any(step.kind.joins_region for step in steps):
            wrong.append(f"{drawn(graph)}\n  individual is {'' if is_refused(graph) else 'not '}refused")
        elif not is_refused(graph):
            wrong += _differences(graph, place, hopeful, fault, happened, Strategy.INDIVIDUAL)
    return count, wrong


def is_refused(graph: Graph) -> bool:
    """Whether `individual` is."""
    try:
        Strategy.INDIVIDUAL.check(graph)
    except Refused:
        return True
    return False


@dataclass(frozen=True, slots=True)
class Everything:
    """What must run if all must."""

    values: int

    def smallest(self, missing: int) -> tuple[int, bool]:
        return (1 << self.values) - 1, True


def _differences(
    graph: Graph,
    place: dict[Node, int],
    world: World | Everything,
    fault: Fault,
    happened: FailureFacts,
    strategy: Strategy = Strategy.REGION,
) -> list[str]:
    answer = remaining_set(graph, fault.before(graph), happened, strategy)
    ours = _mask(answer, place)
    smallest, is_only = world.smallest(fault.missing)
    if ours == smallest and is_only:
        return []
    names = {at: node for node, at in place.items()}
    shown = [[str(names[at]) for at in names if mask >> at & 1] for mask in (ours, smallest)]
    asked = f"{drawn(graph)}\n  {strategy.value}: {fault.text}"
    return [f"{asked}\n  ours   {shown[0]}\n  oracle {shown[1]}, the only one: {is_only}"]


def _mask(answer: RestartSet, place: dict[Node, int]) -> int:
    vertices = sum(1 << place[vertex.step, vertex.partition] for vertex in answer)
    return vertices + sum(1 << place[x, part] for x, parts in answer.exchanges.items() for part in parts)


def _check(job: Job) -> tuple[Counter[str], list[str]]:
    shape, choices, turn = job
    count, wrong = Counter[str](), list[str]()
    for choice in choices:
        counted, differing = check_graph(*graph_at(shape, choice, turn + choice))
        count += counted
        wrong += differing
    return count, wrong


def jobs(every: dict[int, int]) -> Iterator[Job]:
    """Graphs in their order, every n-th of them."""
    for steps, nth in every.items():
        before = 0
        for at, shape in enumerate(shapes(steps)):
            if size_of(shape) <= VALUES_MAX:
                total = choices_of(shape)
                taken = range(-before % nth, total, nth)
                before += total
                if taken:
                    yield shape, taken, at


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every-3", type=int, default=11, help="take every n-th graph of 3 steps")
    parser.add_argument("--every-4", type=int, default=100003, help="take every n-th graph of 4 steps")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    began = time.monotonic()
    count, wrong = Counter[str](), list[str]()
    todo = jobs({1: 1, 2: 1, 3: chosen.every_3, 4: chosen.every_4})
    with Pool(chosen.processes) as pool:
        for counted, differing in pool.imap_unordered(_check, todo, chunksize=16):
            count += counted
            wrong += differing
            for text in differing[: max(0, 5 - len(wrong) + len(differing))]:
                print(text)
    cases = sum(count[word] for word in ("single", "double", "code changed", "individual", "full"))
    print("  ".join(f"{word} {number:,}" for word, number in sorted(count.items())))
    print(
        f"RESULT oracle cases={cases} graphs={count['graphs']} differences={len(wrong)} "
        f"seconds={time.monotonic() - began:.0f}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
