"""From what a user asked for to a run, or to the plan of one. Both prepare the same, in one place.

- A run is claimed by its key; a plan only looks who has it. Nothing of a plan is written.
- No session is made for a run that is done, and nothing is prepared for one that a living master has. Of a run that is
  done it is said what changed since (done.py).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rekindle.engine.adapter import PreparedPipeline, PrepareRequest, RunAdapter, Stores
from rekindle.engine.location import run_root
from rekindle.errors import NotFound, PublishedDiffers, Refused, RekindleError, RowsNotConserved, RunFailed
from rekindle.gc.background_sweep import BackgroundSweep
from rekindle.gc.targets import note_targets
from rekindle.journal.keys import (
    claim,
    claim_anew,
    digest_of,
    enlist,
    find_claim,
    find_identity,
    identify,
    next_order,
    refuse_name,
)
from rekindle.journal.takeover import refuse_living
from rekindle.master.facts.events import Event
from rekindle.master.facts.run_spec import UserDecisions
from rekindle.master.facts.stimuli import ReusedResult
from rekindle.master.rules.holes import refuse_holes
from rekindle.master.rules.opening import changed_columns
from rekindle.master.rules.published import ELSEWHERE, written_once
from rekindle.master.state.run_state import Phase, RunState
from rekindle.model.failures import FailureKind
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.observe.notices import Notices
from rekindle.observe.plan import Plan
from rekindle.observe.plan_make import PlanInputs, done_plan
from rekindle.observe.plan_times import StepRate
from rekindle.observe.summary import RunSummary, SummaryBuilder, summary_of
from rekindle.observe.words import count_text
from rekindle.pipeline.constants import TimeAndSeed
from rekindle.pipeline.declared import Declared
from rekindle.pipeline.did_you_mean import did_you_mean
from rekindle.pipeline.table_versions import without as without_versions
from rekindle.publish.history import stale_after
from rekindle.publish.target import store_of
from rekindle.remedies import OVERTAKEN, CommandRemedy, StartKind, StartRemedy, TextRemedy, new_run
from rekindle.results import manifest
from rekindle.runtime.opening import JournalView, RunConstants, RunIntent, execute, look, sign_of
from rekindle.runtime.watcher import Watcher
from rekindle.service import reuse
from rekindle.service.done import differences
from rekindle.service.hooks import NoticeHook
from rekindle.service.options import RunOptions
from rekindle.service.planning import foresee, paces_of, sizes, told_of
from rekindle.service.reuse import EarlierResults
from rekindle.service.vertices import vertex_of
from rekindle.storage.probe import probe
from rekindle.storage.schemes import is_local
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store, open_target

# Stands in the key of what a script publishes, beside its parameters.
PUBLISHED_TO = "published to"
# The place of a pipeline that never ran in its location: no target can be of it.
NOT_COUNTED_YET = "new"

MakeAdapter = Callable[[], RunAdapter]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What the user asked for. `session` is one of the engine's, or a function that gives one; `key` are the parameters
    as they stand in the key of the run."""

    pipeline: str
    steps: Sequence[Declared]
    session: Any
    location: str
    options: RunOptions
    parameters: Mapping[str, Any]
    key: Mapping[str, str]

    @property
    def store(self) -> Store:
        return open_store(self.location, self.options.storage)

    @property
    def targets(self) -> dict[str, str]:
        """Where each sink's result goes, as the user wrote it."""
        return {one.name: one.target.shown for one in self.steps if one.target is not None}


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that can be started or planned: what was found of it, and what the engine made of the pipeline."""

    seen: JournalView | None
    prepared: PreparedPipeline
    intent: RunIntent
    earlier: EarlierResults | None = None

    @property
    def known(self) -> RunState | None:
        return self.seen.state if self.seen is not None else None


def run(wish: RunRequest, make: MakeAdapter) -> RunSummary:
    """Until everything is published."""
    store, options = wish.store, wish.options
    name = options.run or (fresh_name() if options.new else claim(store, wish.pipeline, wish.key, fresh_name()).run)
    if options.new:
        refuse_name(name)
    seen = _seen(store, wish, name)
    known = seen.state
    _refuse_done(wish, known)
    if known is not None and known.phase is Phase.SUCCEEDED:
        differs = _differences(wish, make, known)
        return summary_of(
            known,
            SummaryBuilder(),
            was_done=True,
            was_resumed=False,
            sizes=sizes,
            results=wish.targets,
            differs=differs,
        )
    if known is not None and not options.force:
        refuse_living(name, sign_of(store, seen, options.stale_seconds), options.stale_seconds)
    ready = make_ready(wish, make, name, seen, order_of(store, wish.pipeline, known))
    if options.new:
        # Only now: a start that is refused must not take the key from the run that has it.
        claim_anew(store, wish.pipeline, wish.key, name)
    return sum_up(wish, ready, *perform(wish, ready))


def order_of(store: Store, pipeline: str, known: RunState | None) -> int:
    """The number of a run, or the one that it would get if it began now, in a location that is told from others. A
    start that is refused is no run, so it takes none."""
    identify(store, pipeline)
    return known.order if known is not None else next_order(store, pipeline)


def perform(wish: RunRequest, ready: PreparedRun) -> tuple[RunState, SummaryBuilder]:
    """Execute what is ready, after its plan was told; how it ended, and what this process did for it. Raises
    `RunFailed` where it stopped before its end."""
    store, options = wish.store, wish.options
    if options.on_plan is not None:
        paces = paces_of(store, wish.pipeline, ready.intent.run, ready.seen)
        options.on_plan(_plan_ready(store, wish, ready, paces))
    _probe_targets(wish, ready.prepared.bases)
    intent, tally = ready.intent, SummaryBuilder()
    note_targets(store, wish.pipeline, ready.prepared.bases)
    if ready.known is None:
        intent = replace(intent, reused=_brought(wish, ready))
        intent = replace(intent, order=enlist(store, wish.pipeline, intent.run))
    with BackgroundSweep(lambda: wish.store, wish.pipeline, options.sweep), NoticeHook(options.hook) as hook:
        state = execute(
            store,
            intent,
            ready.prepared.engine,
            seen=ready.seen,
            force=options.force,
            stale_seconds=options.stale_seconds,
            watcher=_all(_first(options.on_begun), tally.take, Notices(hook.tell), options.watcher),
        )
        if state.phase is not Phase.SUCCEEDED:
            raise _failure_of(state)
    return state, tally


def sum_up(wish: RunRequest, ready: PreparedRun, state: RunState, tally: SummaryBuilder) -> RunSummary:
    """A run that is complete; the state that was found is that of one that was done before."""
    known = ready.known
    return summary_of(
        state,
        tally,
        was_done=state is known,
        was_resumed=known is not None and state is not known,
        earlier=paces_of(wish.store, wish.pipeline, state.run, ready.seen) if known else {},
        sizes=sizes,
        cores=ready.prepared.cores,
        results=wish.targets,
        stale=_made_stale(wish, ready.prepared.bases),
    )


def _made_stale(wish: RunRequest, bases: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The runs of later keys, by target, that read what this run replaced. The run is done, whatever the store says
    now: the next run that reads a stale version is refused."""
    found = {}
    for base in bases:
        with contextlib.suppress(RekindleError):
            stale = stale_after(open_target(base, wish.options.storage), _key_of(wish))
            if stale:
                found[base] = tuple(one.fence.order for one in stale)
    return found


