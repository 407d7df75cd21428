"""`run` without Spark: which run it takes, what it hands to the engine, and what it says at the end."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import rekindle as rk
from doubles.adapter import FakeAdapter
from doubles.stores import IgnoresConditions
from rekindle.errors import RunClosed, StoreRefused
from rekindle.gc import background_sweep as net
from rekindle.journal.frame import name_of
from rekindle.master.facts.stimuli import AttemptEnded, Stimulus
from rekindle.runtime.opening import JournalView, close, look, peek
from rekindle.service import running
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store
from support.instant import Broken, InstantEngine

DAY = 86_400


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeAdapter:
    made = FakeAdapter(tmp_path)
    monkeypatch.setattr("rekindle.api.spark_adapter", lambda: made)
    return made


@pytest.fixture
def pipeline() -> rk.Pipeline:
    made = rk.Pipeline("daily")
    made.add_source(lambda spark, day="today": None, name="orders")
    made.add_step(lambda orders: None, name="clean")
    made.add_step(lambda clean: None, name="counted")
    made.add_sink(lambda counted: None, rk.files("/out"), name="daily")
    return made


def test_a_run_is_made_once_per_key(adapter: FakeAdapter, pipeline: rk.Pipeline, tmp_path: Path) -> None:
    first = pipeline.run("session", str(tmp_path), day="monday")
    assert first.steps == {"counted": rk.StepSummary(partitions=4, computed=4, generation=0)}
    again = pipeline.run("session", str(tmp_path), day="monday")
    assert (again.run, again.was_done, again.steps["counted"].reused) == (first.run, True, 4)
    assert len(adapter.asked) == 2 and not again.differs, "with a session it is looked whether anything changed since"
    assert pipeline.run(lambda: pytest.fail("no session is made"), str(tmp_path), day="monday").was_done
    assert len(adapter.asked) == 2, "without one nothing is prepared for a run that is done"
    adapter.asked.pop()
    tuesday = pipeline.run("session", str(tmp_path), day="tuesday")
    new = pipeline.run("session", str(tmp_path), day="monday", options=rk.RunOptions(new=True))
    assert len({first.run, tuesday.run, new.run}) == 3
    assert [wanted.order for wanted in adapter.asked] == [1, 2, 3]
    assert adapter.asked[0].root == f"file:{tmp_path}/daily/{first.run}"
    assert adapter.asked[0].parameters == {"day": "monday"}
    assert [one.name for one in adapter.asked[0].steps] == ["orders", "clean", "counted", "daily"]


def test_a_run_that_is_done_says_what_changed_since(
    adapter: FakeAdapter, pipeline: rk.Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = pipeline.run("session", str(tmp_path))
    adapter.fingerprint = {"code": "1", "input": "2 files", "clean.constant:RATE": "5"}
    again, plan = pipeline.run("session", str(tmp_path)), pipeline.plan("session", str(tmp_path))
    assert (again.run, again.was_done) == (first.run, True)
    assert again.differs == plan.differs == ("counted: the constant RATE of clean is new", "counted: the input changed")
    for told in (str(again), str(plan)):
        assert "the constant RATE of clean is new" in told and "rk.RunOptions(new=True)" in told
    assert "is done, but something changed since" in plan.headline and not plan.has_work
    with monkeypatch.context() as patched:
        patched.setattr(adapter, "prepare", lambda session, wanted: 1 / 0)
        broken = pipeline.run("session", str(tmp_path))
    assert broken.differs == ("whether its inputs changed is not known: division by zero",), "it is done all the same"


def test_a_target_whose_store_ignores_conditions_is_refused_before_anything_runs(
    adapter: FakeAdapter, pipeline: rk.Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def opened(url: str, options: Mapping[str, str] | None = None) -> Store:
        asked.append(url)
        return IgnoresConditions() if url.startswith("s3a:") else open_store(url, options)

    monkeypatch.setattr(running, "open_target", opened)
    adapter.bases = ("s3a://lake/out",)
    pipeline.plan("session", str(tmp_path))
    assert "s3a://lake/out" not in asked, "a plan writes nothing"
    with pytest.raises(StoreRefused, match="let a second writer overwrite"):
        pipeline.run("session", str(tmp_path))
    assert peek(open_store(str(tmp_path)), "daily", adapter.asked[-1].root.rsplit("/", 1)[-1]) is None


def test_a_resumed_run_has_the_constants_it_began_with(
    adapter: FakeAdapter, pipeline: rk.Pipeline, tmp_path: Path
) -> None:
    adapter.make = lambda folder: InstantEngine(open_store(str(folder)), dies_after=0)
    with pytest.raises(KeyboardInterrupt):
        pipeline.run("session", str(tmp_path))
    adapter.make = lambda folder: InstantEngine(open_store(str(folder)), "app-2")
    adapter.settings = {"spark.sql.shuffle.partitions": "7"}
    resumed = pipeline.run("session", str(tmp_path))
    assert resumed.was_resumed and not resumed.was_done
    first, second = adapter.asked
    assert (first.constants, first.order) == (second.constants, second.order)
    assert first.settings == {"spark.sql.shuffle.partitions": "200"}
    assert second.settings == {"found by the sources": "1", **first.settings}


def test_a_run_that_fails_says_what_failed_what_is_kept_and_what_to_do(
    adapter: FakeAdapter, pipeline: rk.Pipeline, tmp_path: Path
) -> None:
    adapter.make = lambda folder: Broken(open_store(str(folder)))
    with pytest.raises(rk.RunFailed) as caught:
        pipeline.run("session", str(tmp_path))
    assert "of daily stopped: " in str(caught.value)
    assert "  counted[1-3] no such column\n  counted: 1 of 4 partitions kept" in str(caught.value)
    assert "run the same again" in caught.value.hint
    adapter.make = lambda folder: InstantEngine(open_store(str(folder)), "app-2")
    assert pipeline.run("session", str(tmp_path)).steps["counted"].computed == 3


def test_a_run_that_gc_closed_is_not_started_again_behind_the_users_back(
    adapter: FakeAdapter, pipeline: rk.Pipeline, tmp_path: Path
) -> None:
    done = pipeline.run("session", str(tmp_path))
    store = open_store(str(tmp_path))
    close(store, f"daily/{done.run}", InstantEngine(store, "app-gc"))
    with pytest.raises(RunClosed):
        pipeline.run("session", str(tmp_path))
    assert not pipeline.run("session", str(tmp_path), options=rk.RunOptions(new=True)).was_done


@pytest.mark.parametrize(
    ("name", "text"),
    [("clean", r"clean is pipelined into counted\n.*accept_change=\['counted'\]"), ("cout", "did you mean counted")],
)
def test_the_users_word_is_given_for_a_kept_step(
    adapter: FakeAdapter, pipeline: rk.Pipeline, tmp_path: Path, name: str, text: str
) -> None:
    with pytest.raises(rk.Refused, match=text):
        pipeline.run("session", str(tmp_path), options=rk.RunOptions(accept_change=[name]))


def test_published_files_are_read_through_the_adapter(adapter: FakeAdapter) -> None:
    assert rk.read_newest("session", "/out") == "session reads /out"
    assert rk.read_newest("session", "/out", version=3) == "session reads 3 of /out"
    assert rk.previous("session", "/out", "a int") == "session reads what was before it in /out as a int"


def test_old_waste_of_the_pipeline_goes_beside_a_run(
    adapter: FakeAdapter, pipeline: rk.Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever runs it: `rekindle run`, a driver of the user's own, a script. Here no run is too short for it."""
    monkeypatch.setattr(net, "STOP_SECONDS", 600.0)
    monkeypatch.setattr(net, "sweep", lambda store, name, rules, is_over, sweep=net.sweep: sweep(store, name, rules))
    unswept = rk.RunOptions(sweep=None)
    first = pipeline.run("session", str(tmp_path), day="monday", options=unswept)
    old, young = (tmp_path / "daily" / first.run / "results/counted/g9" / name / "part" for name in ("e9-a8", "e9-a9"))
    for file, age in ((old, 2 * DAY), (young, 0)):
        file.parent.mkdir(parents=True)
        file.touch()
        os.utime(file, times=(time.time() - age, time.time() - age))
    pipeline.run("session", str(tmp_path), day="tuesday", options=unswept)
    assert old.exists() and young.exists()
    pipeline.run("session", str(tmp_path), day="wednesday")
    assert young.exists() and not old.exists()


