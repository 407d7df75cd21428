"""runs, show, explain, graph: what a user sees of real journals on a disk, in terminals of any width and in none."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

import rekindle
from cli.calling import Said, call
from rekindle.errors import NewerJournal
from rekindle.journal.frame import Frame, to_bytes
from rekindle.journal.history import folder_of, start_of
from rekindle.runtime.opening import close
from rekindle.service.planning import paces_of
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.stores import open_store
from support.instant import Instant
from support.location import always, make_run
from support.s3 import S3Server

Look = Callable[..., Said]
FAILED, DONE, DIED, CLOSED = "20261110T000001Z-aa", "20261111T000001Z-bb", "20261112T000001Z-cc", "20261113T000001Z-dd"


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pipelines: daily with a failed, a finished, an interrupted and a closed run; weekly with a finished one."""
    folder = tmp_path_factory.mktemp("location")
    store = LocalDisk(folder)
    make_run(store, FAILED, parameters={"day": "1"}, engine=Instant(breaks=always("clean", 2)))
    make_run(store, DONE, parameters={"day": "2"})
    make_run(store, DIED, parameters={"day": "3"}, engine=Instant(dies_after=2))
    make_run(store, CLOSED, parameters={"day": "4"})
    close(store, f"daily/{CLOSED}", Instant("gc"), force=True)
    make_run(store, "20261109T000001Z-ee", pipeline="weekly", parameters={})
    return folder


@pytest.fixture
def look(location: Path, capsys: pytest.CaptureFixture[str]) -> Look:
    return lambda *arguments: call(capsys, *arguments, "--location", str(location))


def test_runs_lists_every_run_newest_first(look: Look) -> None:
    said = look("runs")
    assert said.code == 0 and said.err == ""
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[0][:8] == ["RUN", "PHASE", "STARTED", "TOOK", "PUBLISHED", "ROWS", "SIZE", "KEPT"]
    assert [line[:2] for line in lines[1:]] == [
        ["daily/4", "closed"],
        ["daily/3", "interrupted"],
        ["daily/2", "succeeded"],
        ["daily/1", "failed"],
        ["weekly/1", "succeeded"],
    ]
    assert "7/11" in lines[4] and "0/1" in lines[4] and "1/1" in lines[3], "not published, published"
    assert "day=1" in said.out and FAILED in said.out and "has ended" in said.out


def test_runs_of_one_pipeline_as_json(look: Look) -> None:
    found = json.loads(look("runs", "daily", "--json").out)
    assert [(one["number"], one["phase"], one["kept"], one["wanted"]) for one in found] == [
        (4, "closed", 0, 11),
        (3, "interrupted", 4, 11),
        (2, "succeeded", 0, 11),
        (1, "failed", 7, 11),
    ]
    assert found[3]["parameters"] == {"day": "1"}


@pytest.mark.parametrize("word", ["1", "daily/1", FAILED, FAILED[:9], f"daily/{FAILED[:8]}"])
def test_a_run_is_found_by_any_of_its_names(look: Look, word: str) -> None:
    if word == "1":
        said = look("show", word)
        assert said.code == 3
        assert said.err == "error RK102: 1 matches 2 runs\nnext: name one: daily/1, weekly/1\n"
        return
    assert look("show", word).out.startswith("run 1 of daily  failed")


def test_the_newest_run_is_meant_if_none_is_named(look: Look) -> None:
    assert look("show", "weekly").out.startswith("run 1 of weekly  succeeded")
    told = look("show", "2").out
    assert told.startswith("run 2 of daily  succeeded") and "sink daily: published, version v2-1-1" in told
    assert "run daily/4 is closed" in look("show").err


def test_show_tells_what_failed_what_is_kept_and_what_to_type(look: Look, location: Path) -> None:
    out = look("show", "daily/1").out
    for text in (
        "gave up: poison: clean[2] failed 3 times in the same way: daily.py:12: ValueError: no such customer",
        "clean[2] exception: daily.py:12: ValueError: no such customer",
        "clean: 1 partition, attempt 3 (2: failed)",
        "1 poisoned",
        "sink daily: not published",
        f"7 of 11 partitions kept\nnext: rekindle resume --location {location} PIPELINE daily/1\n",
    ):
        assert text in out


def test_an_interrupted_run_says_so_and_can_be_resumed(look: Look, location: Path) -> None:
    out = look("show", "3").out
    assert (
        out.startswith("run 3 of daily  interrupted")
        and f"next: rekindle resume --location {location} PIPELINE daily/3" in out
    )


