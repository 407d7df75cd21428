"""`plan`, `run` and `resume` without Spark: which run they take, what they print, how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doubles.user import PIPELINE, NoSpark, Typed
from doubles.user import user as user
from rekindle.cli.boundary import ExitCode, guarded
from rekindle.cli.main import group
from rekindle.cli.supervise import DIED_CODE
from rekindle.errors import GraphRefused
from rekindle.journal.history import folder_of
from rekindle.master.facts.stimuli import AttemptEnded, Stimulus
from rekindle.runtime.opening import peek
from rekindle.storage.stores import open_store
from support.instant import Broken, Deaf, InstantEngine


def test_plan_then_run_then_done(user: Typed) -> None:
    assert user.types("plan", "-p", "day=monday") == ExitCode.WORK
    assert "new run of daily" in user.out
    assert "compute" in user.out and "4/4" in user.out and "not yet run" in user.out
    assert "pipelined into counted" in user.out and "publishes counted" in user.out
    assert user.types("run", "-p", "day=monday") == ExitCode.DONE
    assert "new run of daily" in user.out and "computed 4 partitions, reused 0" in user.out
    assert "daily is in" in user.out
    started = user.spark.started
    assert user.types("run", "-p", "day=monday") == ExitCode.DONE
    assert "is already done" in user.out
    assert user.types("plan", "-p", "day=monday") == ExitCode.DONE
    assert "nothing to do" in user.out
    assert user.spark.started == started + 2, "whether the inputs changed is not known without Spark"


def test_what_happens_as_lines_of_json_and_for_a_hook(user: Typed, tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = tmp_path / "hook.sh"
    script.write_text(f"#!/bin/sh\ncat >> {told}\n")
    script.chmod(0o700)
    hook = ("--set", f"hooks.command={script}")
    assert user.types("run", "--json", "-p", "day=monday", *hook) == ExitCode.DONE
    lines = [json.loads(line) for line in user.out.splitlines()]
    assert [line["event"] for line in lines] == ["started", "published", "succeeded"]
    assert [json.loads(line) for line in told.read_text().splitlines()] == lines
    assert user.types("run", "--json", "-p", "day=monday") == ExitCode.DONE
    assert [json.loads(line)["event"] for line in user.out.splitlines()] == ["already done"]


def test_done_with_other_code_or_input_is_no_success(user: Typed) -> None:
    """A scheduler must notice: nothing is computed, and what is published is not what this code would publish."""
    assert user.types("run", "-p", "day=monday") == ExitCode.DONE
    user.adapter.fingerprint = {**user.adapter.fingerprint, "input": "another file"}
    for command in ("run", "plan"):
        assert user.types(command, "-p", "day=monday") == ExitCode.STALE
        assert "the input changed" in user.out and "next: compute it with all of that, and publish it" in user.out
        assert "--new" in user.out
    assert user.types("plan", "--json", "-p", "day=monday") == ExitCode.STALE
    assert json.loads(user.out)["differs"]
    assert user.types("run", "--new", "-p", "day=monday") == ExitCode.DONE
    assert user.types("run", "-p", "day=monday") == ExitCode.DONE


def test_a_start_that_is_refused_is_no_run(user: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(session: Any, wanted: Any) -> Any:
        raise GraphRefused("orders could not be built")

    with monkeypatch.context() as changed:
        changed.setattr(user.adapter, "prepare", refuse)
        assert user.types("run", "-p", "day=monday") == ExitCode.REFUSED
    assert user.lists() == []
    assert user.types("run", "-p", "day=tuesday") == ExitCode.DONE
    assert user.types("run", "-p", "day=monday") == ExitCode.DONE
    assert {one["parameters"]["day"]: one["number"] for one in user.lists()} == {"tuesday": 1, "monday": 2}


class Typing(InstantEngine):
    """Somebody types Ctrl-C when half of the partitions are committed."""

    def poll(self, timeout_ms: int) -> list[Stimulus]:
        found = super().poll(timeout_ms)
        if any(isinstance(one, AttemptEnded) for one in found):
            raise KeyboardInterrupt
        return found


def test_ctrl_c_says_what_is_kept_and_what_to_type(user: Typed, tmp_path: Path) -> None:
    user.adapter.make = lambda folder: Typing(open_store(str(folder)))
    assert user.types("run", "-p", "day=monday") == ExitCode.INTERRUPTED
    assert "interrupted: " in user.err and "of 4 partitions are kept" in user.err
    assert f"rekindle resume --location {tmp_path}" in user.err
    user.adapter.make = lambda folder: InstantEngine(open_store(str(folder)), "app-2")
    assert user.types("resume", "--force") == ExitCode.DONE


def test_what_cannot_be_compared_is_said_and_is_no_difference(user: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a day may be gone when the day is done."""
    assert user.types("run", "-p", "day=monday") == ExitCode.DONE

    def refuse(session: Any, wanted: Any) -> Any:
        raise ValueError("PATH_NOT_FOUND")

    monkeypatch.setattr(user.adapter, "prepare", refuse)
    assert user.types("run", "-p", "day=monday") == ExitCode.DONE
    assert "whether its inputs changed is not known: PATH_NOT_FOUND" in user.out


