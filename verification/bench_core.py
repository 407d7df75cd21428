"""How long the decision core takes, and how much it holds, for ten million vertices.

Each size runs in a process of its own, so that the peak is its own. "regular": the application died half way, which
asks for spans of every step. "irregular": of every step a random tenth is lost, another tenth committed, and the rest
never ran, which asks for sets without any order. "fold": one event that commits a random tenth of a step. Times are
process CPU time, the best of several. "mixed" has unions and coalesces in place of one-to-one edges. Its irregular set
has a limit of its own: coalescing 720,000 scattered partitions of 800,000 takes about 3 ms each way and edge.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context

from rekindle.failover.release import RetainedResults, RunPhase, releasable
from rekindle.failover.restart import FailureFacts, remaining_set, restart_set
from rekindle.master.facts.config import MasterConfig
from rekindle.master.facts.events import AttemptOpened, EpochOpened, PartitionsCommitted, RunStarted
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.state.apply import apply, fold
from rekindle.model.availability import Availability
from rekindle.model.edges import ALL, IDENTITY, INTERVAL, Mapping, Offset
from rekindle.model.graph import Edge, Graph, Step
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.kinds import Determinism, FailureDomain, ResultKind
from rekindle.model.partitions import Partitions

SIZES: dict[str, Callable[[], Graph]] = {
    "2x10000": lambda: chain(2, 10_000, every_all=1),
    "10x1000000": lambda: chain(10, 1_000_000, every_all=5),
    "100x100000": lambda: chain(100, 100_000, every_all=20),
    "mixed": lambda: unions_and_coalesces(),
}
LIMITS_MS = {"build": 200.0, "regular": 5.0, "irregular": 50.0, "fold": 5.0}
MIXED_MS = {"irregular": 150.0}
PEAK_MB_MAX = 200.0
KINDS = (ResultKind.PIPELINED, ResultKind.BLOCKING, ResultKind.CACHING, ResultKind.BLOCKING, ResultKind.MEMORY)


def chain(steps: int, partitions: int, every_all: int) -> Graph:
    """One step behind the other; the kinds take turns; every n-th edge goes through an exchange."""
    made = [
        Step(
            name=f"s{at}",
            partitions=partitions,
            kind=KINDS[at % 5] if at < steps - 1 else ResultKind.BLOCKING,
            determinism=Determinism.UNKNOWN if at % 3 else Determinism.DETERMINATE,
        )
        for at in range(steps)
    ]
    edges = [Edge(f"s{at}", f"s{at + 1}", ALL if (at + 1) % every_all == 0 else IDENTITY) for at in range(steps - 1)]
    return Graph.of(made, edges)


def unions_and_coalesces() -> Graph:
    """Ten million vertices in blocks of a (400,000) and b (400,000), their union u (800,000), coalesced to c (200,000)
    and to d (70,000), which does not divide it. The blocks are joined by nothing."""
    steps, edges = list[Step](), list[Edge]()
    for block in range(5):
        for name, count in (("a", 400_000), ("b", 400_000), ("u", 800_000), ("c", 200_000), ("d", 70_000)):
            steps.append(Step(name=f"{name}{block}", partitions=count, determinism=Determinism.UNKNOWN))
        wires: list[tuple[str, str, Mapping]] = [
            ("a", "u", Offset(0)),
            ("b", "u", Offset(400_000)),
            ("u", "c", INTERVAL),
            ("u", "d", INTERVAL),
        ]
        edges += [Edge(f"{one}{block}", f"{other}{block}", how) for one, other, how in wires]
    steps.append(Step(name="rest", partitions=10_000_000 - sum(step.partitions for step in steps)))
    return Graph.of(steps, edges)


def irregular(graph: Graph, seed: int) -> Availability:
    """Of every kept step a random tenth lost, another committed, the rest never run."""
    dice = random.Random(seed)
    committed: dict[str, Partitions] = {}
    started: dict[str, Partitions] = {}
    for name, step in graph.steps.items():
        if step.kind.is_kept:
            fifth = dice.sample(range(step.partitions), step.partitions // 5)
            committed[name] = Partitions(fifth[: len(fifth) // 2])
            started[name] = Partitions(fifth)
    return Availability(committed, started)


def regular(graph: Graph) -> tuple[Availability, dict[str, Partitions]]:
    """The application died when the first half of each kept step was committed, and a partition was failing."""
    halves = {name: Partitions.first(step.partitions // 2) for name, step in graph.steps.items() if step.kind.is_kept}
    last = next(reversed(graph.steps))
    tracker = Availability(halves, {name: graph.whole[name] for name in halves})
    return tracker.after(graph, FailureDomain.APPLICATION), {last: Partitions((graph.steps[last].partitions // 2,))}


def fold_ms(graph: Graph) -> float:
    """One event that commits a random tenth of the first kept step."""
    root, step = next((name, step) for name, step in graph.steps.items() if step.kind.is_kept)
    attempt = AttemptId(root, Generation(0), Epoch(1), 1)
    state = fold(
        None,
        [
            RunStarted(
                run="run",
                pipeline="bench",
                order=1,
                graph=GraphSpec.of(graph),
                sinks=(),
                fingerprints={},
                config=MasterConfig(),
                run_time_ms=0,
                seed=0,
                at_ms=0,
            ),
            EpochOpened(epoch=1, application="application", owner="owner", at_ms=0),
            AttemptOpened(attempt, graph.whole[root], (), 0),
        ],
    )
    tenth = Partitions(random.Random(2).sample(range(step.partitions), step.partitions // 10))
    event = PartitionsCommitted(attempt=attempt, partitions=tenth, of=tenth, manifest=b"", at_ms=0)
    return timed(lambda: apply(state, event), 31)


def timed(act: Callable[[], object], times: int) -> float:
    """CPU milliseconds of the best of several times: the machine is shared, and others only ever add."""
    taken = []
    for _ in range(times):
        began = time.process_time()
        act()
        taken.append((time.process_time() - began) * 1000)
    return min(taken)


def measure(name: str, report: Callable[[dict[str, float]], None]) -> None:
    before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = {"build": timed(SIZES[name], 5)}
    graph = SIZES[name]()
    tracker, failed = regular(graph)
    figures["regular"] = timed(lambda: restart_set(graph, tracker, failed), 15)
    torn = irregular(graph, seed=1)
    figures["irregular"] = timed(lambda: restart_set(graph, torn, {}), 7)
    figures["irregular_plan"] = timed(lambda: remaining_set(graph, torn, FailureFacts()), 7)
    figures["release"] = timed(lambda: releasable(graph, torn, RetainedResults(), RunPhase.ACTIVE), 3)
    figures["fold"] = fold_ms(graph)
    figures["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures["own_mb"] = figures["peak_mb"] - before_mb
    figures["vertices"] = graph.vertices
    report(figures)


def in_own_process(name: str) -> dict[str, float]:
    context = get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(name, there))
    process.start()
    figures: dict[str, float] = here.recv()
    process.join()
    return figures


def _child(name: str, there: object) -> None:
    measure(name, there.send)  # type: ignore[attr-defined]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", default=list(SIZES))
    words: list[str] = []
    is_kept = True
    for name in parser.parse_args().sizes:
        figures = in_own_process(name)
        shown = "  ".join(f"{word} {figure:.2f}" for word, figure in figures.items() if word != "vertices")
        print(f"{name:>12}  {figures['vertices']:>12,.0f} vertices  (ms) {shown}")
        limits = LIMITS_MS | (MIXED_MS if name == "mixed" else {})
        is_kept &= figures["peak_mb"] <= PEAK_MB_MAX and all(figures[word] <= ms for word, ms in limits.items())
        words += [f"{name}_{word}={figures[word]:.2f}" for word in (*LIMITS_MS, "peak_mb")]
    print(f"RESULT bench {' '.join(words)} is_within={is_kept}")
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
