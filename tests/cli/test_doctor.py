"""doctor: every problem with what to type, secrets hidden, no Spark started."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rekindle
from cli.calling import call
from rekindle.cli import doctor
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.store import Put
from runtime.test_local_folders import GONE, made, marker


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def lines(out: str, name: str) -> list[str]:
    """The line of one check, and what to type."""
    found = out.splitlines()
    at = next(at for at, line in enumerate(found) if line[5:].startswith(f"{name}:"))
    return [line for line in found[at : at + 2] if line[5:].startswith((f"{name}:", "next:"))]


def test_all_is_well_on_a_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rekindle.toml").write_text('location = "runs"\n[storage]\nsecret_access_key = "hush"\n')
    said = call(capsys, "doctor")
    assert lines(said.out, "location") == [f"ok   location: {tmp_path}/runs: reachable, and conditional writes work"]
    assert f"location                        {tmp_path}/runs" in said.out
    assert "(hidden)" in said.out and "hush" not in said.out
    assert list((tmp_path / "runs" / "_probe").iterdir()) == []


def test_no_location_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    said = call(capsys, "doctor")
    assert lines(said.out, "location")[0] == "warn location: none is set"
    assert "next: name it: rekindle doctor --location s3a://bucket/rekindle" in lines(said.out, "location")[1]


class Conditionless(LocalDisk):
    def put_if_absent(self, key: str, body: bytes) -> Put:
        self.put(key, body)
        return Put.CREATED


def test_a_store_that_ignores_conditions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "open_store", lambda url, options: Conditionless(tmp_path))
    said = call(capsys, "doctor", "--location", "there")
    assert said.code == 3
    assert lines(said.out, "location")[0].startswith("bad  location: RK120 the store")
    assert lines(said.out, "location")[1].startswith("     next: use a store with conditional writes")


@pytest.mark.parametrize(
    ("location", "told", "hint"),
    [
        ("ftp://there", "RK100 no store is known for ftp://there", "next: use a path or one of the schemes"),
        (
            "/dev/null/runs",
            "RK304 /dev/null/runs did not write",
            "next: give this user access to the storage that is named, or use another location",
        ),
        ("s3a://", "s3a:// cannot be opened", "next: look at the location, and at how the store is reached"),
    ],
)
def test_a_location_that_cannot_be_used(
    location: str, told: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = call(capsys, "doctor", "--location", location)
    assert said.code == 3
    assert told in lines(said.out, "location")[0] and hint in lines(said.out, "location")[1]


def test_a_machine_without_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", _find_nothing(tmp_path))
    said = call(capsys, "doctor")
    assert said.code == 3
    assert lines(said.out, "PySpark")[0] == "bad  PySpark: not installed: pipelines cannot run here"
    assert "pip install 'rekindle[spark]'" in lines(said.out, "PySpark")[1]
    assert lines(said.out, "Java")[0] == f"bad  Java: JAVA_HOME is {tmp_path}, which has no Java"
    assert lines(said.out, "jar")[0].startswith("bad  jar: rekindle-spark-")


def _find_nothing(folder: Path) -> object:
    class Spec:
        origin = str(folder / "rekindle" / "__init__.py")

    return lambda name: Spec() if name == "rekindle" else None


@pytest.mark.parametrize(
    ("version", "mark"),
    [
        ("4.3.0", "ok  "),
        ("4.1.0.dev1", "ok  "),
        ("3.5.4-amzn-0", "ok  "),
        ("3.4.1", "bad "),
        ("4.4.0", "bad "),
        ("5.0.0", "bad "),
    ],
)
def test_versions_of_pyspark(
    version: str, mark: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    assert lines(call(capsys, "doctor").out, "PySpark")[0].startswith(f"{mark} PySpark: {version}")


@pytest.mark.parametrize(
    ("says", "mark", "told"),
    [
        ('openjdk version "17.0.9" 2023-10-17', "ok  ", '"17.0.9"'),
        ('openjdk version "21-ea" 2023-09-19', "ok  ", '"21-ea"'),
        ('java version "1.8.0_292"', "bad ", "too old for Rekindle's jar"),
        ("what?", "warn", "has no version"),
    ],
)
def test_versions_of_java(
    says: str, mark: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    line = lines(call(capsys, "doctor").out, "Java")[0]
    assert line.startswith(f"{mark} Java: ") and told in line


def test_doctor_imports_no_spark() -> None:
    code = (
        "import sys\nfrom rekindle.cli.boundary import guarded\nfrom rekindle.cli.main import group\n"
        "guarded(group, ['doctor'])\nprint({'pyspark', 'py4j'} & set(sys.modules))"
    )
    environ = os.environ | {"PYTHONPATH": str(Path(rekindle.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ)
    assert done.stdout.splitlines()[-1] == "set()"


def test_doctor_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(call(capsys, "doctor", "--json").out)
    assert [check["name"] for check in found["checks"]] == ["Python", "Rekindle", "PySpark", "Java", "jar", "location"]
    assert {"setting": "backoff.kind", "value": "exponential", "from": "default"} in found["settings"]


def test_local_folders_what_is_in_use_and_what_the_dead_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "local"
    made(root, "blockmgr-1", marker(application="app-live"), size=2000)
    made(root, "blockmgr-2", marker(**GONE), size=3000)
    made(root, "blockmgr-3", None)
    said = call(capsys, "doctor", "--local-dir", str(root), "--local-dir", "nowhere")
    assert re.search(f"ok   local folder: {root}: 2.\\d+ kB in use by app-live, ", said.out)
    assert re.search(f"warn local folder: {root}: 1 folder, 3.\\d+ kB of app-1: its process is gone", said.out)
    assert f"next: rekindle doctor --local-dir {root} --remove-dead" in said.out
    assert (
        "1 folder, 10 bytes: it has no marker of Rekindle" in said.out
        and "nowhere is not a folder on this host" in said.out
    )
    assert (root / "blockmgr-2").exists()
    said = call(capsys, "doctor", "--local-dir", str(root), "--remove-dead")
    assert re.search("removed 1 folder, 3.\\d+ kB of dead processes", said.out)
    assert sorted(path.name for path in root.iterdir()) == ["blockmgr-1", "blockmgr-3"]


def test_what_sparks_settings_for_all_applications_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert "executors:" not in call(capsys, "doctor").out
    (tmp_path / "spark-defaults.conf").write_text("spark.shuffle.manager  org.example.Remote\n")
    said = lines(call(capsys, "doctor").out, "executors")
    assert said[0].startswith(
        "warn executors: exchanges are those of org.example.Remote, whose checksums of map outputs"
    )
    assert f"as {tmp_path}/spark-defaults.conf says" in call(capsys, "doctor").out.replace("\n     ", " ")
