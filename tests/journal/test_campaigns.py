"""Slices of the campaigns, seconds long: `make crash-points`, `make fuzz`, `make two-masters`, `make bench-journal`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

import bench_journal
import crash_points
import fuzz
import sim_journal
from fighter import NoConditions
from rekindle.errors import Fenced, JournalRefused
from rekindle.journal import history as history_module
from rekindle.journal import tail as tail_module
from rekindle.journal.history import read
from rekindle.journal.tail import TailAction, TailFacts, TailRule
from rekindle.journal.takeover import take_over
from rekindle.master.decide import decide
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import MasterConfig
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.model.partitions import Partitions
from rekindle.runtime.opening import codec, state_of
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import Put, Store
from rekindle.testing.drawing import draw
from rekindle.testing.faulty_store import StoreFault
from support.facts import CODEC, RUN, Noted, open_run, texts

pytestmark = pytest.mark.slow


def tool(name: str, *arguments: str) -> str:
    """The last line of a tool, run as a process: it forks, which a process that holds an S3 client must not."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(Path(crash_points.__file__).parent / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


def test_every_crash_point_keeps_what_was_acknowledged() -> None:
    assert "violations=0 control_found=True" in tool("crash_points.py")


def test_the_bytes_are_durable_before_the_name_and_the_name_before_the_answer(tmp_path: Path) -> None:
    steps: list[str] = []
    store = LocalDisk(tmp_path, steps.append)
    store.put_if_absent("folder/one", b"1")
    steps.clear()
    store.put_if_absent("folder/two", b"2")
    order = [step.removeprefix("after ") for step in steps if step.startswith("after")]
    assert order == ["open", "write", "fsync", "link", "fsync-folder", "unlink"]
    steps.clear()
    assert store.put_if_absent("folder/two", b"3") is Put.EXISTS
    assert "after fsync-folder" in steps


def test_fuzz_slice() -> None:
    ends, wrong = fuzz.campaign(0, 20_000)
    assert wrong == []
    assert {"kept", "cut", "refused", "fenced"} <= ends.keys()


def test_control_a_table_that_keeps_unchained_records_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def lenient(seen: TailFacts) -> TailRule:
        row = judge(seen)
        return KEEP if seen.complete and seen.checksum and row.verdict is TailAction.REFUSE else row

    judge = tail_module.judge
    monkeypatch.setattr(history_module, "judge", lenient)
    assert fuzz.campaign(0, 3_000)[1]


KEEP = TailRule(
    complete=True, checksum=True, chained=None, last=None, newer=None, verdict=TailAction.KEEP, because="planted"
)


def test_two_masters_slice_on_disk() -> None:
    result = tool("two_masters.py", "--rounds", "8", "--lanes", "4", "--only", "disk", "--without-control")
    assert "disk=True" in result


def test_a_sleeper_that_wakes_is_kept_out_by_the_condition(tmp_path: Path) -> None:
    store = LocalDisk(tmp_path)
    sleeper, _ = open_run(store)
    winner, _ = open_run(store)
    winner.append(Noted("a fact"))
    with pytest.raises(Fenced):
        sleeper.append(Noted("too late"))
    assert texts(read(store, RUN, CODEC)) == ["a fact"]


def test_control_without_the_condition_the_sleeper_destroys_the_journal(tmp_path: Path) -> None:
    store = cast(Store, NoConditions(LocalDisk(tmp_path)))
    sleeper, _ = open_run(store)
    winner, _ = open_run(store)
    winner.append(Noted("a fact"))
    sleeper.append(Noted("too late"))
    with pytest.raises(JournalRefused):
        read(store, RUN, CODEC)


@pytest.mark.s3
def test_two_masters_slice_on_s3() -> None:
    result = tool("two_masters.py", "--rounds", "4", "--lanes", "4", "--only", "s3")
    assert "s3=True" in result


def test_a_large_run_opens_to_the_same_state_with_and_without_its_snapshot(tmp_path: Path) -> None:
    source, expected = bench_journal.build(steps=3, partitions=3000, batch=10)
    disk = LocalDisk(tmp_path)
    bench_journal.copy(source, disk)
    assert disk.list_after(f"{bench_journal.RUN}/snapshot/")
    assert bench_journal.open_whole(disk) == bench_journal.open_snapshot(disk) == expected
    assert sum(len(step.committed) for step in expected.steps.values()) == 9000


def test_one_record_commits_a_million_partitions() -> None:
    store = MemoryStore()
    start = st.StartRun(
        run="run-1",
        pipeline="bench",
        order=1,
        spec=RunSpec(graph=GraphSpec.of(draw("a[1000000]")), sinks=()),
        config=MasterConfig(),
        run_time_ms=0,
        seed=1,
        application="app-1",
        owner="me",
    )
    journal, history = take_over(store, "bench/run-1", codec(), lambda history, epoch: decide(None, start, 0))
    state = state_of(history)
    assert state is not None
    (attempt,) = state.attempts
    record = journal.append(*decide(state, st.CommitsSeen(attempt=attempt, partitions=Partitions.first(1_000_000)), 0))
    assert len(store.objects[f"bench/run-1/journal/{record.sequence:020d}"][0]) < 1000
    opened = bench_journal.open_whole(store)
    assert opened is not None and len(opened.steps["a"].committed) == 1_000_000


def test_a_damaged_record_in_a_long_journal_is_named() -> None:
    source, _ = bench_journal.build(steps=1, partitions=1000, batch=10)
    key = f"{bench_journal.RUN}/journal/{50:020d}"
    source.put(key, source.objects[key][0][:-1] + b"?")
    with pytest.raises(JournalRefused, match=r"record 50 of memory:/bench/run-1/journal/ .* checksum"):
        bench_journal.open_whole(source)


def test_the_simulated_world_over_the_real_journal() -> None:
    wrong, met = sim_journal.campaign(0, 150)
    assert wrong == []
    assert met[StoreFault.TORN] and met[StoreFault.DELAYED] and met[StoreFault.LOST] and met[StoreFault.UNACKNOWLEDGED]
