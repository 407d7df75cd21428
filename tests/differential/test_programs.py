"""Random programs without Spark: drawn alike, readable, made smaller, and judged by what Spark promises of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from differential.cuts import kept_of
from differential.drawing import draw
from differential.judge import Outcome, compare
from differential.orders import Answer, Status
from differential.render import Judged, frames_of, judged_of, module_text, superset_of
from differential.report import script_text
from differential.shrink import shrink
from differential.sittings import Entry, Sittings, sum_of
from differential.values import Mode, Op, Program, Source, Step, after_change

SEEDS = range(300)
BY_ID = Judged(weak="", ids=(1,), ids_follow=True, is_ordered=False)
EXACT = Judged(weak="", ids=(), ids_follow=False, is_ordered=False)


def rows(*texts: str) -> Answer:
    return Answer(Status.ROWS, [text.split() for text in texts])


@pytest.mark.slow
def test_a_seed_is_one_program_and_its_text_is_python() -> None:
    for seed in SEEDS:
        program = draw(seed)
        assert program == draw(seed)
        ast.parse(module_text(program, "folder"))
        ast.parse(module_text(after_change(program), "folder"))


def test_every_mode_and_both_ways_to_use_rekindle_are_drawn() -> None:
    programs = [draw(seed) for seed in SEEDS]
    assert {program.mode for program in programs} == set(Mode)
    assert {program.is_onramp for program in programs} == {True, False}


def test_changed_programs_have_another_text_the_second_time() -> None:
    for program in (draw(seed) for seed in SEEDS):
        if program.mode is Mode.CHANGED:
            assert module_text(program, "folder") != module_text(after_change(program), "folder")


@pytest.mark.slow
def test_a_program_that_takes_any_rows_is_judged_by_all_of_them() -> None:
    weak = [program for program in map(draw, range(2000)) if judged_of(program).weak]
    assert weak
    for program in weak:
        assert not judged_of(superset_of(program)).weak


@pytest.mark.parametrize(
    ("judged", "expected", "found", "outcome"),
    [
        (EXACT, rows("a 1", "b 2"), rows("b 2", "a 1"), Outcome.EQUAL),
        (EXACT, rows("a 1", "a 1"), rows("a 1"), Outcome.DIFFERENT),
        (EXACT, rows("a 1"), rows("a 2"), Outcome.DIFFERENT),
        (Judged("", (), False, is_ordered=True), rows("a", "b"), rows("b", "a"), Outcome.DIFFERENT),
        (BY_ID, rows("a 1", "b 2"), rows("a 10", "b 20"), Outcome.EQUAL),
        (BY_ID, rows("a 1", "b 2"), rows("a 20", "b 10"), Outcome.DIFFERENT),
        (BY_ID, rows("a 1", "b 2"), rows("a 1", "b 1"), Outcome.DIFFERENT),
        (EXACT, rows("a"), Answer(Status.FAILED, error="RK400 RunFailed"), Outcome.RAW),
        (EXACT, rows("a"), Answer(Status.RAW, error="AnalysisException"), Outcome.RAW),
        (EXACT, rows("a"), Answer(Status.REFUSED, error="RK110 GraphRefused"), Outcome.REFUSED),
    ],
)
def test_what_is_equal(judged: Judged, expected: Answer, found: Answer, outcome: Outcome) -> None:
    assert compare(judged, expected, expected, found).outcome is outcome


def test_any_rows_are_right_if_they_are_in_the_input_and_as_many() -> None:
    limit = Judged("limit", (), False, False)
    everything = rows("a", "b", "c")
    assert compare(limit, rows("a", "b"), everything, rows("c", "a")).outcome is Outcome.EQUAL
    assert compare(limit, rows("a", "b"), everything, rows("c", "c")).outcome is Outcome.DIFFERENT
    assert compare(limit, rows("a", "b"), everything, rows("c")).outcome is Outcome.DIFFERENT


def test_a_failing_program_is_made_smaller_until_nothing_more_can_go() -> None:
    large = next(
        one for one in map(draw, range(3000)) if one.size[0] > 5 and any(op.kind == "sort" for _, _, op in one.ops())
    )
    small = shrink(large, lambda one: any(op.kind == "sort" for _, _, op in one.ops()), tries_max=1000)
    assert [op.kind for _, _, op in small.ops()] == ["sort"]
    assert small.size[2] <= 5 and not small.settings and small.mode is Mode.PLAIN
    ast.parse(script_text(small, compare(EXACT, rows("a"), rows("a"), rows("b"))))


def test_steps_that_auto_keeps_are_counted_and_the_others_named() -> None:
    source = Source("t0", "parquet", ("id", "k"), 10)
    sort = Op("sort", {"column": "k", "unique": "id", "is_descending": True})
    narrow = Op("filter", {"column": "k", "by": 2})
    steps = (Step("a", ("t0",), (sort,)), Step("b", ("a",), (narrow,)), Step("c", ("b",), (sort,), result="blocking"))
    program = Program(1, Mode.PLAIN, False, (source,), steps)
    assert frames_of(program)["c"].is_ordered
    cuts = {"a": "fused: pipelined into c: its order is read", "b": "fused: pipelined into c", "c": "compute: kept"}
    assert kept_of(program, cuts) == (0, 1, ["a: fused: pipelined into c: its order is read"])


def test_a_campaign_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first = Sittings(tmp_path)
    first.add(Entry(0, Mode.PLAIN, False, Outcome.EQUAL))
    first.add(Entry(1, Mode.FAULT, True, Outcome.DISCARDED))
    again = Sittings(tmp_path)
    assert list(zip(again.next_seeds(2), range(1), strict=False)) == [(2, 0)]
    assert sum_of(again.entries.values()).programs == 1