def _key_of(wish: RunRequest) -> str:
    return digest_of({name: value for name, value in wish.key.items() if name != PUBLISHED_TO})


def plan(wish: RunRequest, make: MakeAdapter) -> Plan:
    """What `run` would do now."""
    store, options = wish.store, wish.options
    held = None if options.new else find_claim(store, wish.pipeline, wish.key)
    name = options.run or (held.run if held else "")
    seen = _seen(store, wish, name) if name else None
    known = seen.state if seen is not None else None
    _refuse_done(wish, known)
    if known is not None and known.phase is Phase.SUCCEEDED:
        return done_plan(known, PlanInputs(sizes=sizes), _differences(wish, make, known))
    order = known.order if known else next_order(store, wish.pipeline)
    ready = make_ready(wish, make, name or fresh_name(), seen, order)
    try:
        return _plan_ready(store, wish, ready, paces_of(store, wish.pipeline, name, seen))
    finally:
        ready.prepared.engine.close()


def stores_of(storage: Mapping[str, str]) -> Stores:
    """Targets may lie elsewhere than the location."""
    return partial(open_target, storage=storage)


def _probe_targets(wish: RunRequest, bases: Iterable[str]) -> None:
    """A store that ignores conditions would let a late publisher put yesterday back. That of the location is tried with
    the journal; a disk has links."""
    found = {store_of(base): base for base in bases if not is_local(base)}
    for store, base in found.items():
        if store != store_of(wish.location):
            probe(open_target(base, wish.options.storage))


