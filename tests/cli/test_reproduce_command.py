"""`rekindle reproduce` without Spark: which run it opens, what it prints, how it ends; and how a failure names it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from doubles.adapter import FakeAdapter
from doubles.user import Typed
from rekindle.cli import run_session
from rekindle.cli.boundary import ExitCode
from rekindle.engine.adapter import PrepareRequest
from rekindle.engine.reproduced import ReproducedVertex, ReproductionRequest, ReproductionResult, ReproductionSetup
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.model.graph import Graph, Step
from rekindle.storage.stores import open_store
from support.instant import Instant, InstantEngine
from support.location import always

SAID = "ValueError: no such customer, at daily.py:12 in price"


class FakeBench:
    """Opens what it is asked for and remembers it; a try comes to `tried`."""

    def __init__(self) -> None:
        self.wanted: list[PrepareRequest] = []
        self.asked: list[ReproductionRequest] = []
        self.tried = ReproductionResult("+-+\n|1|", 7)

    def workbench(self, session: Any, wanted: PrepareRequest) -> ReproductionSetup:
        self.wanted.append(wanted)
        drawn = GraphSpec.of(Graph.of([Step(name="counted", partitions=4)], []))
        return ReproductionSetup(RunSpec(graph=drawn, fingerprints={"counted": {"code": "2"}}), self._open)

    def _open(self, asked: ReproductionRequest) -> ReproducedVertex:
        self.asked.append(asked)
        show = lambda frame, rows: f"{frame} {rows}"  # noqa: E731
        return ReproducedVertex(
            vertex=str(asked),
            rows="rows",
            inputs={"orders": "frame"},
            said=("a note",),
            attempt=lambda rows: self.tried,
            show=show,
        )


@pytest.fixture
def bench() -> FakeBench:
    return FakeBench()


@pytest.fixture
def user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bench: FakeBench
) -> Iterator[Typed]:
    """A user whose run failed in counted[2]."""
    adapter = FakeAdapter(tmp_path)
    made = Typed(tmp_path, adapter, capsys)
    monkeypatch.setattr("rekindle.api.spark_adapter", lambda: adapter)
    monkeypatch.setattr(adapter, "workbench", bench.workbench, raising=False)
    monkeypatch.setattr(run_session, "spark_adapter", lambda: made.spark)
    monkeypatch.setenv("REKINDLE_BACKOFF_INITIAL_MS", "0")
    adapter.make = cast(Any, lambda folder: Instant(breaks=always("counted", 2)))
    assert made.types("run", "-p", "day=monday") == ExitCode.RESUMABLE
    yield made


def test_a_failure_names_the_command_that_shows_it_again(user: Typed, tmp_path: Path) -> None:
    [line] = [line for line in user.err.splitlines() if line.startswith("see it fail here: ")]
    assert line.startswith(f"see it fail here: rekindle reproduce --location {tmp_path} --run 1 ")
    assert line.endswith(".py 'counted[2]'")


def test_it_shows_the_input_and_the_rows_of_the_newest_run(user: Typed, bench: FakeBench) -> None:
    assert user.types("reproduce", "counted[2]", "--rows", "3") == ExitCode.DONE
    assert user.out.splitlines() == [
        "counted[2] of run daily/1",
        "  failed in the run: daily.py:12: ValueError: no such customer",
        "  since the run started, the code changed: 1 -> 2",
        "  a note",
        "input orders, first 3 rows:",
        "frame 3",
        "counted[2] does not fail here. It has 7 rows; the first 3:",
        "+-+",
        "|1|",
    ]
    [asked], [wanted] = bench.asked, bench.wanted
    assert (asked.step, asked.partition, asked.inputs) == ("counted", 2, ())
    assert wanted.parameters == {"day": "monday"}, "from the key of the run"


def test_a_step_that_fails_is_told_with_its_frames_and_ends_with_1(
    user: Typed, bench: FakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REKINDLE_TRACE_FOLDER", str(tmp_path / "traces"))
    bench.tried = ReproductionResult(failure=SAID, frames=('  File "daily.py", line 12, in price',), trace="all of it")
    assert user.types("reproduce", "counted[2]") == ExitCode.FAILED
    *_, fails, frame, first, more, where = user.out.splitlines()
    assert (fails, frame) == (f"counted[2] fails: {SAID}", '  File "daily.py", line 12, in price')
    assert first == "These are the first 20 rows of each input: the one that fails may be a later one."
    assert more.startswith("To see more of them: rekindle reproduce --rows 1000 --location ")
    assert Path(where.removeprefix("full trace: ")).read_text() == "all of it"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def test_a_run_is_named_by_its_number_and_its_journal_stays_as_it_is(user: Typed, tmp_path: Path) -> None:
    user.adapter.make = lambda folder: InstantEngine(open_store(str(folder)))
    assert user.types("run", "-p", "day=tuesday") == ExitCode.DONE
    before = files(tmp_path)
    assert user.types("reproduce", "counted[1]") == ExitCode.DONE
    assert "counted[1] of run daily/2" in user.out
    assert user.types("reproduce", "counted[2]", "--run", "1") == ExitCode.DONE
    assert "counted[2] of run daily/1" in user.out
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["counted[9]"], "counted has partitions 0 to 3\nnext: rekindle reproduce --location "),
        (["clean[1]"], "clean has no result partitions"),
        (["cuonted"], "has no kept step cuonted\nnext: did you mean counted"),
        (["counted", "--run", "9"], "next: "),
    ],
)
def test_what_there_is_not_is_refused_before_spark_is_started(user: Typed, words: list[str], said: str) -> None:
    started = user.spark.started
    assert user.types("reproduce", *words) == ExitCode.REFUSED
    assert said in user.err
    assert user.spark.started == started
