"""The JVM that is started for a command: what it writes to stderr goes into Spark's log, and is never lost."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError

from rekindle.engine.spark import start


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
