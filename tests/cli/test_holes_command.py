"""`resume --without` without Spark: what is printed, what the journal holds, how every later look names the hole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.calling import call
from doubles.adapter import FakeAdapter
from doubles.user import Typed
from rekindle.cli import run_session
from rekindle.cli.boundary import ExitCode
from rekindle.engine.adapter import PreparedPipeline, PrepareRequest
from rekindle.journal.history import read
from rekindle.journal.keys import listed
from rekindle.master.facts.events import HoleAccepted
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.state.commands import PublishSink
from rekindle.model.graph import Graph, Step
from rekindle.model.partitions import Partitions
from rekindle.runtime.opening import codec
from rekindle.storage.stores import open_store
from support.instant import Instant
from support.location import always


class Remembering(FakeAdapter):
    """An adapter whose engines are remembered."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.engines: list[Instant] = []
        self.breaks = True
        self.broken = 2
        self.make = self._made  # type: ignore[assignment]

    def _made(self, folder: Path) -> Instant:
        name = f"app-{len(self.engines)}"
        self.engines.append(Instant(name, breaks=always("counted", self.broken)) if self.breaks else Instant(name))
        return self.engines[-1]


@pytest.fixture
def adapter(tmp_path: Path) -> Remembering:
    return Remembering(tmp_path)


@pytest.fixture
def user(
    adapter: Remembering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Typed]:
    """A user whose run failed in counted[2]."""
    made = Typed(tmp_path, adapter, capsys)
    monkeypatch.setattr("rekindle.api.spark_adapter", lambda: adapter)
    monkeypatch.setattr(run_session, "spark_adapter", lambda: made.spark)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("REKINDLE_BACKOFF_INITIAL_MS", "0")
    monkeypatch.setenv("REKINDLE_LOCATION", str(tmp_path))
    assert made.types("run") == ExitCode.RESUMABLE
    yield made


def events(folder: Path) -> list[HoleAccepted]:
    store = open_store(str(folder))
    [name] = listed(store, "daily").values()
    found = read(store, f"daily/{name}", codec()).events
    return [event for event in found if isinstance(event, HoleAccepted)]


def test_a_failure_names_the_command_that_publishes_without_it(user: Typed) -> None:
    [line] = [line for line in user.err.splitlines() if line.startswith("publish without it: ")]
    assert "rekindle resume --without 'counted[2]' --location" in line and line.endswith(".py 1")


def test_what_cannot_be_left_out_is_not_offered(
    user: Typed, adapter: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of one partition: without it there would be nothing left."""
    prepare = adapter.prepare

    def of_one(session: Any, wanted: PrepareRequest) -> PreparedPipeline:
        found = prepare(session, wanted)
        drawn = GraphSpec.of(Graph.of([Step(name="counted", partitions=1)], []))
        return replace(found, spec=msgspec.structs.replace(found.spec, graph=drawn))

    monkeypatch.setattr(adapter, "prepare", of_one)
    adapter.broken = 0
    assert user.types("run", "--new") == ExitCode.RESUMABLE
    assert "see it fail here: " in user.err and "counted[0]" in user.err
    assert "publish without it" not in user.err


def test_a_hole_is_a_fact_of_the_journal_and_of_the_publication(
    user: Typed, adapter: Remembering, tmp_path: Path
) -> None:
    assert user.types("plan", "--without", "counted[2]") == ExitCode.WORK
    assert "2: left out" in user.out
    assert "Published without counted[2], which the user left out. The target will name what is missing." in user.out
    assert events(tmp_path) == []
    assert user.types("resume", "--without", "counted[2]") == ExitCode.DONE
    assert "computed 0 partitions, reused 3" in user.out
    assert "published without counted[2], which the user left out; the target names it" in user.out
    [hole] = events(tmp_path)
    assert (hole.step, hole.partitions, hole.changed) == ("counted", Partitions((2,)), Partitions())
    assert hole.who.startswith("process ") and hole.at_ms > 0
    [command] = [one for one in adapter.engines[-1].told if isinstance(one, PublishSink)]
    assert command.holes == (("counted", Partitions((2,))),)


def test_every_later_look_names_the_hole(user: Typed, capsys: pytest.CaptureFixture[str]) -> None:
    assert user.types("resume", "--without", "counted[2]") == ExitCode.DONE
    assert user.types("run") == ExitCode.DONE
    assert "is already done" in user.out and "published without counted[2]" in user.out
    assert user.types("plan") == ExitCode.DONE
    assert "is done, published without counted[2]: nothing to do" in user.out
    assert user.types("plan", "--json") == ExitCode.DONE
    [stage] = [one for one in json.loads(user.out)["stages"] if one["step"] == "counted"]
    assert stage["left_out"] == "2"
    runs = call(capsys, "runs")
    assert "0/4, 1 left out" in runs.out, "what was published is released"
    [brief] = json.loads(call(capsys, "runs", "--json").out)
    assert (brief["kept"], brief["left_out"]) == (0, 1)
    shown = call(capsys, "show").out
    assert "complete without 1" in shown and "(no longer needed), 1 left out" in shown
    assert "counted[2] by process " in shown
    view = json.loads(call(capsys, "show", "--json").out)
    assert [(one["step"], one["partitions"], one["left"]) for one in view["holes"]] == [("counted", "2", 1)]
    [step] = view["steps"]
    assert (step["left_out"], step["missing"], step["failed"]) == (1, 0, 0)
    story = call(capsys, "explain", "counted[2]").out
    assert "left out by process " in story
    assert "counted[2] will not run again: left out by the user; a new run tries it again" in story
    assert "o left out" in call(capsys, "graph").out


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("counted[1]", "counted[1] cannot be left out: its result is committed"),
        ("counted", "counted cannot be left out: it has no partition number"),
        ("counted[7]", "counted has partitions 0 to 3"),
        ("cuonted[2]", "has no kept step cuonted"),
    ],
)
def test_what_cannot_be_left_out_is_refused_with_a_next_command(
    user: Typed, tmp_path: Path, word: str, said: str
) -> None:
    assert user.types("resume", "--without", word) == ExitCode.REFUSED
    assert said in user.err and "next: " in user.err
    assert events(tmp_path) == []


def test_a_published_run_is_refused_and_the_same_word_again_is_not(user: Typed) -> None:
    assert user.types("resume", "--without", "counted[2]") == ExitCode.DONE
    assert user.types("run", "--without", "counted[1]") == ExitCode.REFUSED
    assert "counted[1] cannot be left out: run " in user.err and "has published it" in user.err
    assert user.types("run", "--without", "counted[2]") == ExitCode.DONE
    assert "is already done" in user.out


def test_a_new_run_has_no_hole(user: Typed, adapter: Remembering) -> None:
    assert user.types("resume", "--without", "counted[2]") == ExitCode.DONE
    adapter.breaks = False
    assert user.types("run", "--new") == ExitCode.DONE
    assert "computed 4 partitions" in user.out and "without" not in user.out
    [command] = [one for one in adapter.engines[-1].told if isinstance(one, PublishSink)]
    assert command.holes == ()
