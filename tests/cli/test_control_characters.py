"""Text of others on every face: an exception, a parameter or a name cannot write to the operator's terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
from rich.console import Console

from cli.calling import call
from rekindle.cli.boundary import guarded
from rekindle.cli.plan import reasons, show, tell
from rekindle.cli.progress import Display
from rekindle.errors import Refused, RunFailed, visible
from rekindle.journal.keys import enlist
from rekindle.model.partitions import Partitions
from rekindle.observe.plan import Action, Plan, Stage, Start
from rekindle.observe.script import ScriptPlan
from rekindle.observe.words import escape
from rekindle.storage.local_disk import LocalDisk
from support.instant import Instant
from support.location import always, make_run

# A title, a cleared screen, a colour, a byte that begins a sequence in 8 bits, turned writing, an overwritten line.
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b2J\u202egnp.exe\u2066\r\x08over\x7f\u200f\x00"
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
OUR_STYLES = re.compile("\x1b\\[(?:[0-9]{1,2}(?:;[0-9]{1,3})*)?m")


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of hostile parameters whose step failed with a hostile text, and a name in the store that is none."""
    monkeypatch.setattr("support.instant.TEXT", f"daily.py:12: ValueError: {HOSTILE}")
    store = LocalDisk(tmp_path)
    make_run(store, "run-1", parameters={"day": HOSTILE, HOSTILE: "1"}, engine=Instant(breaks=always("clean", 2)))
    make_run(store, "run-2", parameters={"day": "2"})
    enlist(store, "daily", "run-3")
    store.put("daily/_runs/00000003", HOSTILE.encode())
    return tmp_path


def is_clean(text: str) -> bool:
    """Whether nothing is left but letters and our own styles."""
    assert not UNSEEN.search(OUR_STYLES.sub("", text)), repr(text)
    for wild in ("\x1b[31mred", "\x1b]0", "\x1b[2J"):
        assert wild not in text
    return True


@pytest.mark.parametrize("columns", ["40", "400"])
@pytest.mark.parametrize(
    "words",
    [
        ["runs"],
        ["runs", "--json"],
        ["show", "daily/1"],
        ["show", "daily/1", "--json"],
        ["explain", "clean", "--run", "daily/1"],
        ["explain", "clean[2]", "--run", "daily/1", "--json"],
        ["graph", "daily/1"],
        ["gc", "--dry-run"],
        ["results", "ls"],
        ["show", HOSTILE.replace("\x00", "")],
        ["explain", HOSTILE.replace("\x00", ""), "--run", "daily/1"],
        ["doctor"],
        ["runs", HOSTILE.replace("\x00", "")],
        ["runs", f"--{HOSTILE}"],
    ],
    ids=lambda words: " ".join(words).encode("unicode_escape").decode() if isinstance(words, list) else words,
)
def test_commands(
    words: list[str], columns: str, location: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a terminal: click takes nothing out."""
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)
    monkeypatch.setattr("click._compat.should_strip_ansi", lambda *_: False)
    monkeypatch.setenv("COLUMNS", columns)
    said = call(capsys, *words, "--location", str(location))
    assert is_clean(said.out + said.err) and (said.out or said.err)
    if "--json" in words:
        told = json.dumps(json.loads(said.out), ensure_ascii=False)
        assert "\\u001b]0;owned" in told and "\u202e" in told, "a program reads what it was"


@pytest.mark.parametrize("words", [["show", "daily/1", "--html"], ["graph", "daily/1", "-o"]])
@pytest.mark.parametrize("ending", ["svg", "html"])
def test_pages(words: list[str], ending: str, location: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = location / f"page.{ending}"
    assert call(capsys, *words, str(file), "--location", str(location)).code == 0
    text = file.read_text(encoding="utf-8")
    assert is_clean(text) and ("--html" not in words or "\\u001b" in text)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_run_and_its_plan(is_terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.instant.TEXT", HOSTILE)
    with (tmp_path / "screen").open("w") as file:
        to = Console(file=file, force_terminal=is_terminal, width=200, highlight=False, color_system=None)
        tell(to, f"run {HOSTILE}")
        stage = Stage(
            step=HOSTILE,
            action=Action.COMPUTE,
            partitions=1,
            computed=Partitions((0,)),
            changes=(HOSTILE,),
            doubts=(HOSTILE,),
            note=HOSTILE,
        )
        plan = Plan(pipeline="daily", run="run-1", start=Start.NEW, stages=(stage,), parameters={"day": HOSTILE})
        show(plan, to)
        for line in reasons(plan, is_verbose=True):
            tell(to, line)
        with Display(to) as display:
            display._say(f"failed: {HOSTILE}")
    text = (tmp_path / "screen").read_text()
    assert text and is_clean(text)


def test_values_that_a_script_prints() -> None:
    assert is_clean(str(ScriptPlan("daily", {"day": HOSTILE}, ())))
    assert is_clean(str(RunFailed(HOSTILE, HOSTILE)))
    assert is_clean(escape(HOSTILE))


def test_errors_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    @click.argument("kind")
    def command(kind: str) -> None:
        raise {"ours": Refused(HOSTILE, HOSTILE), "theirs": ValueError(HOSTILE)}[kind]

    for kind in ("ours", "theirs"):
        assert guarded(command, [kind]) != 0
        assert is_clean(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("ünïcödé 漢字 🙂 tab\tline\n", "ünïcödé 漢字 🙂 tab\tline\n"),
        ("a\r\nb\rc", "a\nb\\u000dc"),
        ("\x1b[0m", "\\u001b[0m"),
        ("\ud800 \U000e0041", "\\ud800 \\udb40\\udc41"),
    ],
)
def test_what_is_seen_stays(given: str, shown: str) -> None:
    assert visible(given) == shown == visible(visible(given))