def test_show_as_json_and_as_a_page(look: Look, tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    said = look("show", "daily/1", "--json", "--html", str(file))
    view = json.loads(said.out)
    assert view["phase"] == "failed" and [step["name"] for step in view["steps"]] == ["orders", "clean", "daily"]
    assert said.err == f"written: {file}\n"
    assert file.read_text().startswith("<!doctype html>")


def test_explain_tells_a_vertex_and_a_step(look: Look) -> None:
    vertex = look("explain", "clean[2]", "--run", "daily/1").out
    assert "attempt 3 opened for it (failed)" in vertex
    assert vertex.rstrip().endswith("clean[2] will run when the run is resumed: failed")
    step = look("explain", "clean", "--run", "daily/1").out
    assert "clean[0-1,3] (3 partitions) will not run again: committed by attempt 2" in step
    told = json.loads(look("explain", "clean", "--run", "daily/1", "--json").out)
    assert told["subject"] == "clean" and len(told["outlook"]) == 2


def test_graph_as_text_svg_and_page(look: Look, tmp_path: Path) -> None:
    out = look("graph", "daily/1").out
    assert "  clean [###############!!!!!] 3/4 blocking · 1 restarted *  <- orders" in out
    for name, start in (("a.svg", "<svg"), ("a.html", "<!doctype html>")):
        assert look("graph", "daily/1", "-o", str(tmp_path / name)).code == 0
        assert (tmp_path / name).read_text().startswith(start)
    assert look("graph", "daily/1", "-o", "a.png").code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (("runs", "dayly"), "RK102", "there is no pipeline dayly", "did you mean daily?"),
        (("show", "nothing"), "RK102", "there is no run nothing", "the newest are daily/4, daily/3"),
        (("show", "hourly/1"), "RK102", "there is no pipeline hourly", "the pipelines are daily, weekly"),
        (("explain", "claen", "--run", "daily/1"), "RK102", "has no kept step claen", "did you mean clean?"),
        (("explain", "clean[9]", "--run", "daily/1"), "RK102", "clean has partitions 0 to 3", "'clean[3]'"),
        (("explain", "clean[x", "--run", "daily/1"), "RK102", "has no kept step clean[x", "clean"),
        (("show", CLOSED), "RK123", "run daily/4 is closed", "rekindle runs"),
        (("show", "--set", "nothing=1"), "RK101", "there is no setting nothing", "the settings are"),
        (("show", "--set", "nothing"), "RK101", "--set nothing has no value", "rekindle show --set nothing=VALUE"),
    ],
)
def test_what_is_refused(look: Look, arguments: tuple[str, ...], code: str, message: str, hint: str) -> None:
    said = look(*arguments)
    first, second, *_ = said.err.splitlines()
    assert said.code == 3 and said.out == ""
    assert first.startswith(f"error {code}: ") and message in first
    assert second.startswith("next: ") and hint in second


def test_an_empty_location_and_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = ("--location", str(tmp_path))
    assert call(capsys, "runs", *here).out == (
        f"no run at {tmp_path} yet\nnext: rekindle run --location {tmp_path} PIPELINE\n"
    )
    assert call(capsys, "show", *here).err.startswith(f"error RK102: there is no run at {tmp_path}\n")
    said = call(capsys, "runs")
    assert said.code == 3 and said.err.startswith("error RK101: no location is set")
    assert "next: name it: rekindle runs --location s3a://bucket/rekindle\n" in said.err


def test_a_damaged_journal_is_listed_and_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, here = LocalDisk(tmp_path), ("--location", str(tmp_path))
    make_run(store, "run-1")
    folder = tmp_path / folder_of("daily/run-1")
    second = sorted(folder.iterdir())[1]
    second.write_bytes(second.read_bytes()[:-3] + b"xxx")
    assert "daily/1" in call(capsys, "runs", *here).out
    said = call(capsys, "show", *here)
    assert said.code == 3 and said.err.startswith("error RK121: record 2 of ")
    assert "next: restore that object" in said.err


