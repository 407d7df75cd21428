"""gc and results as a user types them: what is listed, what goes, what is refused and how."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.calling import Said, call
from cli.pages import Walk
from gc_scale import on_disk
from rekindle.cli import results
from rekindle.cli.boundary import ExitCode, guarded
from rekindle.cli.main import group
from rekindle.config import load_config
from rekindle.gc.delete_only_engine import DeleteOnlyEngine
from rekindle.gc.inspect_run import RunInspection
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.state.commands import Command
from rekindle.runtime import pins
from rekindle.runtime.opening import RunIntent, execute
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.store import Store
from rekindle.testing.drawing import draw
from support.filing import Filing
from support.location import always, make_run

Type = Callable[..., Said]
NOW = ("--set", "gc.grace_hours=0", "--set", "gc.retention_hours=0")
SWEEP = ("--set", "gc.grace_hours=0")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs of daily: the first failed with 7 of 11 partitions, the second is done and a late task wrote to it."""
    store = LocalDisk(tmp_path)
    make_run(store, "run-1", parameters={"day": "1"}, engine=Filing(store, "daily/run-1", breaks=always("clean", 2)))
    make_run(store, "run-2", parameters={"day": "2"}, engine=Filing(store, "daily/run-2"))
    store.put("daily/run-2/results/clean/g0/e1-a2/part-9_00000.parquet", b"x" * 1000)
    return tmp_path


@pytest.fixture
def typed(folder: Path, capsys: pytest.CaptureFixture[str]) -> Type:
    return lambda *words: call(capsys, *words, "--location", str(folder))


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_dry_run_says_what_would_go_and_deletes_nothing(typed: Type, folder: Path) -> None:
    before = everything(folder)
    said = typed("gc", "--dry-run", *NOW)
    assert (said.code, said.err) == (0, "")
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[0] == ["RUN", "WHAT", "FILES", "SIZE", "SINCE", "WHY"]
    assert " ".join(lines[1][:5]) == "daily/1 the whole run 17"
    assert said.out.splitlines()[1].endswith("it was not resumed in time")
    assert " ".join(lines[2][:6]) == "daily/2 1 directory 1 1 kB"
    assert said.out.splitlines()[2].endswith("no journal refers to it")
    assert lines[3][:6] == ["would", "delete:", "18", "files,", "1.23", "kB;"]
    assert said.out.splitlines()[4] == "runs kept: 1 (it succeeded)"
    assert everything(folder) == before


def test_by_default_nothing_goes_that_is_younger_than_a_day(typed: Type, folder: Path) -> None:
    before = everything(folder)
    said = typed("gc")
    assert "nothing to delete" in said.out and "waste younger than gc.grace_hours, kept for now: 2 files" in said.out
    assert "1 (it can be resumed) · 1 (it succeeded)" in said.out
    assert everything(folder) == before


def test_gc_deletes_what_the_dry_run_named(typed: Type, folder: Path) -> None:
    would = json.loads(typed("gc", "--dry-run", "--json", *NOW).out)
    did = json.loads(typed("gc", "--json", *NOW).out)
    assert [(one["act"], one["findings"]) for one in would] == [(one["act"], one["findings"]) for one in did]
    assert not any("/results/" in name for name in everything(folder))
    said = typed("gc", *NOW)
    assert said.out.splitlines() == ["nothing to delete", "runs kept: 1 (it is closed) · 1 (it succeeded)"]
    assert typed("runs").out.splitlines()[1].split()[:2] == ["daily/2", "succeeded"]
    assert typed("runs").out.splitlines()[2].split()[:2] == ["daily/1", "closed"]


def test_one_pipeline_only(typed: Type) -> None:
    assert typed("gc", "daily", "--dry-run").code == 0
    said = typed("gc", "dayly")
    assert said.code == 3 and "there is no pipeline dayly" in said.err and "did you mean daily?" in said.err


def test_a_run_that_gc_closed_is_refused_with_a_sentence(typed: Type, folder: Path) -> None:
    typed("gc", *NOW)
    said = typed("show", "daily/1")
    assert said.code == 3 and "RK123: run daily/1 is closed" in said.err


def test_results_are_listed_with_size_and_reason(typed: Type) -> None:
    said = typed("results", "ls")
    assert (said.code, said.err) == (0, "")
    rows = [line.split(maxsplit=5) for line in said.out.splitlines()]
    assert rows[1] == ["daily/1", "orders", "4/4", "128", "bytes", "8 days    it can be resumed"]
    assert rows[2] == ["daily/1", "clean", "3/4", "96", "bytes", "8 days    it can be resumed"]
    assert said.out.splitlines()[3] == "2 results of 2 runs, 224 bytes"
    found = json.loads(typed("results", "ls", "daily/1", "--json").out)
    assert [(one["number"], one["holding"]["step"], one["holding"]["bytes"]) for one in found] == [
        (1, "orders", 128),
        (1, "clean", 96),
    ]


def test_a_pin_is_seen_holds_and_is_taken_away(typed: Type, folder: Path) -> None:
    assert "run daily/1 is pinned by" in typed("results", "pin", "daily/1", "--why", "audit").out
    assert "pinned by" in typed("results", "ls").out and ": audit" in typed("results", "ls").out
    assert "1 (it is pinned)" in typed("gc", *NOW).out
    refused = typed("results", "release", "daily/1")
    assert refused.code == 3 and f"rekindle results unpin --location {folder} daily/1" in refused.err
    assert typed("results", "unpin", "daily/1").out == "run daily/1 is no longer pinned\n"
    assert typed("results", "unpin", "daily/1").out == "run daily/1 was not pinned\n"
    assert "1 run closed" in typed("gc", *NOW).out
    late = typed("results", "pin", "daily/1")
    assert late.code == 3 and "RK123" in late.err and "it is closed" in late.err


