"""Locations with runs in them, made by the real loop on a real disk, with an engine that does everything at once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from rekindle.journal.keys import claim, enlist
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.state.run_state import RunState
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.runtime.opening import RunIntent, execute
from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import Store
from rekindle.testing.drawing import draw
from support.instant import Breaks, Instant

DRAWING = "orders[4] =blocking=> clean[4] =blocking all=> daily[3]"
AT_ONCE = MasterConfig(backoff=BackoffSpec("fixed", {"attempts_max": 10, "delay_ms": 0}))


def always(step: str, partition: int) -> Breaks:
    """Break one partition of a step each time."""
    return lambda attempt, partitions: Partitions((partition,)) if attempt.step == step else EMPTY


def make_run(
    store: Store,
    run: str,
    *,
    pipeline: str = "daily",
    parameters: dict[str, str] | None = None,
    drawing: str = DRAWING,
    engine: Instant | None = None,
    config: MasterConfig = AT_ONCE,
    force: bool = True,
) -> RunState | None:
    """Start or resume a run; None if its engine died. The last step is the sink."""
    graph = draw(drawing)
    held = claim(store, pipeline, {"day": run} if parameters is None else parameters, run)
    order = enlist(store, pipeline, run) if held.is_ours else 1
    intent = RunIntent(
        pipeline=pipeline,
        run=run,
        spec=RunSpec(graph=GraphSpec.of(graph), sinks=(list(graph.steps)[-1],)),
        order=order,
        config=config,
    )
    with suppress(KeyboardInterrupt):
        return execute(store, intent, engine or Instant(), force=force)
    return None


def make_runs(folder: Path, count: int) -> None:
    """One pipeline with many runs: of ten, eight ended well, one failed, one lost its driver. Made in memory and then
    written down, because a disk that keeps its word takes minutes for a thousand."""
    store = MemoryStore()
    for number in range(count):
        engine = Instant(breaks=always("clean", 2)) if number % 10 == 3 else None
        engine = Instant(dies_after=2) if number % 10 == 7 else engine
        make_run(store, f"20261115T{number:06d}Z-{number:08x}", parameters={"day": str(number)}, engine=engine)
    for key, (body, _) in store.objects.items():
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
