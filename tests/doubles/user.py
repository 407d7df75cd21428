"""A user without Spark who types commands in one folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from doubles.adapter import FakeAdapter
from rekindle.cli import run_session
from rekindle.cli.boundary import guarded
from rekindle.cli.main import group

PIPELINE = """
import rekindle as rk

pipeline = rk.Pipeline("daily")


@pipeline.source
def orders(spark, day="today"): ...


@pipeline.step
def clean(orders): ...


@pipeline.step
def counted(clean): ...


@pipeline.sink(rk.files("/out"))
def daily(counted): ...
"""


class NoSpark:
    """Counts the sessions that were asked for."""

    def __init__(self) -> None:
        self.started = 0
        self.has_died = False

    def start(self, name: str, master: str, conf: dict[str, str], is_submitted: bool, log: str) -> tuple[Any, bool]:
        self.started += 1
        return "session", False

    def is_alive(self, session: Any) -> bool:
        return not self.has_died

    def stop(self, session: Any) -> None:
        raise AssertionError("it was not started here")

    def logged_to_file(self, conf: dict[str, str]) -> tuple[dict[str, str], str]:
        return conf, ""

    def properties(self, session: Any) -> dict[str, str]:
        return {}

    def send_by_value(self, module: Any) -> None:
        pass


class Typed:
    """A user who types commands in one folder."""

    def __init__(self, folder: Path, adapter: FakeAdapter, capture: pytest.CaptureFixture[str]) -> None:
        self.adapter = adapter
        self.spark = NoSpark()
        self.out = self.err = ""
        self._file = folder / f"daily_{folder.name}.py"
        self._file.write_text(PIPELINE)
        self._location = str(folder)
        self._capture = capture

    def types(self, command: str, *words: str) -> int:
        code = guarded(group, [command, "--location", self._location, str(self._file), *words])
        self.out, self.err = self._capture.readouterr()
        return code

    def lists(self) -> list[dict[str, Any]]:
        """What `rekindle runs` has."""
        code = guarded(group, ["runs", "--json", "--location", self._location])
        out, _ = self._capture.readouterr()
        assert code == 0
        return cast(list[dict[str, Any]], json.loads(out))


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Typed]:
    adapter = FakeAdapter(tmp_path)
    made = Typed(tmp_path, adapter, capsys)
    monkeypatch.setattr("rekindle.api.spark_adapter", lambda: adapter)
    monkeypatch.setattr(run_session, "spark_adapter", lambda: made.spark)
    monkeypatch.setenv("COLUMNS", "120")
    yield made
