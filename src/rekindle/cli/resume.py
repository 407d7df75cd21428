"""`rekindle resume`: go on with a run that did not finish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never

import click
import msgspec

from rekindle.cli.catalog import Named, find_run, runs_of
from rekindle.cli.options import Settings, pipeline_argument, run_argument, with_settings
from rekindle.cli.plan import console, tell
from rekindle.cli.run_options import Choices, with_choices
from rekindle.cli.run_session import LazySession
from rekindle.cli.run_start import Starting, ended, execute
from rekindle.cli.typed import learn
from rekindle.errors import NewerJournal, NotFound, RekindleError, StoreFailed
from rekindle.journal.keys import parameters_of
from rekindle.master.state.run_state import Phase, RunState
from rekindle.observe.words import count_text
from rekindle.remedies import CommandRemedy
from rekindle.runtime.opening import peek
from rekindle.service.streaming import look
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store
from rekindle.streams.stream_events import StreamPhase
from rekindle.streams.stream_state import StreamState

LOOKED_AT_MAX = 50
OTHERS_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class ResumableRun:
    """A run to go on with, why it, and the parameters of its key."""

    named: Named
    why: str
    parameters: Mapping[str, str]
    available_now: bool = False

    def __str__(self) -> str:
        given = " ".join(f"{name}={value}" for name, value in self.parameters.items())
        what = "stream" if self.named.is_stream else "run"
        return f"resuming {what} {self.named}{f' ({given})' if given else ''}: {self.why}"


@click.command("resume")
@with_settings
@with_choices
@pipeline_argument
@run_argument
def command(pipeline: str, run: str | None, settings: Settings, choices: Choices) -> int:
    """Resume a run that did not finish: RUN, or the newest one that can be resumed.

    The parameters are those the run was started with. Committed results are reused. The plan is printed first.

    Of a stream, all regions start again after the last batch of each. It ends when all input was read if it was started
    with `--available-now`; otherwise it runs until it is stopped.
    """
    with LazySession(pipeline, choices) as session:
        loaded = session.load()
        config = settings.located(session.properties())
        chosen = choose(open_store(config.location, config.storage), loaded.pipeline.name, run or "")
        learn(run=str(chosen.named.number), parameters=chosen.parameters)
        tell(console(), str(chosen))
        starting = Starting(
            named=pipeline,
            loaded=loaded,
            session=session,
            settings=settings,
            config=config,
            parameters=chosen.parameters,
            choices=choices,
        )
        return ended(execute(starting, run=chosen.named.run, available_now=chosen.available_now))


def choose(store: Store, pipeline: str, word: str) -> ResumableRun:
    """The run that was named, else the newest that can be resumed; those that could be too are told."""
    keys = parameters_of(store, pipeline)
    if word:
        named = find_run(store, word if "/" in word else f"{pipeline}/{word}")
        if named.pipeline != pipeline:
            raise NotFound(f"run {named} is not a run of {pipeline}", "name the file of its pipeline")
        is_ended_by_input = named.is_stream and _is_available_now(store, named)
        return ResumableRun(named, "named on the command line", keys.get(named.run, {}), is_ended_by_input)
    found = _resumable(store, pipeline, keys)
    if not found:
        raise NotFound(
            f"no run of {pipeline} can be resumed",
            (CommandRemedy("run", "start one"), CommandRemedy("runs", "or see those that there are")),
        )
    newest, *others = found
    if not others:
        return newest
    shown = ", ".join(str(one.named) for one in others[:OTHERS_SHOWN_MAX])
    why = f"{newest.why}; it is the newest of {len(others) + 1} runs that can be resumed (others: {shown})"
    return replace(newest, why=why)


def _resumable(store: Store, pipeline: str, keys: Mapping[str, Mapping[str, str]]) -> list[ResumableRun]:
    """Newest first. A run that a newer one of the same parameters replaced is none."""
    found: list[ResumableRun] = []
    seen: list[Mapping[str, str]] = []
    for named in list(reversed(runs_of(store, pipeline)))[:LOOKED_AT_MAX]:
        key = keys.get(named.run)
        if key is None or key in seen:
            continue
        seen.append(key)
        why = _why(store, named)
        if why:
            found.append(ResumableRun(named, why, key, named.is_stream and _is_available_now(store, named)))
    return found


def _is_available_now(store: Store, named: Named) -> bool:
    """Whether the last start of a stream was to end when all input was read: a resume keeps to that."""
    state = look(store, named.pipeline, named.run).state
    return state is not None and state.spec.is_available_now


def _why(store: Store, named: Named) -> str:
    try:
        if named.is_stream:
            stream = look(store, named.pipeline, named.run).state
            return "" if stream is None else stream_reason(stream)
        state = peek(store, named.pipeline, named.run)
    except (StoreFailed, NewerJournal):
        raise  # A newer release has been here: no run is chosen over one that cannot be read, unless it is named.
    except (RekindleError, msgspec.MsgspecError, AssertionError, ValueError, KeyError):
        return ""  # Closed, or a journal that cannot be read: `rekindle show` says which. Others can be resumed.
    return "" if state is None else reason(state)


def stream_reason(state: StreamState) -> str:
    """Why a stream can be resumed; empty where it had read all its input, so that its next start is no resume."""
    regions = f"{count_text(len(state.spec.names), 'region')} go on after their last batches"
    match state.phase:
        case StreamPhase.RUNNING | StreamPhase.STOPPING:
            return f"it did not come to its end, {regions}"
        case StreamPhase.STOPPED | StreamPhase.FAILED:
            return f"it {'was stopped' if state.phase is StreamPhase.STOPPED else 'failed'}, {regions}"
        case StreamPhase.FINISHED | StreamPhase.CLOSED:
            return ""
        case _:  # pragma: no cover
            assert_never(state.phase)


def reason(state: RunState) -> str:
    """Why a run can be resumed; empty where it cannot."""
    if not state.is_resumable:
        return ""
    done = sum(len(step.available | step.released) for step in state.steps.values())
    total = sum(state.layout.graph.steps[name].partitions for name in state.steps)
    kept = f"{done:,} of {total:,} partitions are done"
    return f"it {'did not finish' if state.phase is Phase.RUNNING else 'stopped'}, {kept}"
