"""What gc may do with a run and with its files: every row of the table, and that waste stays waste."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from rekindle.gc.inspect_run import known_of
from rekindle.gc.policy import (
    AttemptFacts,
    FileUse,
    GcAction,
    Retention,
    RunCondition,
    RunFacts,
    is_ripe,
    judge_run,
    use_of,
)
from rekindle.journal.history import read
from rekindle.master.facts.events import AttemptOpened
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.state.apply import fold
from rekindle.master.state.run_state import Phase, RunState
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.runtime.opening import RunIntent, codec, execute
from rekindle.storage.memory import MemoryStore
from rekindle.testing.drawing import draw
from support.instant import RUN, Instant
from support.location import AT_ONCE

TERMS = Retention(grace_ms=10, retention_ms=100)
LEAVE, SWEEP, CLOSE = GcAction.LEAVE, GcAction.SWEEP, GcAction.CLOSE


@pytest.mark.parametrize(
    ("facts", "act", "because"),
    [
        pytest.param(
            RunFacts(found=RunCondition.LIVING, silent_ms=10**9),
            LEAVE,
            "its driver is alive",
            id="a living master keeps its run",
        ),
        pytest.param(
            RunFacts(found=RunCondition.LIVING, silent_ms=0, is_asked=True),
            LEAVE,
            "its driver is alive",
            id="also against the user",
        ),
        pytest.param(
            RunFacts(found=RunCondition.UNREADABLE, silent_ms=10**9),
            LEAVE,
            "its journal cannot be read",
            id="a damaged journal",
        ),
        pytest.param(
            RunFacts(found=RunCondition.NEVER_BEGAN, silent_ms=10**9),
            LEAVE,
            "it never started",
            id="a run without a journal",
        ),
        pytest.param(RunFacts(found=RunCondition.UNFINISHED, silent_ms=0), SWEEP, "it can be resumed", id="failed now"),
        pytest.param(
            RunFacts(found=RunCondition.UNFINISHED, silent_ms=109), SWEEP, "it can be resumed", id="in the last moment"
        ),
        pytest.param(
            RunFacts(found=RunCondition.UNFINISHED, silent_ms=110),
            CLOSE,
            "it was not resumed in time",
            id="grace and retention are over",
        ),
        pytest.param(
            RunFacts(found=RunCondition.UNFINISHED, silent_ms=0, is_asked=True),
            CLOSE,
            "you released it",
            id="the user gives it up",
        ),
        pytest.param(
            RunFacts(found=RunCondition.UNFINISHED, silent_ms=10**9, is_pinned=True),
            SWEEP,
            "it is pinned",
            id="pinned: never",
        ),
        pytest.param(
            RunFacts(found=RunCondition.UNFINISHED, is_pinned=True, is_asked=True),
            SWEEP,
            "it is pinned",
            id="a pin holds against release",
        ),
        pytest.param(
            RunFacts(found=RunCondition.UNFINISHED, silent_ms=10**9, is_kept_forever=True),
            SWEEP,
            "a step of it is kept forever",
            id="for ever",
        ),
        pytest.param(
            RunFacts(found=RunCondition.UNFINISHED, silent_ms=0, is_asked=True, is_kept_forever=True),
            CLOSE,
            "you released it",
            id="until asked",
        ),
        pytest.param(
            RunFacts(found=RunCondition.SUCCEEDED, silent_ms=10**9),
            SWEEP,
            "it succeeded",
            id="a key goes on to say done",
        ),
        pytest.param(
            RunFacts(found=RunCondition.SUCCEEDED, silent_ms=0, is_asked=True),
            CLOSE,
            "you released it",
            id="succeeded, given up",
        ),
        pytest.param(
            RunFacts(found=RunCondition.SUCCEEDED, is_kept_too_long=True),
            GcAction.RELEASE,
            "its results were kept for as long as it was told to",
            id="succeeded, and kept long enough",
        ),
        pytest.param(
            RunFacts(found=RunCondition.SUCCEEDED, is_kept_too_long=True, is_pinned=True),
            SWEEP,
            "it is pinned",
            id="a pin keeps results, too",
        ),
        pytest.param(
            RunFacts(found=RunCondition.CLOSING, silent_ms=0, is_pinned=True), CLOSE, "gc is closing it", id="goes on"
        ),
        pytest.param(
            RunFacts(found=RunCondition.CLOSED, silent_ms=10**9), SWEEP, "it is closed", id="late files of a closed run"
        ),
    ],
)
def test_what_may_be_done_with_a_run(facts: RunFacts, act: GcAction, because: str) -> None:
    verdict = judge_run(facts, TERMS)
    assert (verdict.act, verdict.because) == (act, because)


def test_it_is_told_how_long_a_run_can_still_be_resumed() -> None:
    assert judge_run(RunFacts(found=RunCondition.UNFINISHED, silent_ms=70), TERMS).left_ms == 40
    assert judge_run(RunFacts(found=RunCondition.SUCCEEDED, silent_ms=70), TERMS).left_ms is None
    assert judge_run(RunFacts(found=RunCondition.UNFINISHED, silent_ms=70, is_kept_forever=True), TERMS).left_ms is None


FACTS = some.builds(
    RunFacts,
    found=some.sampled_from(RunCondition),
    silent_ms=some.integers(0, 10**6),
    is_pinned=some.booleans(),
    is_asked=some.booleans(),
    is_kept_forever=some.booleans(),
    is_kept_too_long=some.booleans(),
)
SOME_TERMS = some.builds(Retention, some.integers(0, 10**5), some.integers(0, 10**5))


@given(FACTS, SOME_TERMS)
def test_a_run_is_closed_only_if_it_was_given_up(facts: RunFacts, terms: Retention) -> None:
    verdict = judge_run(facts, terms)
    is_given_up = facts.found is RunCondition.UNFINISHED and facts.silent_ms >= terms.grace_ms + terms.retention_ms
    is_over = is_given_up and not facts.is_kept_forever
    may_close = not facts.is_pinned and (is_over or (facts.is_asked and facts.found in ENDED))
    assert (verdict.act is GcAction.CLOSE) == (may_close or facts.found is RunCondition.CLOSING)


ENDED = (RunCondition.UNFINISHED, RunCondition.SUCCEEDED)


@given(FACTS, SOME_TERMS, some.integers(0, 10**5))
def test_time_only_takes_away_what_a_run_keeps(facts: RunFacts, terms: Retention, later: int) -> None:
    order = list(GcAction)
    now = judge_run(facts, terms).act
    then = judge_run(replace(facts, silent_ms=facts.silent_ms + later), terms).act
    assert order.index(then) >= order.index(now)


def at(number: int) -> AttemptId:
    return AttemptId("a", Generation(0), Epoch(1), number)


@pytest.mark.parametrize(
    ("attempt", "use"),
    [
        (at(1), FileUse.OPEN),
        (at(2), FileUse.READ),
        (at(3), FileUse.COUNTED),
        (at(4), FileUse.UNCOUNTED),
        (at(5), FileUse.UNKNOWN),
    ],
)
def test_what_the_files_of_an_attempt_are_for(attempt: AttemptId, use: FileUse) -> None:
    every = frozenset({at(2), at(3), at(4)})
    known = AttemptFacts(frozenset({at(1)}), frozenset({at(2)}), frozenset({at(2), at(3)}), every)
    assert use_of(attempt, known) is use
    assert use_of(attempt, AttemptFacts(known.open, known.read, known.counted, every, True)) is FileUse.AFTER_CLOSE
    assert use.is_waste == (use in (FileUse.UNCOUNTED, FileUse.UNKNOWN))


def test_files_of_no_attempt_are_strays_and_go() -> None:
    assert use_of(None, AttemptFacts()) is FileUse.STRAY and FileUse.STRAY.is_waste


def test_waste_goes_at_the_grace_time_and_not_before() -> None:
    assert [is_ripe(age, TERMS) for age in (-5, 9.9, 10, 11)] == [False, False, True, True]


def lives(seed: int) -> MemoryStore:
    """A run through failures, deaths and resumes; what happens follows from the seed."""
    store, chance = MemoryStore(), Random(seed)
    graph = draw("a[4] =blocking=> b[4] =blocking all=> c[3]\na =blocking=> d[4]")
    intent = RunIntent(
        pipeline="daily", run="run-1", spec=RunSpec(graph=GraphSpec.of(graph), sinks=("c", "d")), config=AT_ONCE
    )

    def breaks(attempt: AttemptId, partitions: Partitions) -> Partitions:
        return Partitions(n for n in partitions if chance.random() < 0.3) if chance.random() < 0.5 else EMPTY

    for life in range(6):
        engine = Instant(f"app-{life}", chance.randrange(12) if life < 5 else 10**9, breaks)
        with suppress(KeyboardInterrupt):
            if execute(store, intent, engine, force=True).phase is Phase.SUCCEEDED:
                break
    return store


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(some.integers(0, 10**9))
def test_what_is_waste_in_one_moment_is_never_needed_later(seed: int) -> None:
    opened: set[AttemptId] = set()
    waste: set[AttemptId] = set()
    state: RunState | None = None
    for record in read(lives(seed), RUN, codec()).records:
        state = fold(state, record.events)
        assert state is not None
        opened |= {event.attempt for event in record.events if isinstance(event, AttemptOpened)}
        uses = {attempt: use_of(attempt, known_of(state)) for attempt in opened}
        assert all(uses[attempt].is_waste for attempt in waste)
        waste |= {attempt for attempt, use in uses.items() if use.is_waste}