def test_a_newer_journal_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = LocalDisk(tmp_path)
    frame = Frame(
        sequence=1,
        epoch=1,
        previous=start_of("daily/run-1").checksum,
        writer="me",
        types=("RunDreamt/1",),
        events=(),
        owner=None,
    )
    body = to_bytes(frame)[0].replace(b"RK1 ", b"RK9 ")
    store.put_if_absent("daily/_runs/00000001", b"run-1")
    store.put_if_absent(folder_of("daily/run-1") + f"{1:020d}", body)
    assert " newer " in call(capsys, "runs", "--location", str(tmp_path)).out
    assert paces_of(store, "daily", "run-2") == {}, "another run of the pipeline is not held up"
    said = call(capsys, "show", "--location", str(tmp_path))
    assert said.err.startswith(f"error {NewerJournal.code}: a record has format 9") and said.code == 3
    assert "next: pip install -U rekindle" in said.err


def test_a_store_that_cannot_be_used_is_told_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    location = str(tmp_path / ("too-long" * 40))
    said = call(capsys, "runs", "--location", location)
    assert said.code == 3 and said.err.startswith(f"error RK304: {location} did not list: File name too long")
    assert f"then: rekindle runs --location {location}\n" in said.err


@pytest.mark.s3
def test_runs_on_s3(s3: S3Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    url = s3.url(uuid.uuid4().hex)
    store = open_store(url, s3.store_settings)
    make_run(store, FAILED, parameters={"day": "1"}, engine=Instant(breaks=always("clean", 2)))
    make_run(store, DIED, parameters={"day": "2"}, engine=Instant(dies_after=2))
    for name, value in s3.store_settings.items():
        monkeypatch.setenv(f"REKINDLE_STORAGE_{name.upper()}", value)
    lines = call(capsys, "runs", "--location", url).out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["daily/2", "interrupted"], ["daily/1", "failed"]]
    assert "4/11" in lines[1] and "7/11" in lines[2]
    assert call(capsys, "show", "daily/1", "--location", url).out.startswith("run 1 of daily  failed")
    doctor = call(capsys, "doctor", "--location", url).out
    assert f"ok   location: {url}: reachable" in doctor and s3.secret_key not in doctor


def in_terminal(columns: int, *arguments: str) -> list[str]:
    """The lines a command prints in a real terminal of this width, without colours."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environ |= {"PYTHONPATH": str(Path(rekindle.__file__).parent.parent), "TERM": "xterm"}
    code = "from rekindle.cli.main import main; main()"
    child = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=side, stderr=side, env=environ)
    os.close(side)
    printed = b""
    try:
        while data := os.read(main, 65536):
            printed += data
    except OSError:
        pass
    finally:
        os.close(main)
    assert child.wait(60) == 0
    return printed.decode().replace("\r\n", "\n").splitlines()


def plain(line: str) -> str:
    while "\x1b[" in line:
        before, _, after = line.partition("\x1b[")
        line = before + after.partition("m")[2]
    return line


@pytest.mark.parametrize("columns", [40, 160])
@pytest.mark.parametrize("arguments", [("runs",), ("show", "daily/1"), ("explain", "clean", "--run", "daily/1")])
def test_a_terminal_of_any_width_shows_everything(location: Path, columns: int, arguments: tuple[str, ...]) -> None:
    lines = in_terminal(columns, *arguments, "--location", str(location))
    assert any("\x1b[" in line for line in lines)
    shown = [plain(line) for line in lines]
    commands = [line for line in shown if line.startswith("next: rekindle ")]
    assert len(commands) == (arguments[0] == "show") and all(line.endswith(" daily/1") for line in commands)
    assert not [line for line in shown if len(line) > columns and " " in line.strip() and line not in commands]
    assert not any("…" in line for line in shown)
    if arguments == ("runs",):
        assert ("RUN " in shown[0]) == (columns == 160)


def test_without_a_terminal_lines_are_whole_and_plain(location: Path) -> None:
    environ = os.environ | {"PYTHONPATH": str(Path(rekindle.__file__).parent.parent)}
    environ.pop("COLUMNS", None)
    code = "from rekindle.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "show", "daily/1", "--location", str(location)],
        capture_output=True,
        text=True,
        env=environ,
    )
    assert done.returncode == 0 and "\x1b[" not in done.stdout
    assert any(len(line) > 100 for line in done.stdout.splitlines())


def test_help_loads_nothing_heavy() -> None:
    heavy = "{'rich', 'msgspec', 'obstore', 'pyroaring', 'pyspark', 'rekindle.api'}"
    code = (
        "import sys\nfrom rekindle.cli.boundary import guarded\nfrom rekindle.cli.main import group\n"
        f"guarded(group, ['--help'])\nprint(sorted({heavy} & set(sys.modules)))"
    )
    environ = os.environ | {"PYTHONPATH": str(Path(rekindle.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ)
    assert done.stdout.splitlines()[-1] == "[]"
