"""Record journals of the simulated world for this release. Run once per release, from the root of the repository, and
again when a type of event was added before it.

Seeds are taken until every type of event occurs; a recording that exists is never touched.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec

import rekindle
from rekindle.journal.history import folder_of, read
from rekindle.journal.owner import Owner
from rekindle.journal.takeover import take_over
from rekindle.master.decide import decide
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import MasterConfig
from rekindle.master.facts.events import Event
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.machine import BATCH
from rekindle.master.state.apply import fold
from rekindle.model.ids import ExchangeId
from rekindle.model.kinds import FailureDomain
from rekindle.model.partitions import Partitions
from rekindle.model.parts import Parts
from rekindle.runtime.loop import decide_asking
from rekindle.runtime.opening import codec
from rekindle.storage.memory import MemoryStore
from rekindle.testing.drawing import draw
from sim_journal import StoredWorld
from support.recorded import HERE, RUN, events_in, load, save, summary_of
from world.scenario import scenario_of

SEEDS = range(2000)


def recorded(seed: int) -> tuple[list[bytes], list[Event]] | None:
    """The journal of one seed that ended well and was not pruned."""
    world = StoredWorld(scenario_of(seed), is_pruned=False)
    world.run()
    store = world.stored.store
    bodies = [store.objects[folder_of(RUN) + name][0] for name in store.list_after(folder_of(RUN))]
    is_plain = all(body in store.tried for body in bodies)
    return (bodies, [event for record in world.ledger.records for event in record.events]) if is_plain else None


def lost_exchange() -> tuple[list[bytes], list[Event]]:
    """Map outputs of a running attempt are gone: the one thing that happens in no seed."""
    store = MemoryStore()
    start = st.StartRun(
        run="run",
        pipeline="pipeline",
        order=1,
        spec=RunSpec(graph=GraphSpec.of(draw("a[2] ~all~> b[3]")), sinks=("b",)),
        config=MasterConfig(),
        run_time_ms=0,
        seed=0,
        application="app0",
        owner="me",
    )
    journal, history = take_over(
        store, RUN, codec(), lambda history, epoch: decide(None, start, 1), owner=Owner("host", 1), writer="by-hand"
    )
    state = fold(None, history.events)
    assert state is not None
    (attempt,) = state.attempts
    lost = Parts(exchanges={ExchangeId("b", "a"): Partitions((1,))})
    for stimulus in (
        st.CommitsSeen(attempt=attempt, partitions=Partitions((0,)), manifest=b"files"),
        st.PartsLost(lost, FailureDomain.EXECUTOR),
        st.CommitsSeen(attempt=attempt, partitions=Partitions((1, 2)), manifest=b"files"),
    ):
        events = decide(state, stimulus, 2)
        journal.append(*events)
        state = fold(state, events)
    bodies = [store.objects[folder_of(RUN) + name][0] for name in store.list_after(folder_of(RUN))]
    return bodies, list(read(store, RUN, codec()).events)


def pinned() -> tuple[list[bytes], list[Event]]:
    """Somebody pinned the run before its first result could go."""
    store = MemoryStore()
    start = st.StartRun(
        run="run",
        pipeline="pipeline",
        order=1,
        spec=RunSpec(graph=GraphSpec.of(draw("a[2] =blocking=> b[2]")), sinks=()),
        config=MasterConfig(),
        run_time_ms=0,
        seed=0,
        application="app0",
        owner="me",
    )
    journal, history = take_over(
        store, RUN, codec(), lambda history, epoch: decide(None, start, 1), owner=Owner("host", 1), writer="by-hand"
    )
    state = fold(None, history.events)
    for _ in "ab":
        assert state is not None
        (attempt,) = state.attempts
        for stimulus in (
            st.CommitsSeen(attempt=attempt, partitions=Partitions((0, 1)), manifest=b"files"),
            st.AttemptEnded(attempt=attempt),
        ):
            events = decide_asking(BATCH, state, stimulus, 2, 0.0, lambda: True)
            journal.append(*events)
            state = fold(state, events)
    bodies = [store.objects[folder_of(RUN) + name][0] for name in store.list_after(folder_of(RUN))]
    return bodies, list(read(store, RUN, codec()).events)


def write(folder: Path, name: str, bodies: list[bytes], events: list[Event]) -> None:
    state = fold(None, events)
    assert state is not None
    save(folder / f"{name}.journal", bodies)
    text = msgspec.json.format(msgspec.json.encode(summary_of(state)), indent=2)
    (folder / f"{name}.json").write_bytes(text + b"\n")
    print(f"{name}: {len(bodies)} records")


def main() -> None:
    folder = HERE / rekindle.__version__
    folder.mkdir(exist_ok=True)
    if not (folder / "lost-exchange.journal").exists():
        write(folder, "lost-exchange", *lost_exchange())
    if not (folder / "pinned.journal").exists():
        write(folder, "pinned", *pinned())
    there = {type(event) for path in folder.glob("*.journal") for event in events_in(load(path))}
    missing = set(get_args(Event)) - there
    if not missing:
        return
    for seed in SEEDS:
        if (folder / f"seed-{seed}.journal").exists():
            continue
        found = recorded(seed)
        if found is None or not missing & {type(event) for event in found[1]}:
            continue
        missing -= {type(event) for event in found[1]}
        write(folder, f"seed-{seed}", *found)
        if not missing:
            return
    raise SystemExit(f"no seed has {sorted(event.__name__ for event in missing)}")


if __name__ == "__main__":
    main()
