"""The view of a run: every partition once, every decision counted, whatever the journal holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from master.driving import Driven
from observe.telling import RECORDINGS, name_of, records_in
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.events import AttemptOpened, EpochOpened, FailureHandled
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import DeclaredStep, RunSpec
from rekindle.master.state.apply import fold
from rekindle.master.state.run_state import Phase
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.observe.picture_page import page
from rekindle.observe.picture_svg import text as as_text
from rekindle.observe.show import INTERRUPTED, RunView, view_of
from rekindle.observe.show_words import brief, clock, one_line, to_json


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_a_recorded_run_is_told_in_full(path: Path) -> None:
    records = records_in(path)
    events = [event for record in records for event in record.events]
    view, state = view_of(record.events for record in records)
    assert state == fold(None, events)
    for step in view.steps:
        assert sum(share.count for share in step.shares) == step.partitions
        assert step.committed == len(state.steps[step.name].committed) == step.reused + step.computed - step.released
    assert len(view.attempts) == sum(isinstance(event, AttemptOpened) for event in events)
    assert len(view.failures) == sum(len(e.failures) for e in events if isinstance(e, FailureHandled))
    assert len(view.drivers) == sum(isinstance(event, EpochOpened) for event in events)
    running = {str(key) for key in state.attempts}
    assert {one.name for one in view.attempts if one.outcome == "running"} == running
    told = json.loads(to_json(view))
    assert [one["partitions"] for one in told["attempts"]] == [str(one.partitions) for one in view.attempts]


def view(run: Driven) -> RunView:
    return view_of([[event] for event in run.journal])[0]


def test_what_ran_what_was_reused_and_what_ran_again() -> None:
    run = Driven("a[4]@run_end =blocking=> b[4]", sinks=("b",))
    run.finish("a")
    run.commit("b", "0-1")
    run.take_over()
    run.lose("a", "3")
    run.seal("b")
    run.finish("a")
    told = {step.name: step for step in view(run).steps}
    assert (told["a"].reused, told["a"].computed, told["a"].again) == (3, 1, 1)
    assert (told["b"].reused, told["b"].committed) == (2, 2)
    assert told["b"].again == 2
    assert next((one.step, one.what, one.count) for one in view(run).restarts) == ("a", "lost", 1)
    reasons = [reason.sentence for one in view(run).restarts for reason in one.because]
    assert "storage failure" in reasons


def test_what_was_reused_is_still_told_when_everything_is_released() -> None:
    run = Driven("a[4] =blocking=> b[4]", sinks=("b",))
    run.finish("a")
    run.take_over()
    run.seal("b")
    run.finish("b")
    run.publish()
    told = {step.name: step for step in view(run).steps}
    assert (told["a"].reused, told["a"].computed, told["a"].released, told["a"].committed) == (4, 0, 4, 0)
    assert (told["b"].reused, told["b"].computed) == (0, 4)


def test_a_run_without_its_driver_was_interrupted() -> None:
    run = Driven("a[2]", sinks=("a",))
    told, _ = view_of([run.journal], {"day": "x"}, "process 1 is dead", is_alone=True)
    assert (told.phase, told.is_resumable, told.parameters) == (INTERRUPTED, True, {"day": "x"})
    run.finish("a")
    run.publish()
    assert run.is_now(Phase.SUCCEEDED)
    told, _ = view_of([run.journal], is_alone=True)
    assert (told.phase, told.is_resumable) == ("succeeded", False)
    assert [(sink.name, sink.is_published) for sink in told.sinks] == [("a", True)]


def sized(run: Driven, step: str) -> tuple[int | None, int | None]:
    return next((one.rows, one.bytes) for one in view(run).steps if one.name == step)


def test_rows_and_bytes_are_told_of_steps_and_sinks_also_when_everything_is_released() -> None:
    run = Driven("a[4] =blocking=> b[4]", sinks=("b",), targets={"b": "daily to files /out"})
    run.commit("a", "0-1", rows=10, size_bytes=100)
    assert sized(run, "a") == (10, 100) and sized(run, "b") == (None, None)
    assert str(view(run).sinks[0]) == "not published"
    run.commit("a", "2-3", rows=5, size_bytes=50)
    run.end("a")
    run.commit("b", "0-3", rows=0, size_bytes=7)
    run.end("b")
    run.publish()
    assert sized(run, "a") == (15, 150) and sized(run, "b") == (0, 7)
    (sink,) = view(run).sinks
    assert (sink.shown, str(sink)) == ("daily to files /out", "published, 0 rows, 7 bytes")
    assert "daily to files /out" in page(view(run)) and "7 bytes" in page(view(run))


def test_what_a_dead_driver_finished_counts_once() -> None:
    run = Driven("a[4]", sinks=("a",))
    run.commit("a", "0-1", rows=10)
    run.take_over()
    run.seal("a", "0-2", rows=13)
    assert sized(run, "a") == (13, None)
    run.commit("a", "3", rows=1)
    run.end("a")
    run.publish()
    assert run.state.published_sizes["a"].rows == 14


def test_rows_of_partitions_that_count_no_more_are_not_guessed() -> None:
    run = Driven("a[4]@run_end", sinks=("a",))
    run.commit("a", "0-3", rows=10)
    run.lose("a", "3")
    run.end("a")
    run.finish("a")
    assert sized(run, "a") == (None, None)


def test_the_graph_of_a_page_fits_to_it() -> None:
    assert '<input type="checkbox" checked>' in page(view(Driven("a[2]")))


def test_notebooks_show_the_graph() -> None:
    run = Driven("a[2] =blocking all=> b[3]", sinks=("b",))
    html = view(run)._repr_html_()
    assert "<svg" in html and "0 of 5 partitions kept" in html and "<script" not in html


def test_a_run_is_drawn_with_what_is_pipelined_into_its_steps() -> None:
    run = Driven("a[2] =blocking all=> b[3]", sinks=("b",))
    roles = {"read": "source", "clean": "step", "a": "step", "b": "step", "out": "sink"}
    reads = {"clean": ("read",), "a": ("clean",), "b": ("a",), "out": ("b",)}
    declared = tuple(DeclaredStep(name=name, role=role, reads=reads.get(name, ())) for name, role in roles.items())
    regions = {"a": ("read", "clean", "a"), "b": ("b",)}
    spec = RunSpec(graph=GraphSpec.of(run.graph), declared=declared, regions=regions, sinks=("b",))
    before = view(run)
    run.give(st.TakeOver(application="app2", owner="you", spec=spec))
    after = view(run)
    assert [node.name for node in before.picture().nodes] == ["a", "b"], "an earlier release journaled no more"
    assert [(node.name, node.inside) for node in after.picture().nodes] == [
        ("read", ()),
        ("a", ("clean",)),
        ("b", ()),
        ("out", ()),
    ]
    links = [(one.producer, one.consumer, one.how) for one in after.picture().links]
    assert links == [("read", "a", ""), ("a", "b", "all"), ("b", "out", "")]
    assert "    computes clean with it" in as_text(after.picture())


@pytest.mark.parametrize(
    ("text", "said"),
    [("", ""), ("3", "3"), ("0-4,7", "0-4,7"), ("0,2,4,6,8", "0,2,4,6,8"), ("0,2,4,6,8,10", "0,2,4,6,8,… (6 in all)")],
)
def test_sets_are_short(text: str, said: str) -> None:
    assert brief(Partitions.parse(text) if text else EMPTY) == said


def test_words() -> None:
    assert clock(1_763_172_847_000) == "2025-11-15 02:14:07"
    assert one_line("\n first \nsecond") == "first"
    assert len(one_line("x" * 10_000)) < 400
