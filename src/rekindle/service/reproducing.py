"""From a vertex of a run to the same vertex in this process: which files it reads, how it failed, what differs now.

- The journal is read and nothing is appended; nobody becomes the run's master, so that a living run may be looked at.
- What the vertex reads is what counts in the run now. If something of that is not kept, it is refused and named.
- Code may have changed since: that is why one tries again. It is told, and so is a source that changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import msgspec

from rekindle.engine.reproduced import ReproducedVertex, Reproducer, ReproductionRequest, ReproductionSetup
from rekindle.errors import NotFound, Refused
from rekindle.journal.history import read
from rekindle.journal.keys import find_claim
from rekindle.master.facts.events import FailureHandled, RunFailing
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.state.commands import Input
from rekindle.master.state.run_state import RunState
from rekindle.model.failures import Cause, Failure
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.observe.words import bytes_text, count_text
from rekindle.pipeline.identity.changes import describe_change
from rekindle.remedies import CommandRemedy, new_run
from rekindle.runtime.counted import commits_of
from rekindle.runtime.opening import RunConstants, codec, peek
from rekindle.service.running import RunRequest, wanted_of
from rekindle.service.vertices import vertex_of
from rekindle.storage.store import Store

REPRODUCE = partial(CommandRemedy, "reproduce", "", "")
RUNS = CommandRemedy("runs", "see those that there are")


def reproduce(wish: RunRequest, make: Callable[[], Reproducer], vertex: str) -> ReproducedVertex:
    """The vertex, opened. Starts Spark, and no job in it."""
    store = wish.store
    state = state_of_run(store, wish.pipeline, run_of(store, wish))
    refuse_fused(wish, state, vertex)
    step, partition = vertex_of(state, vertex, state.run, REPRODUCE)
    failure = _failure(store, f"{wish.pipeline}/{state.run}", step, partition)
    wanted = state.layout.graph.whole[step] if partition is None else Partitions((partition,))
    asked = ReproductionRequest(step, partition, tuple(inputs_of(state, step, wanted)), failure)
    session = wish.session() if callable(wish.session) else wish.session
    bench = make().workbench(session, wanted_of(wish, state.run, state.order, RunConstants.of(state)))
    refuse_other_graph(state, bench.spec.graph)
    opened = bench.open(asked)
    return replace(opened, said=(*_told(state, bench, asked), *opened.said))


def state_of_run(store: Store, pipeline: str, run: str) -> RunState:
    state = peek(store, pipeline, run)
    if state is None:
        raise NotFound(f"{pipeline} has no run {run}", RUNS)
    return state


def run_of(store: Store, wish: RunRequest) -> str:
    """The name of the run that was named, or that has the key of the wish."""
    if wish.options.run:
        return wish.options.run
    held = find_claim(store, wish.pipeline, wish.key)
    if held is None:
        raise NotFound(f"{wish.pipeline} has no run of these parameters", RUNS)
    return held.run


def refuse_fused(wish: RunRequest, state: RunState, vertex: str) -> None:
    name = vertex.partition("[")[0]
    if name not in state.steps and any(one.name == name for one in wish.steps):
        raise Refused(
            f"{name} has no result partitions: it is fused into a kept step",
            hint=f"the kept steps are {', '.join(state.steps)}",
        )


def refuse_other_graph(state: RunState, graph: GraphSpec) -> None:
    difference = state.spec.graph.difference(graph)
    if difference:
        raise Refused(
            f"run {state.run} was started with another graph: {difference}",
            hint="restore the graph: partitions of the run have no meaning in this one",
        )


def inputs_of(state: RunState, step: str, wanted: Partitions) -> Iterator[Input]:
    """The kept partitions that these vertices read, each with the file that counts."""
    for producer, read_ in state.layout.read_by(step, wanted).items():
        kept = state.steps[producer]
        if missing := read_ - kept.available:
            what = "released" if missing <= kept.released else "not there"
            failed = missing & state.failed().get(producer, EMPTY)
            hint = REPRODUCE(f"{producer}[{failed.lowest}]") if failed else new_run("a new run computes it again")
            raise Refused(f"{step} reads {producer}[{missing}], which is {what}", hint=hint)
        yield Input(
            producer,
            tuple(
                msgspec.structs.replace(one, partitions=one.partitions & read_)
                for one in kept.segments
                if not one.partitions.is_disjoint(read_)
            ),
            kept.holes & read_,
        )


def _failure(store: Store, run: str, step: str, partition: int | None) -> Cause | None:
    """How the vertex failed last; None if it never did."""
    found = None
    for event in read(store, run, codec()).events:
        if isinstance(event, FailureHandled | RunFailing):
            found = next((one.cause.root for one in event.failures if _is_about(one, step, partition)), found)
    return found


def _is_about(failure: Failure, step: str, partition: int | None) -> bool:
    if failure.step != step:
        return False
    return not failure.partitions if partition is None else partition in failure.partitions


def _told(state: RunState, bench: ReproductionSetup, asked: ReproductionRequest) -> Iterator[str]:
    if asked.failure is not None:
        yield f"failed in the run: {asked.failure.text or asked.failure.kind.value}"
    for change in describe_change(state.spec.fingerprints.get(asked.step, {}), bench.spec.fingerprints[asked.step]):
        yield f"since the run started, {change}"
    for one in asked.inputs:
        commits = [commit for _, commit in commits_of(one.segments) if commit.has_rows]
        size = bytes_text(sum(commit.bytes for commit in commits))
        without = f", without {one.step}[{one.holes}], which was left out" if one.holes else ""
        yield f"reads {one.step}[{one.partitions}]: {count_text(len(commits), 'file')}, {size}{without}"
