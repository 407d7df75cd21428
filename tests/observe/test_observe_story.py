"""The story of a vertex: every fact that concerns it and no other, and whether it will run again."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from master.driving import Driven
from observe.telling import RECORDINGS, name_of, records_in
from rekindle.master.facts.events import RunStarted
from rekindle.master.rules.advance import work_left
from rekindle.master.state.apply import fold
from rekindle.master.state.run_state import Phase
from rekindle.model.ids import Vertex
from rekindle.observe.story import RunStory, story_of


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_every_vertex_of_a_recorded_run_has_a_story_and_an_outlook(path: Path) -> None:
    records = records_in(path)
    told = [(one.sequence, one.epoch, one.events) for one in records]
    state = fold(None, (event for one in records for event in one.events))
    assert state is not None
    for name in state.steps:
        whole = story_of(told, state, name)
        assert whole.outlook
        for partition in state.layout.graph.whole[name]:
            story = story_of(told, state, name, partition)
            assert story.lines and len(story.outlook) == 1
            assert len(story.lines) <= len(whole.lines)
            _agrees(story.outlook[0], Vertex(name, partition) in work_left(state), state.phase)


def _agrees(outlook: str, is_due: bool, phase: Phase) -> None:
    if phase in (Phase.RUNNING, Phase.FAILED) and not is_due:
        assert "will run" not in outlook.replace("will run when", "")


def story(run: Driven, step: str, partition: int | None = None) -> RunStory:
    return story_of([(at, 1, [event]) for at, event in enumerate(run.journal)], run.state, step, partition)


def texts(told: RunStory) -> list[str]:
    return [line.text for line in told.lines]


def test_a_failed_partition_and_its_neighbour() -> None:
    run = Driven("a[3]", sinks=("a",))
    run.commit("a", "0,2")
    run.fail("a", "1")
    failed, healthy = story(run, "a", 1), story(run, "a", 0)
    assert "it failed (exception)" in " | ".join(texts(failed))
    assert "attempt 2 opened for it (failed)" in texts(failed)
    assert "committed by attempt 1" in texts(healthy)
    assert not any("failed" in text for text in texts(healthy))
    assert healthy.outlook == ("a[0] will not run again: committed by attempt 1",)
    assert failed.outlook == ("a[1] in progress: attempt 2 is running",)


def test_why_a_step_is_not_determinate_is_in_its_first_line() -> None:
    run = Driven("a[3]?", sinks=("a",))
    started = run.journal[0]
    assert isinstance(started, RunStarted)
    run.journal[0] = replace(started, doubts={"a": ("First at daily.py:9",)})
    assert "unknown (First at daily.py:9)" in texts(story(run, "a"))[0]


def test_what_was_started_and_has_no_result_was_not_finished() -> None:
    run = Driven("a[2]", sinks=("a",))
    run.fail("a", "")
    assert "attempt 2 opened for it (not finished)" in texts(story(run, "a", 0))
    assert "attempt 2 opened for 2 partitions (0-1: not finished)" in texts(story(run, "a"))
    assert any("a Spark task that feeds its partitions failed" in text for text in texts(story(run, "a")))


def test_a_whole_step_is_told_by_sets() -> None:
    run = Driven("a[3] =blocking all=> b[2]", sinks=("b",))
    run.finish("a")
    told = story(run, "a")
    assert "attempt 1 opened for 3 partitions (0-2: not yet run)" in texts(told)
    assert "committed by attempt 1: 3 partitions (0-2)" in texts(told)
    assert "<table>" in told._repr_html_()
    assert told.outlook == ("a[0-2] (3 partitions) will not run again: committed by attempt 1",)


def test_an_input_that_is_lost_belongs_to_the_story_of_its_reader() -> None:
    run = Driven("a[2] =blocking=> b[2]", sinks=("b",))
    run.finish("a")
    run.lose("a", "0")
    assert "its input a lost 1 partition" in texts(story(run, "b"))
    assert "result lost (storage failure)" in texts(story(run, "a", 0))


def test_changed_code_is_named() -> None:
    run = Driven("a[2] =blocking=> b[2]", sinks=("b",), fingerprints={"a": {"code": "1"}, "b": {"code": "1"}})
    run.finish("a")
    run.take_over(fingerprints={"a": {"code": "2"}, "b": {"code": "1"}})
    assert "changed since its results were written: code" in texts(story(run, "a", 1))
    assert any("results no longer valid (its code changed)" in text for text in texts(story(run, "a", 1)))


def test_a_run_that_succeeded_runs_nothing_again() -> None:
    run = Driven("a[2] =blocking=> b[2]", sinks=("b",))
    run.finish("a")
    run.finish("b")
    run.publish()
    assert story(run, "a").outlook[-1].endswith("released, no longer needed")
    assert "published" in texts(story(run, "b"))
