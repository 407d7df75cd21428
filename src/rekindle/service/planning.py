"""The plan of a start, made without being anybody's master: a journal is read, decisions are asked for, none is kept.

- The first decision is made from the same value as the run's own opening record (`opening_of`).
- What a dead driver left is looked at by the engine's own seal, which is a listing: it changes nothing, and the run's
  master asks for it again. Files that count are looked for, too.
- Times come from this run's journal; for steps that it has not run yet, from the newest runs before it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rekindle.engine.adapter import PreparedPipeline
from rekindle.engine.port import Engine
from rekindle.errors import JournalRefused, NewerJournal
from rekindle.journal.history import read
from rekindle.journal.keys import listed
from rekindle.journal.lease import Liveness, LivenessState
from rekindle.master.facts.stimuli import AttemptSealed
from rekindle.master.state.commands import SealAttempt
from rekindle.master.state.run_state import RunState, Segment
from rekindle.model.ids import AttemptId
from rekindle.observe.plan import Plan
from rekindle.observe.plan_ahead import play
from rekindle.observe.plan_make import PlanInputs, plan_of
from rekindle.observe.plan_times import StepRate, paces
from rekindle.pipeline.declared import Declared
from rekindle.pipeline.identity.changes import describe_change
from rekindle.results import manifest
from rekindle.runtime.loop import POLL_MS
from rekindle.runtime.opening import JournalView, RunIntent, codec, opening_of, sign_of
from rekindle.storage.store import Store

EARLIER_RUNS_MAX = 3
LOOK_SECONDS_MAX = 60.0


def foresee(
    store: Store,
    intent: RunIntent,
    prepared: PreparedPipeline,
    seen: JournalView | None,
    told: PlanInputs,
    *,
    parameters: Mapping[str, str],
    stale_seconds: float,
) -> Plan:
    """What a run with this intent would do now. Raises what it would refuse."""
    engine, known = prepared.engine, seen.state if seen else None
    counted = {name: step.segments for name, step in known.steps.items()} if known else {}
    ahead = play(
        known,
        opening_of(intent, engine.application, known),
        time.time_ns() // 1_000_000,
        lambda attempt: _look(engine, attempt),
        prepared.missing(counted),
        lambda step, count: told.paces[step].size(count) if step in told.paces else None,
    )
    living = _living(sign_of(store, seen, stale_seconds)) if seen and known else ""
    return plan_of(known, ahead, told, living=living, parameters=parameters)


def told_of(
    steps: Sequence[Declared], prepared: PreparedPipeline, known: RunState | None, earlier: Mapping[str, StepRate]
) -> PlanInputs:
    """What the engine and the code say of the steps, compared with a run that is `known`: this one, or the one whose
    results it reuses. A sink that is not kept itself publishes its one input."""
    spec = prepared.spec
    old = known.spec.fingerprints if known else spec.fingerprints
    return PlanInputs(
        order=tuple(prepared.why),
        members=spec.regions,
        notes=prepared.why,
        published={one.name: one.inputs[0] for one in steps if one.target is not None and one.name not in spec.regions},
        doubts=spec.doubts,
        changes={step: describe_change(old.get(step, {}), new) for step, new in spec.fingerprints.items()},
        paces=earlier,
        tasks=prepared.tasks,
        cores=prepared.cores,
        sizes=sizes,
        tables=prepared.tables,
        executors=prepared.executors,
    )


def paces_of(store: Store, pipeline: str, run: str, seen: JournalView | None = None) -> dict[str, StepRate]:
    """How fast the steps of a pipeline were: in this run, else in the newest before it. A journal that was `seen` is
    not read again."""
    found: dict[str, StepRate] = {}
    others = [name for name in reversed(listed(store, pipeline).values()) if name != run]
    for name in [*([run] if run else []), *others[:EARLIER_RUNS_MAX]]:
        known = seen.events if seen is not None and name == run else None
        try:
            events = known if known is not None else read(store, f"{pipeline}/{name}", codec()).events
        except (JournalRefused, NewerJournal):
            continue  # Another run's: how fast it was is no reason to hold this one up.
        found = {**paces(events), **found}
    return found


def sizes(segment: Segment) -> int | None:
    return manifest.bytes_of(segment.manifest, segment.partitions)


def _look(engine: Engine, attempt: AttemptId) -> AttemptSealed:
    """What a listing shows; nothing, if the store does not answer in time."""
    engine.send(SealAttempt(attempt))
    deadline = time.monotonic() + LOOK_SECONDS_MAX
    while time.monotonic() < deadline:
        for stimulus in engine.poll(POLL_MS):
            if isinstance(stimulus, AttemptSealed) and stimulus.attempt == attempt:
                return stimulus
    return AttemptSealed(attempt=attempt)


def _living(sign: Liveness) -> str:
    return str(sign.owner) if sign.life is LivenessState.LIVING else ""
