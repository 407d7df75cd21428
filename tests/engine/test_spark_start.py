"""The JVM that is started for a command: what it writes to stderr goes into Spark's log, and is never lost."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import IO, Any

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError

from rekindle.cli.run_options import Choices
from rekindle.cli.run_session import LazySession
from rekindle.engine.spark import start
from rekindle.engine.spark.adapter import SparkAdapter


def test_why_a_jvm_did_not_come_up_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def exited(conf: Any, kwargs: dict[str, IO[bytes]]) -> None:
        kwargs["stderr"].write(b"JAVA_HOME is not set\n")
        kwargs["stderr"].flush()
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(start, "launch_gateway", exited)
    with pytest.raises(PySparkRuntimeError):
        start._launch({}, str(tmp_path / "log"))
    assert capsys.readouterr().err == "JAVA_HOME is not set\n"


def test_a_jvm_that_is_there_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", "one of somebody else's")
    start._launch({}, str(tmp_path / "log"))
    assert not (tmp_path / "log").exists()


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder that others can write into, in which they laid links at the names that can be guessed."""
    folder = tmp_path / "shared"
    folder.mkdir()
    for name in (f"rekindle-spark-{os.getpid()}.properties", f"rekindle-spark-{os.getpid()}.log"):
        (tmp_path / name).write_text("mine")
        (folder / name).symlink_to(tmp_path / name)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    return folder


def _settings(conf: dict[str, str]) -> Path:
    return Path(conf[start.JAVA_OPTIONS].partition("=file://")[2])


def test_what_configures_the_jvm_lies_where_nobody_else_can_write(shared: Path, tmp_path: Path) -> None:
    before = set(shared.iterdir())
    with LazySession("daily.py", Choices()) as session:
        settings = _settings(session._conf(SparkAdapter()))
        assert settings.is_file() and not settings.is_symlink()
        assert stat.S_IMODE(settings.parent.stat().st_mode) == 0o700
        assert [stat.S_IMODE(one.stat().st_mode) for one in settings.parent.iterdir()] == [0o600, 0o600]
        assert f"fileName = {settings.parent}/spark.log" in settings.read_text()
    assert {one.read_text() for one in tmp_path.glob("rekindle-spark-*")} == {"mine"}, "no link was followed"
    assert set(shared.iterdir()) == before, "nothing is left"


def test_the_log_of_a_failure_stays_and_is_named(shared: Path) -> None:
    with LazySession("daily.py", Choices()) as session:
        log = _settings(session._conf(SparkAdapter())).parent / "spark.log"
        assert session.keep_log() == "", "there is nothing in it yet"
        log.write_text("ERROR")
        assert session.keep_log() == str(log)
    assert log.read_text() == "ERROR" and stat.S_IMODE(log.stat().st_mode) == 0o600


def test_java_options_of_the_user_stay_and_no_folder_is_made(shared: Path) -> None:
    before = set(shared.iterdir())
    given = {start.JAVA_OPTIONS: "-Xss4m"}
    assert start.logged_to_file(given) == (given, "")
    assert set(shared.iterdir()) == before