@pytest.mark.parametrize(("is_followed", "times"), [(True, 1), (False, 2)])
def test_a_start_reads_each_record_of_the_journal_once(
    adapter: FakeAdapter,
    pipeline: rk.Pipeline,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_followed: bool,
    times: int,
) -> None:
    """Also where its plan is told. Without what was read before, the master would read all of it again."""
    adapter.make = lambda folder: Broken(open_store(str(folder)))
    with pytest.raises(rk.RunFailed):
        pipeline.run("session", str(tmp_path), options=rk.RunOptions(sweep=None))
    shutil.rmtree(next(tmp_path.glob("daily/*/snapshot")))
    read: Counter[str] = Counter()
    ours = LocalDisk.get_many

    def get_many(store: LocalDisk, folder: str, names: Sequence[str]) -> Iterator[bytes | None]:
        read.update(names if folder.endswith("/journal/") else ())
        return ours(store, folder, names)

    monkeypatch.setattr(LocalDisk, "get_many", get_many)
    if not is_followed:
        monkeypatch.setattr(JournalView, "can_be_followed", False)
    adapter.make = lambda folder: InstantEngine(open_store(str(folder)))
    told: list[rk.Plan] = []
    resumed = pipeline.run("session", str(tmp_path), options=rk.RunOptions(on_plan=told.append, sweep=None))
    assert resumed.was_resumed and told and len(read) > 2
    assert max(read.values()) == times


