"""Paces from the times in a journal, estimates from paces, and numbers as people read them."""

from __future__ import annotations

import pytest

from master.driving import Driven
from rekindle.master.facts import stimuli as st
from rekindle.observe.plan_times import Span, StepRate, paces, span, whole
from rekindle.observe.words import bytes_text, count_text, names_text, span_text, time_text


def test_a_pace_is_the_wall_time_of_attempts_against_what_they_committed() -> None:
    run = Driven("a[4]")
    run.give(st.CommitsSeen(attempt=run.attempt("a"), partitions=run.graph.whole["a"], manifest=b"files"), after_ms=900)
    run.give(st.AttemptEnded(attempt=run.attempt("a")), after_ms=100)
    assert paces(run.journal) == {"a": StepRate(1000, 4)}


def test_an_attempt_of_a_dead_driver_ends_with_its_last_commit() -> None:
    run = Driven("a[4]")
    run.commit("a", "0-1")
    run.now += 10**9
    run.take_over()
    run.seal("a", "2")
    found = paces(run.journal)["a"]
    assert (found.wall_ms, found.partitions) == (1, 2)


@pytest.mark.parametrize(
    ("wanted", "cores", "remade", "expected"),
    [
        pytest.param(64, 4, False, Span(16_000, 16_000), id="all of it"),
        pytest.param(1, 4, False, Span(1_000, 1_000), id="one partition takes a whole wave"),
        pytest.param(1, 4, True, Span(1_000, 16_000), id="an exchange made again may cost all of it"),
        pytest.param(16, 0, False, Span(4_000, 16_000), id="cores not known: its share at least"),
    ],
)
def test_waves_of_tasks(wanted: int, cores: int, remade: bool, expected: Span) -> None:
    assert span(StepRate(16_000, 64), 64, wanted, cores, remakes_exchange=remade) == expected


def test_steps_that_do_not_wait_for_each_other_may_run_together() -> None:
    producers: dict[str, tuple[str, ...]] = {"a": (), "b": (), "c": ("a", "b")}
    spans: dict[str, Span | None] = {"a": Span(5, 6), "b": Span(3, 3), "c": Span(2, 2)}
    assert whole(spans, producers) == Span(7, 11)
    assert whole({**spans, "b": None}, producers) is None
    assert whole({"c": Span(2, 2)}, producers) == Span(2, 2)


def test_cores_are_busy_for_a_wave_each() -> None:
    assert StepRate(16_000, 64).core_ms(2, 64, 4) == 2_000


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "?"),
        (10, "under 1 s"),
        (8_200, "8 s"),
        (720_000, "12 min"),
        (11_400_000, "3 h 10 min"),
        (10**9, "12 days"),
    ],
)
def test_times(ms: int | None, text: str) -> None:
    assert time_text(ms) == text


def test_spans_bytes_and_counts() -> None:
    assert span_text(540_000, 720_000) == "9 to 12 min"
    assert span_text(540_000, 11_400_000) == "9 min to 3 h 10 min"
    assert span_text(1_000, 1_100) == "1 s"
    assert [bytes_text(one) for one in (None, 0, 999, 1_234, 41_200_000_000)] == [
        "?",
        "0 bytes",
        "999 bytes",
        "1.23 kB",
        "41.2 GB",
    ]
    assert [count_text(1, "partition"), count_text(2048, "partition")] == ["1 partition", "2,048 partitions"]


def test_names_are_listed_as_in_a_sentence() -> None:
    assert [names_text(["a", "b", "c"][:count]) for count in range(4)] == ["", "a", "a and b", "a, b and c"]