def _brought(wish: RunRequest, ready: PreparedRun) -> tuple[ReusedResult, ...]:
    """What the run takes from an earlier one, whose files it has from now on. What is lost there is computed."""
    earlier = ready.earlier
    while earlier is not None and earlier.results:
        copies = list(earlier.copies(run_root(wish.location, wish.pipeline, earlier.run)))
        lost = ready.prepared.copy([copy for _, copy in copies]) if copies else frozenset()
        if not lost:
            return earlier.results
        earlier = earlier.without({step for step, copy in copies if copy.source in lost}, ready.prepared.spec)
    return ()


def _plan_ready(store: Store, wish: RunRequest, ready: PreparedRun, earlier: Mapping[str, StepRate]) -> Plan:
    known = ready.known or (ready.earlier.state if ready.earlier is not None else None)
    told = replace(told_of(wish.steps, ready.prepared, known, earlier), not_taken=_not_taken(ready))
    stale = wish.options.stale_seconds
    return foresee(store, ready.intent, ready.prepared, ready.seen, told, parameters=wish.key, stale_seconds=stale)


def _not_taken(ready: PreparedRun) -> dict[str, str]:
    """Why a step is computed although an earlier run has its result."""
    if ready.earlier is None:
        return {}
    number = ready.earlier.state.order
    return {step: f"not taken from run {number}: {why}" for step, why in ready.earlier.not_given.items()}


def _seen(store: Store, wish: RunRequest, name: str) -> JournalView:
    seen = look(store, wish.pipeline, name)
    if seen.state is None and wish.options.run and not wish.options.new:
        raise NotFound(f"{wish.pipeline} has no run {name}", CommandRemedy("runs", "see those that there are"))
    return seen


def _refuse_done(wish: RunRequest, known: RunState | None) -> None:
    """Said before the run is called done: what is published cannot be left out, nor be elsewhere."""
    without = _left_out(wish, known)
    if known is None or known.phase is not Phase.SUCCEEDED:
        return
    refuse_holes(known, without, ())
    if told := _other_sinks(wish, known):
        raise Refused(f"run {known.run} is done with other sinks: {', '.join(told)}", new_run())


def _other_sinks(wish: RunRequest, known: RunState) -> list[str]:
    was, now = set(known.spec.targets.values()), {one.destination for one in wish.steps if one.target is not None}
    if was == now or (known.sinks and not known.spec.targets):
        return []
    return [
        *(f"it published {one}, which the code no longer has" for one in sorted(was - now)),
        *(f"{one} is new in the code" for one in sorted(now - was)),
    ]


def is_outdated(wish: RunRequest, make: MakeAdapter) -> bool:
    """Whether the run of this key is done, and with other code, inputs or sinks than there are now."""
    held = find_claim(wish.store, wish.pipeline, wish.key)
    known = look(wish.store, wish.pipeline, held.run).state if held is not None else None
    if known is None or known.phase is not Phase.SUCCEEDED:
        return False
    return bool(_other_sinks(wish, known) or _differences(wish, make, known))


