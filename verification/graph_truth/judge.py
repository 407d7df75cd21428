"""Two judges of a drawn graph. The event log tells which partitions the tasks of a step's write read directly, and
which the tasks below an exchange or broadcast. The rows of each result partition tell where they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from graph_truth.programs import BASES, digit
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.model.edges import All
from rekindle.model.partitions import Partitions
from support.eventlog import EventLog, SparkTask

Reads = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class Seen:
    """A program that ran: the graph that was journaled, which steps were fused into which, and of each partition of
    each kept step the origins and the paths of its rows."""

    name: str
    run: str
    graph: GraphSpec
    members: Mapping[str, tuple[str, ...]]
    origins: Mapping[str, Mapping[int, frozenset[str]]]
    paths: Mapping[str, frozenset[str]]


@dataclass
class Judgement:
    """`wrong`: a task read, or a row came from, what is not drawn. `wider`: more is drawn than Spark read, and
    `at_run_time` if it is drawn as decided then."""

    edges: int = 0
    at_run_time: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    wider: list[str] = field(default_factory=list)


def judge(seen: Seen, log: EventLog) -> Judgement:
    found = Judgement()
    graph = seen.graph.graph()
    for step, edges in graph.inputs.items():
        _judge_rows(seen, step, found)
        found.edges += len(edges)
        if step in BASES or not all(edge.producer in BASES for edge in edges):
            continue  # How many rows other results have says nothing of which they are.
        writing, others = log.of_step(step, seen.run)
        direct = [reads_of(task) for task in writing]
        below = {one for task in others for one in reads_of(task)}

        narrow = [edge for edge in edges if not isinstance(edge.mapping, All)]
        drawn = Counter(
            frozenset(
                (edge.producer, at)
                for edge in narrow
                for at in edge.mapping.upstream(
                    Partitions((partition,)), BASES[edge.producer], graph.steps[step].partitions
                )
            )
            for partition in range(graph.steps[step].partitions)
        )
        # What is handed to every task, too, is rightly drawn as a whole.
        whole = {base for base, count in BASES.items() if {(base, at) for at in range(count)} <= below}
        real = Counter(frozenset(one for one in reads if one[0] not in whole) for reads in direct)
        if +drawn != +real and (narrow or any(real)):
            told = f"{seen.name}: {step} reads {_text(real)}, drawn {_text(drawn)}"
            is_open = any(edge.is_open for edge in edges)
            (found.wrong if narrow else found.at_run_time if is_open else found.wider).append(told)
        read_apart = {base for reads in direct for base, _ in reads}
        for edge in edges:
            if isinstance(edge.mapping, All) and edge.producer not in read_apart | whole:
                found.wrong.append(f"{seen.name}: {step} reads {sorted(below)}, drawn all of {edge.producer}")
        undrawn = (read_apart | {base for base, _ in below}) - {edge.producer for edge in edges}
        if undrawn:
            found.wrong.append(f"{seen.name}: {step} reads {sorted(undrawn)}, of which no edge is drawn")
    return found


def _judge_rows(seen: Seen, step: str, found: Judgement) -> None:
    """Where the rows of each partition come from, through all steps between, must be drawn; and they went through what
    was fused into the step."""
    graph = seen.graph.graph()
    for partition, origins in seen.origins.get(step, {}).items():
        reach = {f"{base}{at}" for base, at in _reach(seen, step, partition)}
        if not origins <= reach:
            found.wrong.append(f"{seen.name}: rows of {step}[{partition}] come from {sorted(origins - reach)}")
    above = {one for edge in graph.inputs[step] for one in seen.paths.get(edge.producer, ())}
    inside = {one for one in seen.members[step] if not one.startswith("source_")}
    through = seen.paths.get(step, frozenset()) - above
    if step not in BASES and through and through != inside:
        found.wrong.append(f"{seen.name}: rows of {step} went through {sorted(through)}, drawn {sorted(inside)}")


def _reach(seen: Seen, step: str, partition: int) -> Iterator[tuple[str, int]]:
    graph = seen.graph.graph()
    todo, known = [(step, Partitions((partition,)))], set[tuple[str, int]]()
    while todo:
        name, at = todo.pop()
        if name in BASES:
            known |= {(name, one) for one in at}
        for edge in graph.inputs[name]:
            counts = graph.steps[edge.producer].partitions, graph.steps[name].partitions
            todo.append((edge.producer, edge.mapping.upstream(at, *counts)))
    yield from known


def reads_of(task: SparkTask) -> Reads:
    """By the digits of the number of its records, to base four."""
    names = {digit(base, at): (base, at) for base, count in BASES.items() for at in range(count)}
    return frozenset(names[place] for place in names if task.records_read // 4**place % 4)


def _text(sets: Counter[frozenset[tuple[str, int]]]) -> str:
    shown = (" ".join(f"{base}{at}" for base, at in sorted(one)) or "nothing" for one in sets.elements())
    return " | ".join(sorted(shown))