def test_a_journal_whose_last_record_is_torn_is_read_again_by_the_master(
    adapter: FakeAdapter, pipeline: rk.Pipeline, tmp_path: Path
) -> None:
    """Which record may follow one that was cut off depends on what stands before it."""
    adapter.make = lambda folder: Broken(open_store(str(folder)))
    with pytest.raises(rk.RunFailed):
        pipeline.run("session", str(tmp_path), options=rk.RunOptions(sweep=None))
    folder = next(tmp_path.glob("daily/*/journal"))
    store, run = open_store(str(tmp_path)), folder.parent.name
    whole = look(store, "daily", run)
    assert whole.can_be_followed and whole.state is not None
    (folder / name_of(whole.position.sequence + 1)).write_bytes(b"")
    torn = look(store, "daily", run)
    assert not torn.can_be_followed and torn.state == whole.state
    adapter.make = lambda folder: InstantEngine(open_store(str(folder)))
    resumed = pipeline.run("session", str(tmp_path), options=rk.RunOptions(sweep=None))
    assert resumed.was_resumed and (resumed.steps["counted"].reused, resumed.steps["counted"].computed) == (1, 3)


def test_python_is_told_what_the_terminal_is(
    adapter: FakeAdapter, pipeline: rk.Pipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr: what a program prints itself stays alone."""
    pipeline.run("session", str(tmp_path), day="monday")
    out, told = capsys.readouterr()
    lines = told.splitlines()
    assert out == "" and lines[0] == "new run of daily" and any("counted: 4/4 done" in line for line in lines)
    assert "computed 4 partitions, reused 0" in told and "daily is in files /out" in told
    pipeline.run("session", str(tmp_path), day="monday")
    assert "is already done" in capsys.readouterr().err
    pipeline.run("session", str(tmp_path), day="tuesday", options=rk.RunOptions(quiet=True))
    assert capsys.readouterr() == ("", "")


class Interrupting(InstantEngine):
    """Somebody types Ctrl-C when something is committed."""

    def poll(self, timeout_ms: int) -> list[Stimulus]:
        found = super().poll(timeout_ms)
        if any(isinstance(one, AttemptEnded) for one in found):
            raise KeyboardInterrupt
        return found


def test_ctrl_c_in_python_says_what_is_kept(
    adapter: FakeAdapter, pipeline: rk.Pipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter.make = lambda folder: Interrupting(open_store(str(folder)))
    with pytest.raises(KeyboardInterrupt):
        pipeline.run("session", str(tmp_path), day="monday")
    told = capsys.readouterr().err
    assert "interrupted: " in told and "of 4 partitions are kept" in told and "the same call resumes the run" in told