def _differences(wish: RunRequest, make: MakeAdapter, known: RunState) -> tuple[str, ...]:
    """What changed since the run was done. A session that is there is used; one is made only on the user's word."""

    def prepare() -> PreparedPipeline:
        session = wish.session() if callable(wish.session) else wish.session
        wanted = wanted_of(wish, known.run, known.order, RunConstants.of(known))
        return make().prepare(session, replace(wanted, published=frozenset(known.sinks)))

    has_session = not callable(wish.session) or wish.options.compare_done
    return differences(wish.steps, known, prepare if has_session else None)


def _left_out(wish: RunRequest, known: RunState | None) -> dict[str, Partitions]:
    """The partitions to publish without, by step."""
    found: dict[str, Partitions] = {}
    for given in wish.options.without:
        if known is None:
            raise Refused(
                f"{given} cannot be left out: the run has not started", "run it: only what failed is left out"
            )
        step, partition = vertex_of(known, given, known.run, partial(_leave_out, given))
        if partition is None:
            hint = _leave_out(given, f"{step}[0]")
            raise Refused(f"{given} cannot be left out: it has no partition number", hint)
        found[step] = found.get(step, EMPTY) | Partitions((partition,))
    return found


def _leave_out(given: str, vertex: str) -> StartRemedy:
    return StartRemedy(without=(vertex,), drops=(given,))


def make_ready(wish: RunRequest, make: MakeAdapter, name: str, seen: JournalView | None, order: int) -> PreparedRun:
    adapter, known = make(), seen.state if seen is not None else None
    session = wish.session() if callable(wish.session) else wish.session
    constants = RunConstants.of(known) if known else RunConstants.fresh(adapter.pinned_settings(session))
    if known is not None and wish.options.replace:
        sources = _sources_of(wish, known)
        constants = replace(constants, settings=without_versions(constants.settings, sources))
    published = frozenset(known.published) if known is not None else frozenset()
    wanted = replace(wanted_of(wish, name, order, constants), published=published)
    prepared = adapter.prepare(session, wanted)
    if known is not None:
        _refuse_other_columns(known, prepared, wish.options.accept_change)
    intent = RunIntent(
        pipeline=wish.pipeline,
        run=name,
        spec=prepared.spec,
        decisions=UserDecisions(
            accepted=_kept(wish.options.accept_change, prepared, lambda one: StartRemedy(accept_change=one)),
            replaced=_kept(wish.options.replace, prepared, lambda one: StartRemedy(replace=one)),
            without=_left_out(wish, known),
            republish=wish.options.republish,
            strategy=wish.options.chosen_strategy,
        ),
        order=order,
        config=wish.options.limits,
        constants=replace(constants, settings={**constants.settings, **prepared.settings}),
    )
    if known is not None or not wish.options.reuse or not intent.config.keep_ms:
        return PreparedRun(seen, prepared, intent)
    earlier = reuse.find(wish.store, wish.pipeline, name, wish.key, prepared.spec)
    reused = earlier.results if earlier is not None else ()
    return PreparedRun(seen, prepared, replace(intent, reused=reused), earlier)


def _sources_of(wish: RunRequest, known: RunState) -> set[str]:
    """The sources that are read again because a step is computed again: all above it, up to other kept steps."""
    inputs = {one.name: one.inputs for one in wish.steps}
    found, todo = set[str](), [name for name in wish.options.replace if name in inputs]
    while todo:
        name = todo.pop()
        found.add(name)
        todo += [one for one in inputs[name] if one not in known.steps and one not in found]
    return found


def _refuse_other_columns(known: RunState, prepared: PreparedPipeline, accepted: Iterable[str]) -> None:
    """Results whose columns are others, or in another order, cannot stand beside those that are made now."""
    for name in accepted:
        step, now = known.steps.get(name), prepared.spec.columns.get(name)
        if step is None or not step.segments or now is None:
            continue
        before = prepared.columns_in(manifest.schema_of(step.segments[0].manifest))
        if list(before.items()) != list(now.items()):
            told = changed_columns({name: before}, {name: now}) or [f"the columns of {name} are in another order"]
            prepared.engine.close()
            raise Refused(
                f"the kept rows of {name} have other columns than it has now: {'; '.join(told)}",
                (StartRemedy(to="compute it again", drops=(name,)), TextRemedy("or restore the columns")),
            )


