"""`pipeline.show`: a run looked at from Python, without a session."""

from __future__ import annotations

from pathlib import Path

import pytest

import rekindle as rk
from api.test_run_flow import adapter as adapter
from api.test_run_flow import pipeline as pipeline
from doubles.adapter import FakeAdapter
from rekindle.errors import NotFound
from rekindle.storage.stores import open_store
from support.instant import Broken


def test_the_run_of_these_parameters_shows_itself(adapter: FakeAdapter, pipeline: rk.Pipeline, tmp_path: Path) -> None:
    adapter.make = lambda folder: Broken(open_store(str(folder)))
    with pytest.raises(rk.RunFailed):
        pipeline.run("session", str(tmp_path), day="monday")
    view = pipeline.show(str(tmp_path), day="monday")
    assert (view.phase, view.parameters, view.steps[0].committed) == ("failed", {"day": "monday"}, 1)
    assert "run 1 of daily: failed, 1 of 4 partitions kept" in view._repr_html_()
    assert view.graph._repr_html_().count("<svg") == 1
    assert "  counted [" in str(view.graph) and "computes clean with it" in str(view.graph)
    named = pipeline.show(str(tmp_path), options=rk.RunOptions(run=view.run))
    assert named.run == view.run


def test_a_run_that_is_not_there(adapter: FakeAdapter, pipeline: rk.Pipeline, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="daily has no run of day=monday at") as refused:
        pipeline.show(str(tmp_path), day="monday")
    assert "`rekindle runs`" in refused.value.hint