@pytest.mark.parametrize("has_sign", [True, False], ids=["refused", "control: it is told pinned, and deleted"])
def test_a_pin_between_the_last_look_of_gc_and_its_record_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, has_sign: bool
) -> None:
    """The store answers gc late: it looked for a pin before, and closes the run after."""
    codes: list[int] = []

    def found(store: Store, pipeline: str, run: str) -> None:
        if not codes:
            codes.append(int(guarded(group, ["results", "pin", "daily/1", "--location", str(folder)])))

    monkeypatch.setattr(pins, "find_pin", found)
    if not has_sign:
        monkeypatch.setattr(pins, "refuse_closing", lambda store, pipeline, run: None)
    assert guarded(group, ["gc", *NOW, "--location", str(folder)]) == 0
    assert codes == [3 if has_sign else 0]
    assert (folder / "daily" / "_pins" / "run-1").exists() is not has_sign
    assert not list((folder / "daily" / "_closing").glob("*"))


def test_the_sign_of_gc_is_looked_for_before_the_journal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gc that had looked for pins goes on to its end after whoever pins looked at the journal."""
    store, look, looks = LocalDisk(folder), results._look, []
    pins.begin_closing(store, "daily", "run-1")

    def looked(*arguments: Any) -> RunInspection:
        looks.append(look(*arguments))
        if len(looks) == 2:
            monkeypatch.setattr(pins, "find_pin", lambda store, pipeline, run: None)
            monkeypatch.setattr(pins, "all_pins", lambda store, pipeline: {})
            assert guarded(group, ["gc", *NOW, "--location", str(folder)]) == 0
        return looks[-1]

    monkeypatch.setattr(results, "_look", looked)
    assert guarded(group, ["results", "pin", "daily/1", "--location", str(folder)]) == ExitCode.REFUSED
    assert pins.find_pin(store, "daily", "run-1") is None


def test_who_is_refused_takes_no_other_pin_away(typed: Type, folder: Path) -> None:
    store = LocalDisk(folder)
    assert typed("results", "pin", "daily/1", "--why", "audit").code == 0
    pins.begin_closing(store, "daily", "run-1")
    again = typed("results", "pin", "daily/1")
    assert again.code == ExitCode.REFUSED and "gc is closing run run-1" in again.err
    held = pins.find_pin(store, "daily", "run-1")
    assert held is not None and held.why == "audit"


def test_a_pin_comes_too_late_for_a_run_that_a_living_gc_deletes(
    typed: Type, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = []
    send = DeleteOnlyEngine.send

    def pinned_meanwhile(self: DeleteOnlyEngine, command: Command) -> None:
        codes.append(guarded(group, ["results", "pin", "daily/1", "--location", str(folder)]))
        send(self, command)

    monkeypatch.setattr(DeleteOnlyEngine, "send", pinned_meanwhile)
    said = typed("gc", *NOW)
    assert "1 run closed" in said.out
    assert set(codes) == {ExitCode.REFUSED} and "has no results: gc is closing it" in said.err
    assert not (folder / "daily" / "_pins" / "run-1").exists()


def test_a_run_is_released_by_name_before_its_time(typed: Type, folder: Path) -> None:
    before = everything(folder)
    assert "would delete: the whole run daily/1, 17 files" in typed("results", "release", "1", "--dry-run").out
    assert everything(folder) == before
    said = typed("results", "release", "daily/1")
    assert said.code == 0 and said.out.startswith("deleted: the whole run daily/1, 17 files")
    assert not any(name.startswith("daily/run-1/results") for name in everything(folder))
    again = typed("results", "release", "daily/1")
    assert again.code == 3 and "has no results: it is closed" in again.err


def test_a_living_run_is_not_released(typed: Type, folder: Path) -> None:
    store, told = LocalDisk(folder), list[Said]()
    intent = RunIntent(
        pipeline="daily",
        run="run-1",
        spec=RunSpec(
            graph=GraphSpec.of(draw("orders[4] =blocking=> clean[4] =blocking all=> daily[3]")), sinks=("daily",)
        ),
    )
    engine = Filing(
        store, "daily/run-1", "app-2", before_act=lambda: told.append(typed("results", "release", "daily/1"))
    )
    execute(store, intent, engine)
    assert told[0].code == 3 and "RK124: run daily/1 has a living driver" in told[0].err


def test_an_empty_location_has_nothing_to_delete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "gc", "--location", str(tmp_path)).out == "nothing to delete\n"
    assert call(capsys, "results", "ls", "--location", str(tmp_path)).out == "0 results of 0 runs, 0 bytes\n"


def test_the_page_about_cleaning_up_does_what_it_says(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two days after both runs ended."""
    state = folder / "state"
    state.mkdir()
    (folder / "daily").rename(state / "daily")
    for path in state.rglob("*"):
        os.utime(path, (1.0, path.stat().st_mtime - 50 * 3600))
    monkeypatch.setenv("REKINDLE_LOCATION", str(state))
    walk = Walk(folder, capsys, monkeypatch)
    walk.follow("how-to/clean-up.md")
    assert walk.codes == [0] * 7
    assert not [name for name in everything(state) if "/results/" in name]
    assert load_config(folder=folder).origins["gc.retention_hours"] == str(folder / "rekindle.toml")


@pytest.mark.slow
def test_a_small_location_of_the_campaign_is_cleaned_exactly() -> None:
    assert on_disk(10, 300).is_exact