def wanted_of(wish: RunRequest, name: str, order: int, constants: RunConstants) -> PrepareRequest:
    """What the engine is to prepare for the run of this name."""
    return PrepareRequest(
        pipeline=wish.pipeline,
        order=order,
        steps=wish.steps,
        parameters=wish.parameters,
        constants=TimeAndSeed(constants.run_time_ms, constants.seed),
        settings=constants.settings,
        root=run_root(wish.location, wish.pipeline, name),
        stores=stores_of(wish.options.storage),
        place=find_identity(wish.store, wish.pipeline) or NOT_COUNTED_YET,
        takes=frozenset(wish.options.take_target),
        key=_key_of(wish),
    )


def _all(*watchers: Watcher) -> Watcher:
    def watch(events: tuple[Event, ...], state: RunState) -> None:
        for watcher in watchers:
            watcher(events, state)

    return watch


def _first(tell: Callable[[], None]) -> Watcher:
    """Of the decisions that it is told only the first one counts, which opens the epoch."""
    left = [tell]

    def watch(events: tuple[Event, ...], state: RunState) -> None:
        if left:
            left.pop()()

    return watch


def _failure_of(state: RunState) -> RunFailed:
    failing = state.failing
    told = [f"run {state.run} of {state.pipeline} stopped{f': {failing.gave_up}' if failing else ''}"]
    for failure in failing.failures if failing else ():
        where = f"{failure.step}[{failure.partitions}]" if failure.partitions else failure.step
        told.append(f"  {where} {failure.cause.root.text or failure.cause.root.kind.value}")
    for name, step in state.steps.items():
        total = count_text(state.layout.graph.steps[name].partitions, "partition")
        told.append(f"  {name}: {len(step.committed):,} of {total} kept")
    once = written_once(state, failing.differs) if failing is not None and failing.differs is not None else ()
    told += [f"  {sink} can be published only once" for sink in once]
    if once:
        return RunFailed("\n".join(told), new_run(ELSEWHERE), is_resumable=False)
    if failing is not None and failing.differs is not None:
        return PublishedDiffers("\n".join(told), PublishedDiffers.advice)
    if failing is not None and any(one.cause.root.kind is FailureKind.INVARIANT for one in failing.failures):
        return RowsNotConserved("\n".join(told), RowsNotConserved.advice)
    if state.gave_up_for_good is not None:
        return RunFailed("\n".join(told), OVERTAKEN, is_resumable=False)
    return RunFailed("\n".join(told), _go_on(state))


def _go_on(state: RunState) -> StartRemedy:
    """What to do about a run that stopped; where a source was replaced under it, that is read again."""
    failures = state.failing.failures if state.failing is not None else ()
    steps = tuple(sorted({one.step for one in failures if one.cause.root.kind is FailureKind.INPUT_CHANGED}))
    to = "read it again" if steps else "correct it, then"
    return StartRemedy(to=to, kind=StartKind.RESUME, replace=steps)


def _kept(
    names: Iterable[str], prepared: PreparedPipeline, instead: Callable[[tuple[str, ...]], StartRemedy]
) -> frozenset[str]:
    """A fused step has no partitions of its own: the word is given for the kept step that it is part of."""
    for name in names:
        if name in prepared.spec.regions:
            continue
        roots = prepared.spec.regions_with(name)
        if roots:
            hint = replace(instead(tuple(roots)), drops=(name,))
            raise Refused(f"{name} is pipelined into {' and '.join(roots)}", hint)
        raise Refused(f"there is no step {name}", did_you_mean(name, prepared.why))
    return frozenset(names)


def fresh_name() -> str:
    """Sorts by time, and is used once."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
