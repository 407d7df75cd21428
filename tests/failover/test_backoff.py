"""Scenario table C: whether and when, with exact boundaries."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.failover.backoff import (
    Backoff,
    BackoffState,
    Exponential,
    FailureRate,
    FixedDelay,
    GiveUp,
    NoRestart,
    Restart,
    on_failure,
)
from rekindle.model.failures import Cause, FailureKind

BROKEN = Cause(FailureKind.EXCEPTION, "boom")
EXPONENTIAL = Exponential(
    initial_ms=100, factor=2.0, delay_ms_max=1000, jitter=0.5, reset_after_ms=5000, attempts_max=6
)


def play(backoff: Backoff, times: list[int], jitter: float = 0.0) -> list[str]:
    """What each failure leads to: "+delay" for a new attempt, "=" for one that joined, or who gave up."""
    state, story = BackoffState(), []
    for now in times:
        state, verdict = on_failure(backoff, state, BROKEN, now, jitter)
        match verdict:
            case Restart(at_ms, _, True):
                story.append(f"+{at_ms - now}")
            case Restart():
                story.append("=")
            case GiveUp(who, _):
                story.append(who)
    return story


ROWS = [
    pytest.param(NoRestart(), [0], ["no restart"], id="none: the first failure ends it"),
    pytest.param(FixedDelay(2, 50), [0, 50, 100], ["+50", "+50", "fixed delay"], id="fixed delay: two and no more"),
    pytest.param(FixedDelay(0, 50), [0], ["fixed delay"], id="fixed delay: none allowed"),
    pytest.param(
        FixedDelay(1, 50),
        [0, 0, 49, 50],
        ["+50", "=", "=", "fixed delay"],
        id="arriving together counts once; at the restart it is a new one",
    ),
    pytest.param(
        FixedDelay(2, 0), [5, 5, 6], ["+0", "=", "+0"], id="no delay: the same instant is together, the next is not"
    ),
    pytest.param(FixedDelay(2, 50), [100, 20, 90], ["+50", "+50", "fixed delay"], id="a clock that jumped back counts"),
    pytest.param(
        FailureRate(2, 1000, 10),
        [0, 500, 999],
        ["+10", "+10", "failure rate"],
        id="failure rate: the third within the interval",
    ),
    pytest.param(
        FailureRate(2, 1000, 10),
        [0, 500, 1000],
        ["+10", "+10", "+10"],
        id="failure rate: exactly an interval old counts no more",
    ),
    pytest.param(
        FailureRate(2, 1000, 10),
        [0, 500, 1000, 1499],
        ["+10", "+10", "+10", "failure rate"],
        id="failure rate: the window slides",
    ),
    pytest.param(
        EXPONENTIAL,
        [0, 1000, 2000, 3000, 4000, 5000, 6000],
        ["+100", "+200", "+400", "+800", "+1000", "+1000", "exponential delay"],
        id="exponential: grows, is capped, ends",
    ),
    pytest.param(
        EXPONENTIAL,
        [0, 1000, 1000 + 200 + 4999],
        ["+100", "+200", "+400"],
        id="exponential: one ms short of the quiet time",
    ),
    pytest.param(
        EXPONENTIAL,
        [0, 1000, 1000 + 200 + 5000],
        ["+100", "+200", "+100"],
        id="exponential: quiet for exactly the reset time",
    ),
    pytest.param(
        EXPONENTIAL, [0, 99, 100], ["+100", "=", "+200"], id="exponential: together while the restart is waiting"
    ),
]


@pytest.mark.parametrize(("backoff", "times", "story"), ROWS)
def test_stories(backoff: Backoff, times: list[int], story: list[str]) -> None:
    assert play(backoff, times) == story


@pytest.mark.parametrize(
    ("jitter", "first"),
    [
        pytest.param(0.0, "+100", id="no jitter"),
        pytest.param(1.0, "+150", id="all of it up"),
        pytest.param(-1.0, "+50", id="all of it down"),
        pytest.param(0.5, "+125", id="half of it"),
    ],
)
def test_jitter_is_an_argument(jitter: float, first: str) -> None:
    assert play(EXPONENTIAL, [0], jitter) == [first]


def test_no_jitter_unless_drawn() -> None:
    assert on_failure(EXPONENTIAL, BackoffState(), BROKEN, 0)[1] == Restart(100, 1, is_new_attempt=True)


def test_jitter_never_passes_the_maximum() -> None:
    assert play(EXPONENTIAL, [0, 2000, 4000, 6000, 8000], 1.0)[-1] == "+1000"


def test_thousands_of_attempts_do_not_overflow() -> None:
    patient = Exponential(initial_ms=1, factor=10.0, delay_ms_max=60_000, jitter=0.0, attempts_max=10**6)
    state = BackoffState(attempts=100_000)
    assert on_failure(patient, state, BROKEN, 0)[1] == Restart(60_000, 100_001, is_new_attempt=True)


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param(Cause(FailureKind.USER_ERROR), id="on top"),
        pytest.param(Cause(FailureKind.EXCEPTION, behind=Cause(FailureKind.USER_ERROR)), id="nested"),
    ],
)
@pytest.mark.parametrize("backoff", [NoRestart(), FixedDelay(9, 1), FailureRate(9, 1, 1), Exponential()], ids=str)
def test_an_unrecoverable_cause_is_never_retried(backoff: Backoff, cause: Cause) -> None:
    state, verdict = on_failure(backoff, BackoffState(), cause, 0)
    assert verdict == GiveUp("unrecoverable cause", FailureKind.USER_ERROR.value)
    assert state == BackoffState()


def test_an_accepted_restart_has_its_time_and_number() -> None:
    state, verdict = on_failure(FixedDelay(3, 50), BackoffState(), BROKEN, 1000)
    assert verdict == Restart(1050, 1, is_new_attempt=True)
    assert on_failure(FixedDelay(3, 50), state, BROKEN, 1010) == (state, Restart(1050, 1, is_new_attempt=False))


def test_a_suppressed_restart_names_who_gave_up_and_why() -> None:
    state = BackoffState(attempts=3, failed_at_ms=0, restart_at_ms=0)
    assert on_failure(FixedDelay(3, 50), state, BROKEN, 1)[1] == GiveUp(
        "fixed delay", "the limit of restarts is reached (3)"
    )
    assert on_failure(FailureRate(0, 9, 1), BackoffState(), BROKEN, 1)[1] == GiveUp(
        "failure rate", "more than 0 failures within 9 ms"
    )
    assert on_failure(Exponential(attempts_max=3), state, BROKEN, 1)[1] == GiveUp(
        "exponential delay", "the limit of restarts is reached (3)"
    )
    assert on_failure(NoRestart(), state, BROKEN, 1)[1] == GiveUp("no restart", "restarts are switched off")


def test_after_giving_up_nothing_joins_the_last_restart() -> None:
    state, _ = on_failure(FixedDelay(0, 50), BackoffState(), BROKEN, 0)
    assert isinstance(on_failure(FixedDelay(0, 50), state, BROKEN, 0)[1], GiveUp)


@given(
    st.lists(st.integers(0, 3000), max_size=60),
    st.sampled_from([NoRestart(), FixedDelay(4, 30), FailureRate(3, 500, 20), EXPONENTIAL]),
    st.floats(-1, 1),
)
@settings(deadline=None)
def test_attempts_are_bounded_whatever_the_clock_does(times: list[int], backoff: Backoff, jitter: float) -> None:
    """FixedDelay has no reset, so that its bound is absolute; the others are bounded within their time."""
    story = play(backoff, times, jitter)
    accepted = [word for word in story if word.startswith("+")]
    if isinstance(backoff, FixedDelay):
        assert len(accepted) <= backoff.attempts_max
    if isinstance(backoff, Exponential):
        assert all(50 <= int(word[1:]) <= backoff.delay_ms_max for word in accepted)
        assert len(accepted) <= backoff.attempts_max  # 3 s is too short for a quiet time
    if isinstance(backoff, NoRestart):
        assert not accepted