def test_a_plan_writes_nothing(user: Typed, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    user.types("plan")
    assert [path for path in sorted(tmp_path.rglob("*")) if "__pycache__" not in str(path)] == before


def test_a_failure_names_what_failed_what_is_kept_and_the_next_command(user: Typed, tmp_path: Path) -> None:
    user.adapter.make = lambda folder: Broken(open_store(str(folder)))
    assert user.types("run", "-p", "day=monday") == ExitCode.RESUMABLE
    assert "counted[1-3] no such column" in user.err
    assert "counted: 1 of 4 partitions kept" in user.err
    assert f"next: correct it, then: rekindle resume --location {tmp_path}" in user.err
    user.adapter.make = lambda folder: InstantEngine(open_store(str(folder)), "app-2")
    assert user.types("plan", "--json", "-p", "day=monday") == ExitCode.WORK
    plan = json.loads(user.out)
    (counted,) = [stage for stage in plan["stages"] if stage["step"] == "counted"]
    assert (counted["computed"], counted["kept"]) == ("1-3", "0")
    assert user.types("resume") == ExitCode.DONE
    assert "resuming run daily/1 (day=monday): it stopped, 1 of 4 partitions are done" in user.out
    assert "computed 3 partitions, reused 1" in user.out
    assert user.types("resume") == ExitCode.REFUSED
    assert "no run of daily can be resumed" in user.err


def test_resume_takes_the_newest_and_says_what_else_could_be(user: Typed) -> None:
    user.adapter.make = lambda folder: Broken(open_store(str(folder)))
    user.types("run", "-p", "day=monday")
    user.types("run", "-p", "day=tuesday")
    user.adapter.make = lambda folder: InstantEngine(open_store(str(folder)), "app-2")
    assert user.types("resume") == ExitCode.DONE
    assert "resuming run daily/2 (day=tuesday)" in user.out
    assert "it is the newest of 2 runs that can be resumed (others: daily/1)" in user.out
    assert user.types("resume", "1") == ExitCode.DONE
    assert "resuming run daily/1 (day=monday): named on the command line" in user.out


def test_new_starts_another_run_of_the_same_key(user: Typed) -> None:
    user.types("run")
    assert user.types("run", "--new") == ExitCode.DONE
    assert "computed 4 partitions" in user.out


def test_a_new_run_that_has_a_name_is_not_started_twice(user: Typed) -> None:
    """What --supervise says to each driver that it starts."""
    user.types("run")
    words = ("--new", "--as", "20261115T000000Z-aa")
    assert user.types("run", *words) == ExitCode.DONE and "computed 4 partitions" in user.out
    assert user.types("run", *words) == ExitCode.DONE and "computed" not in user.out


def test_a_journal_that_cannot_be_read_does_not_keep_others_from_being_resumed(user: Typed) -> None:
    user.adapter.make = lambda folder: Broken(open_store(str(folder)))
    user.types("run", "-p", "day=monday")
    user.types("run", "-p", "day=tuesday")
    run = (Path(user._location) / "daily" / "_runs" / f"{1:08d}").read_text()
    last = max((Path(user._location) / folder_of(f"daily/{run}")).iterdir())
    last.write_bytes(last.read_bytes()[:-3] + b"xxx")
    user.adapter.make = lambda folder: InstantEngine(open_store(str(folder)), "app-2")
    assert user.types("resume") == ExitCode.DONE
    assert "resuming run daily/2 (day=tuesday)" in user.out


def test_a_living_run_is_refused_with_its_owner_or_watched(user: Typed) -> None:
    """The other process is this one, which lives: it began the run and never said that it left."""
    engine = InstantEngine(open_store(user._location), dies_after=0)
    user.adapter.make = lambda folder: engine
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rekindle.journal.lease.Lease.stop", lambda self, has_left=True: None)
        assert user.types("run") == ExitCode.INTERRUPTED
    asked = len(user.adapter.asked)
    assert user.types("run") == ExitCode.REFUSED
    assert "belongs to process" in user.err and "--force" in user.err
    assert f"next: watch it until it ends: rekindle run --watch --location {user._location} " in user.err
    assert len(user.adapter.asked) == asked, "nothing is prepared for a run that is alive"
    user.adapter.make = lambda folder: InstantEngine(open_store(str(folder)), "app-2")
    assert user.types("plan") == ExitCode.WORK
    assert "The run is alive" in user.out.replace("\n", " ")
    assert user.types("run", "--force") == ExitCode.DONE


def test_a_run_keeps_its_strategy_until_another_one_is_given(user: Typed) -> None:
    def strategy() -> str:
        found = peek(open_store(user._location), "daily", user.lists()[0]["run"])
        assert found is not None
        return found.config.strategy.value

    user.adapter.make = lambda folder: Broken(open_store(str(folder)))
    assert user.types("run") == ExitCode.RESUMABLE and strategy() == "region"
    assert user.types("plan", "--strategy", "full") == ExitCode.WORK and strategy() == "region", "a plan writes nothing"
    assert user.types("resume", "--strategy", "full") == ExitCode.RESUMABLE and strategy() == "full"
    assert user.types("run") == ExitCode.RESUMABLE and strategy() == "full", "it stays"
    assert user.types("run", "--set", "failover.strategy=individual") == ExitCode.RESUMABLE
    assert strategy() == "individual"


def test_the_graph_of_a_pipeline_and_what_would_run_again(user: Typed, tmp_path: Path) -> None:
    assert user.types("graph") == ExitCode.DONE
    assert "counted [" in user.out and "computes clean with it" in user.out
    assert user.types("graph", "--if", "counted[0]", "--strategy", "full") == ExitCode.DONE
    assert "If counted[0] fails" in user.out and "(full)" in user.out
    picture = tmp_path / "graph.svg"
    assert user.types("graph", "-o", str(picture)) == ExitCode.DONE and picture.read_text().startswith("<svg")
    assert user.types("graph", "-o", str(tmp_path / "graph.png")) == ExitCode.REFUSED
    assert ".svg, .html, .mmd" in user.err
    assert guarded(group, ["graph", "no_such_module:shop", "--location", user._location]) == ExitCode.REFUSED
    assert user.types("graph", "--if", "clean[0]") == ExitCode.REFUSED
    assert "next: it is pipelined into counted" in user.err
    assert not user.lists(), "nothing is written"
    assert guarded(group, ["graph", "--location", user._location, "--if", "counted[0]"]) == ExitCode.REFUSED


def test_a_plan_says_why_a_step_is_kept(user: Typed) -> None:
    assert user.types("plan") == ExitCode.WORK
    assert "  counted: because\n" in user.out and "  clean is kept" not in user.out
    assert user.types("plan", "-v") == ExitCode.WORK
    assert "  counted: because" in user.out and "  clean: because" in user.out


def test_strategy_and_changes_reach_the_run(user: Typed) -> None:
    assert user.types("run", "--strategy", "full", "--accept-change", "clean") == ExitCode.REFUSED
    assert "clean is pipelined into counted" in user.err
    assert user.types("run", "--strategy", "everything") == ExitCode.REFUSED
    assert user.types("run", "--conf", "nothing") == ExitCode.REFUSED


def test_spark_that_died_is_told_apart_from_a_fault_of_ours(user: Typed) -> None:
    user.adapter.make = lambda folder: Deaf(open_store(str(folder)))
    assert user.types("run") == ExitCode.FAILED
    assert "ConnectionError: nobody answers" in user.err
    user.spark.has_died = True
    assert user.types("run") == ExitCode.RESUMABLE
    assert "the driver JVM of Spark died; committed results are kept" in user.err
    assert "next: rekindle run --location" in user.err, "nobody knows the number of the run yet"
    assert user.types("run", "--supervised", "9999") == DIED_CODE


def test_a_file_that_needs_a_session_to_be_read_gets_one(user: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `@pandas_udf("long")` at the top of a file does."""
    original = NoSpark.start

    def start(self: NoSpark, *words: Any) -> tuple[Any, bool]:
        monkeypatch.setenv("A_SESSION_IS_THERE", "1")
        return original(self, *words)

    monkeypatch.setattr(NoSpark, "start", start)
    line = (
        'import os\nif "A_SESSION_IS_THERE" not in os.environ: raise RuntimeError("[SESSION_OR_CONTEXT_NOT_EXISTS]")\n'
    )
    user._file.write_text(line + PIPELINE)
    assert user.types("run") == ExitCode.DONE
    assert "computed 4 partitions" in user.out
