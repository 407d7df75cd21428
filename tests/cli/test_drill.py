"""`rekindle graph --if … --execute`: what it refuses, and once all of it, on real processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.calling import call
from drills import drill, make
from rekindle.cli.boundary import ExitCode
from rekindle.cli.drill import drill as caused
from rekindle.errors import Refused
from rekindle.failover.restart import Strategy
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.observe.pipeline_graph import PipelineGraph
from rekindle.testing.drawing import draw


@pytest.mark.parametrize(
    ("failure", "message", "hint"),
    [
        ("storage", "--execute cannot make the storage fail", "ask for driver, executor or one partition"),
        ("b", "--execute makes one partition fail, and b has 3", "--if 'b[0]' --execute"),
    ],
)
def test_what_cannot_be_caused_is_refused(failure: str, message: str, hint: str) -> None:
    spec = RunSpec(graph=GraphSpec.of(draw("a[2] =blocking all=> b[3]")), sinks=("b",))
    asked = PipelineGraph(pipeline="p", spec=spec, strategy=Strategy.REGION).what_if(failure)
    with pytest.raises(Refused, match=re.escape(message)) as refused:
        caused(asked, "p.py", (), {}, {})
    assert hint in refused.value.hint


def test_a_failure_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    said = call(capsys, "graph", "daily.py", "--execute")
    assert said.code == ExitCode.REFUSED and "--execute causes a failure: name it with --if" in said.err


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_a_vertex_fails_and_what_was_planned_runs_again(tmp_path: Path) -> None:
    make(tmp_path)
    done = drill(tmp_path, "totals[1]", Strategy.REGION)
    assert done.returncode == ExitCode.DONE, done.stdout[-3000:] + done.stderr[-3000:]
    told = done.stdout.splitlines()
    assert told[-3:] == [
        "planned to run again: totals[1]",
        "ran again: totals[1]",
        "daily: 37 rows, the rows of plain Spark",
    ]
    assert "the drill makes totals[1] fail" in done.stdout
    assert list((tmp_path / "tmp").iterdir()) == [], "nothing is left"
    assert not (tmp_path / "gold").exists() and not (tmp_path / "state").exists(), "nor is anything touched"
