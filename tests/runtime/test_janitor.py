"""gc of real runs, files and all: exactly what goes and what stays, and what is lost if one protection is left out."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from rekindle.errors import Fenced, RunClosed, StoreFailed
from rekindle.gc import audit_log as diary
from rekindle.gc import collect_run as tend
from rekindle.gc import inspect_run as looks
from rekindle.gc import survey as heaps
from rekindle.gc.collect_location import tend_all, tidy_location
from rekindle.gc.collect_run import GcReport, GcRules, RunCollector
from rekindle.gc.policy import GcAction, Retention
from rekindle.gc.remover import Limits, Remover
from rekindle.journal.history import read
from rekindle.journal.lease import Liveness, LivenessState
from rekindle.journal.owner import this_process
from rekindle.master.state.run_state import Phase
from rekindle.runtime import opening, pins
from rekindle.runtime.pins import RunPin
from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import Put, Store, StoredObject
from rekindle.storage.stores import open_store
from support.filing import ENDING, Filing, data_name, marker_name
from support.instant import nothing
from support.location import always, make_run
from support.s3 import S3Server

RUN = "run-1"
FOLDER = f"daily/{RUN}"
HOUR = 3600.0
TERMS = Retention(grace_ms=3_600_000, retention_ms=10 * 3_600_000)
AT_ONCE = Retention(0, 0)
# A failed run: orders is whole, clean lacks partition 2, and the last try at it left a label.
ORDERS, CLEAN = f"{FOLDER}/results/orders/g0/e1-a1/", f"{FOLDER}/results/clean/g0/e1-a2/"


def told_by_gc(store: Store) -> list[diary.AuditEntry]:
    """What gc noted of its acts, oldest first."""
    folder = diary.folder_of("daily")
    bodies = store.get_many(folder, store.list_after(folder))
    return [msgspec.json.decode(body, type=diary.AuditEntry) for body in bodies if body is not None]


def make(store: Store, **options: Any) -> Phase | None:
    engine = Filing(store, FOLDER, **options)
    state = make_run(store, RUN, engine=engine)
    assert not engine.losses
    return None if state is None else state.phase


def fail(store: Store) -> None:
    assert make(store, breaks=always("clean", 2)) is Phase.FAILED


def start_of(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text[text.rindex(")") + 2 :].split()[19])


def gc(store: Store, terms: Retention = TERMS, **rules: Any) -> GcReport:
    return RunCollector(store, "daily", GcRules(terms=terms, **rules)).tend(RUN, 1)


def results(store: Store) -> set[str]:
    return {f"{FOLDER}/results/{e.name}" for page in store.walk(f"{FOLDER}/results/") for e in page}


def files(folder: str, *partitions: int) -> set[str]:
    """What one attempt's directory holds for these partitions."""
    names = [name for number in partitions for name in (data_name(number), marker_name(number, 32))]
    return {folder + name for name in ("_attempt", *names)}


NEEDED = files(ORDERS, 0, 1, 2, 3) | files(CLEAN, 0, 1, 3)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_a_failed_run_keeps_what_a_resume_needs_and_loses_only_waste(store: MemoryStore) -> None:
    fail(store)
    before = results(store)
    store.clock = HOUR - 1
    report = gc(store)
    assert (report.act, report.because, report.findings) == (GcAction.SWEEP, "it can be resumed", ())
    assert results(store) == before and report.young == len(before - NEEDED) == 1
    store.clock = HOUR
    assert gc(store, is_dry=True).findings[0].files == 1 and results(store) == before
    (finding,) = gc(store).findings
    assert (finding.files, finding.folders, finding.why) == (1, 1, "it holds no valid partition")
    assert results(store) == NEEDED
    store.clock = 11 * HOUR - 1
    assert gc(store).findings == () and results(store) == NEEDED
    assert make(store, application="app-2") is Phase.SUCCEEDED


def test_after_grace_and_retention_it_is_closed_and_nothing_is_left(store: MemoryStore) -> None:
    fail(store)
    before = results(store)
    store.clock = 11 * HOUR
    report = gc(store)
    assert (report.act, report.because) == (GcAction.CLOSE, "it was not resumed in time")
    assert [(one.what, one.files) for one in report.findings] == [("run", len(before))]
    assert results(store) == set()
    with pytest.raises(RunClosed):
        make(store, application="app-2")
    again = gc(store)
    assert (again.act, again.because, again.findings) == (GcAction.SWEEP, "it is closed", ())


def test_the_retention_begins_anew_with_whoever_resumes(store: MemoryStore) -> None:
    fail(store)
    store.clock = 10.9 * HOUR
    assert make(store, application="app-2", breaks=always("clean", 2)) is Phase.FAILED
    store.clock = 12 * HOUR
    assert gc(store).act is GcAction.SWEEP
    assert make(store, application="app-3") is Phase.SUCCEEDED


def test_what_a_dead_driver_was_writing_is_kept_for_the_next_one(store: MemoryStore) -> None:
    """An attempt that is open may be adopted, however old its files are."""
    assert make(store, dies_after=2) is None
    before = results(store)
    store.clock = 5 * HOUR
    assert gc(store).findings == () and results(store) == before


def test_a_run_that_succeeded_is_swept_and_never_closed(store: MemoryStore) -> None:
    assert make(store) is Phase.SUCCEEDED
    assert results(store) == set()
    late = f"{ORDERS}part-99_00002{ENDING}"
    store.put(late, b"a zombie woke up")
    store.clock = HOUR - 1
    assert gc(store).young == 1 and results(store) == {late}
    store.clock = 10**6 * HOUR
    (finding,) = gc(store).findings
    assert finding.why == "no journal refers to it" and results(store) == set()
    assert make(store, application="app-2") is Phase.SUCCEEDED


def test_what_a_step_keeps_for_ever_is_not_touched(store: MemoryStore) -> None:
    drawing = "orders[2]@forever =blocking=> daily[2]"
    assert make_run(store, RUN, drawing=drawing, engine=Filing(store, FOLDER)) is not None
    store.clock = 10**6 * HOUR
    assert gc(store).findings == () and results(store) == files(ORDERS, 0, 1)


def test_what_a_step_keeps_for_ever_is_not_touched_either_if_the_run_failed(store: MemoryStore) -> None:
    drawing = "orders[2]@forever =blocking=> daily[2]"
    engine = Filing(store, FOLDER, breaks=always("daily", 1))
    failed = make_run(store, RUN, drawing=drawing, engine=engine)
    assert failed is not None and failed.phase is Phase.FAILED
    store.clock = 10**6 * HOUR
    report = gc(store)
    assert (report.act, report.because) == (GcAction.SWEEP, "a step of it is kept forever")
    assert files(ORDERS, 0, 1) <= results(store)
    asked = RunCollector(store, "daily", GcRules(terms=TERMS)).tend(RUN, 1, is_asked=True)
    assert asked.act is GcAction.CLOSE and results(store) == set(), "unless the user asks for it"


def drop_records(store: MemoryStore, keep: int) -> dict[str, tuple[bytes, float]]:
    """The storage loses the end of a journal."""
    lost = {key: store.objects[key] for key in sorted(one for one in store.objects if "/journal/" in one)[keep:]}
    for key in lost:
        del store.objects[key]
    for key in [one for one in store.objects if "/snapshot/" in one]:
        del store.objects[key]
    return lost


def test_a_journal_that_lost_its_end_is_left_alone_until_it_is_restored(store: MemoryStore) -> None:
    fail(store)
    lost = drop_records(store, 1)
    store.clock = 5 * HOUR
    report = gc(store)
    assert report.act is GcAction.LEAVE and "the storage lost records" in report.trouble
    assert results(store) >= NEEDED
    store.objects.update(lost)
    assert make(store, application="app-2") is Phase.SUCCEEDED


def test_control_without_that_look_what_a_restored_journal_needs_is_lost(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore
) -> None:
    monkeypatch.setattr(looks, "refuse_loss", lambda store, run, position: None)
    fail(store)
    drop_records(store, 1)
    store.clock = 5 * HOUR
    gc(store)
    assert not results(store) >= NEEDED


def test_one_bad_name_does_not_keep_gc_from_the_others(tmp_path: Path) -> None:
    store = open_store(str(tmp_path), {})
    fail(store)
    os.close(os.open(os.fsencode(tmp_path / FOLDER / "results") + b"/caf\xe9", os.O_CREAT | os.O_WRONLY))
    assert gc(store, AT_ONCE, may_close=False).trouble == ""
    assert not list((tmp_path / FOLDER / "results").glob("caf*"))
    (entry,) = (one for one in told_by_gc(store) if one.names)
    assert entry.names == ("caf\\xe9",)


def test_a_step_that_was_moved_and_linked_stays(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "location"), {})
    fail(store)
    orders = tmp_path / "location" / FOLDER / "results" / "orders"
    orders.rename(tmp_path / "moved")
    orders.symlink_to(tmp_path / "moved")
    (orders.parent / "round").symlink_to(orders.parent / "round")
    (orders.parent / "away").symlink_to(tmp_path / "not mounted")
    assert gc(store, AT_ONCE, may_close=False).trouble == ""
    assert all((orders.parent / name).is_symlink() for name in ("orders", "round", "away"))
    assert make(store, application="app-2") is Phase.SUCCEEDED


def leave_waste(store: Store) -> tuple[set[str], set[str]]:
    """Everything that can be left behind in a run that failed: (what goes as single files, what goes whole)."""
    loser = {CLEAN + data_name(0, 99), f"{CLEAN}.{data_name(0, 99)}.crc", CLEAN + marker_name(0, 32, 99)}
    half = {CLEAN + data_name(2, 98), f"{CLEAN}_temporary/0/{data_name(1)}"}
    stray = {f"{FOLDER}/results/clean/_temporary/0/x", f"{FOLDER}/results/orders/g0/e01-a1/{data_name(0)}"}
    unknown = {f"{FOLDER}/results/clean/g7/e9-a9/{data_name(0)}", f"{FOLDER}/results/gone/g0/e1-a1/{data_name(0)}"}
    for key in loser | half | stray | unknown:
        store.put(key, b"waste")
    return loser | half | stray, unknown


def test_losers_late_commits_half_written_files_and_strays_go_and_nothing_else(store: MemoryStore) -> None:
    fail(store)
    crc = f"{CLEAN}.{data_name(0)}.crc"
    store.put(crc, b"of a file that counts")
    single, whole = leave_waste(store)
    store.put(f"{FOLDER}/journal/.put-dead", b"half")
    store.put(f"{FOLDER}/notes.txt", b"not ours")
    store.clock = HOUR - 1
    gc(store)
    assert single | whole <= results(store)
    store.clock = 2 * HOUR
    found = {finding.why: finding.files for finding in gc(store).findings}
    assert found == {
        "no journal record refers to it": 5,
        "it belongs to no attempt": 2,
        "no journal refers to it": 2,
        "it holds no valid partition": 1,
        "its writer died before it was complete": 1,
    }
    assert results(store) == NEEDED | {crc}
    assert store.get(f"{FOLDER}/journal/.put-dead") is None and store.get(f"{FOLDER}/notes.txt") == b"not ours"
    assert make(store, application="app-2") is Phase.SUCCEEDED


def test_without_the_manifests_what_counts_is_lost(monkeypatch: pytest.MonkeyPatch, store: MemoryStore) -> None:
    """The control of the test above."""
    monkeypatch.setattr(heaps, "is_counted", lambda name, tasks: False)
    fail(store)
    store.clock = 2 * HOUR
    gc(store)
    assert results(store) == set()
    engine = Filing(store, FOLDER, "app-2")
    make_run(store, RUN, engine=engine)
    assert engine.losses == 4 + 3, "all of orders, and what was there of clean"


def test_files_that_come_after_the_close_go_too(store: MemoryStore) -> None:
    fail(store)
    store.clock = 11 * HOUR
    gc(store)
    late = CLEAN + data_name(2)
    store.put(late, b"a zombie woke up")
    assert gc(store).young == 1 and results(store) == {late}
    store.clock += HOUR
    (finding,) = gc(store).findings
    assert finding.why == "its run is closed" and results(store) == set()


def test_a_pin_holds_for_ever_and_its_end_does_not(store: MemoryStore) -> None:
    fail(store)
    pins.put_pin(store, "daily", RUN, RunPin("ann", 0, "audit"))
    store.clock = 10**6 * HOUR
    report = gc(store)
    assert (report.act, report.because) == (GcAction.SWEEP, "it is pinned") and results(store) == NEEDED
    assert pins.put_pin(store, "daily", RUN, RunPin("bob", 1)).by == "ann"
    pins.remove_pin(store, "daily", RUN)
    assert gc(store).act is GcAction.CLOSE and results(store) == set()


def test_a_living_run_is_left_alone(store: MemoryStore) -> None:
    seen: list[GcAction] = []

    def meanwhile() -> None:
        before = results(store)
        seen.append(gc(store, AT_ONCE).act)
        assert results(store) == before

    assert make(store, before_act=meanwhile) is Phase.SUCCEEDED
    assert len(seen) > 6 and set(seen) == {GcAction.LEAVE}, "also while it deletes what it released"
    assert gc(store, AT_ONCE).act is GcAction.SWEEP


@pytest.mark.parametrize("is_seen", [True, False], ids=["left alone", "control: lost"])
def test_a_clock_that_jumps_makes_no_driver_dead_that_is_seen_alive(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, is_seen: bool
) -> None:
    """A machine slept for days: gc comes before the driver's next beat."""
    assert make(store, dies_after=2) is None
    store.clock = 10**6 * HOUR
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    with child:
        owner = structs.replace(this_process(), pid=child.pid, started=0)
        owner = structs.replace(owner, started=start_of(child.pid) if is_seen else 1)
        sign = Liveness(LivenessState.STALE, 1e9, owner)
        monkeypatch.setattr(looks, "sign_of_life", lambda *arguments, **options: sign)
        act = gc(store).act
        child.terminate()
    assert act is (GcAction.LEAVE if is_seen else GcAction.CLOSE) and bool(results(store)) is is_seen


def test_without_a_lease_a_living_run_is_lost(monkeypatch: pytest.MonkeyPatch, store: MemoryStore) -> None:
    """The control: a gc that takes whatever is silent for no time at all."""
    monkeypatch.setattr(tend, "close", partial(opening.close, force=True))
    monkeypatch.setattr(looks, "sign_of_life", lambda *_: Liveness(LivenessState.STALE, None, None))
    with pytest.raises(Fenced):
        make(store, before_act=lambda: void(gc(store, AT_ONCE)))
    with pytest.raises(RunClosed):
        make(store, application="app-2")


def test_a_run_whose_journal_is_damaged_is_left_alone(store: MemoryStore) -> None:
    fail(store)
    for key in [key for key in store.objects if "/snapshot/" in key or key.endswith("/journal/" + f"{3:020d}")]:
        store.put(key, b"RK1 damaged")
    before = results(store)
    store.clock = 10**6 * HOUR
    report = gc(store)
    assert (report.act, report.because) == (GcAction.LEAVE, "its journal cannot be read")
    assert "record 3" in report.trouble and results(store) == before


class Interrupted(MemoryStore):
    """Something happens before the first walk that is made after it was armed."""

    meanwhile: Callable[[], None] | None = None

    def walk(self, folder: str) -> Iterator[list[StoredObject]]:
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()
        return super().walk(folder)


def gc_while_somebody_resumes(store: Interrupted) -> set[str]:
    """A driver comes after gc read the journal, commits what was missing of clean, and dies: gc sees files that it
    knows nothing of. Which they are."""
    fail(store)
    store.meanwhile = lambda: void(make(store, application="app-2", dies_after=2))
    gc(store, Retention(0, 10**9))
    return {f"{FOLDER}/results/clean/g0/e2-a5/{name}" for name in ("_attempt", data_name(2), marker_name(2, 32))}


def test_a_directory_that_became_known_while_gc_looked_stays() -> None:
    store = Interrupted()
    new = gc_while_somebody_resumes(store)
    assert results(store) == NEEDED | new
    assert make(store, application="app-3") is Phase.SUCCEEDED


def test_without_a_second_look_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunCollector, "_confirmed", lambda self, run, heaps: heaps)
    store = Interrupted()
    new = gc_while_somebody_resumes(store)
    assert results(store) == NEEDED and new
    engine = Filing(store, FOLDER, "app-3")
    make_run(store, RUN, engine=engine)
    assert engine.losses == 1, "daily read a file that was gone"


def test_gc_takes_only_the_run_that_it_judged(monkeypatch: pytest.MonkeyPatch, store: MemoryStore) -> None:
    """Somebody resumes between the look and the takeover, fails again and leaves: the run is young again."""
    fail(store)
    store.clock = 11 * HOUR
    arm(monkeypatch, lambda: void(make(store, application="app-2", breaks=always("clean", 2))))
    report = gc(store)
    assert report.act is GcAction.LEAVE and "after gc read its journal" in report.trouble
    assert results(store) >= NEEDED
    assert make(store, application="app-3") is Phase.SUCCEEDED


def test_without_that_look_a_run_is_lost_that_was_resumed(monkeypatch: pytest.MonkeyPatch, store: MemoryStore) -> None:
    fail(store)
    store.clock = 11 * HOUR
    arm(monkeypatch, lambda: void(make(store, application="app-2", breaks=always("clean", 2))), is_checked=False)
    assert gc(store).act is GcAction.CLOSE and results(store) == set()
    with pytest.raises(RunClosed):
        make(store, application="app-3")


def test_a_pin_that_comes_in_the_last_moment_holds(monkeypatch: pytest.MonkeyPatch, store: MemoryStore) -> None:
    fail(store)
    store.clock = 11 * HOUR
    arm(monkeypatch, lambda: void(pins.put_pin(store, "daily", RUN, RunPin("ann", 0))))
    report = gc(store)
    assert report.act is GcAction.LEAVE and "pinned" in report.trouble and results(store) >= NEEDED


class Diaryless(MemoryStore):
    """Takes everything but the diary of gc."""

    def put_if_absent(self, key: str, body: bytes) -> Put:
        if "/_gc/" in key:
            raise StoreFailed(f"{self.name} did not write {key}: told to fail")
        return super().put_if_absent(key, body)


@pytest.mark.parametrize("hours", [2, 20], ids=["waste", "a whole run"])
def test_what_cannot_be_noted_is_not_deleted(hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Diaryless()
    fail(store)
    before = results(store)
    store.clock = hours * HOUR
    report = gc(store)
    assert report.is_failed and "did not write daily/_gc/" in report.trouble
    assert results(store) == before
    monkeypatch.setattr(diary.AuditLog, "note", lambda self, entry: None)
    gc(store)
    assert results(store) == (NEEDED if hours == 2 else set()), "the control: it would have been deleted"


def test_the_diary_tells_what_went_and_why_before_it_goes(store: MemoryStore) -> None:
    fail(store)
    single, whole = leave_waste(store)
    store.clock = 2 * HOUR
    gc(store)
    store.clock = 20 * HOUR
    gc(store)
    told = told_by_gc(store)
    assert {entry.act for entry in told} == {"sweep", "close"} and {entry.run for entry in told} == {FOLDER}
    named = {f"{FOLDER}/{entry.folders[0]}{name}" for entry in told for name in entry.names}
    assert named == single
    folders = {folder for entry in told if not entry.names for folder in entry.folders}
    assert all(any(key.startswith(f"{FOLDER}/{folder}") for folder in folders) for key in whole)
    assert sum(entry.files for entry in told if entry.act == "close") == len(NEEDED)
    assert diary.forget_old(store, "daily", round(store.clock * 1000)) == 0
    assert diary.forget_old(store, "daily", 91 * 86_400_000 + 20 * 3_600_000) == len(told)


class Watched(MemoryStore):
    """Calls somebody before the nth deletion."""

    left = 10**9
    act: Callable[[], None] = staticmethod(lambda: None)

    def delete(self, key: str) -> None:
        self.left -= 1
        if self.left == 0:
            self.act()
        super().delete(key)


def killed() -> None:
    raise KeyboardInterrupt


def given_up() -> Watched:
    """A run that is due, with waste of every kind."""
    store = Watched()
    fail(store)
    leave_waste(store)
    store.clock = 20 * HOUR
    return store


def is_gone(store: Store) -> bool:
    left = {entry.name.split("/")[0] for page in store.walk(f"{FOLDER}/") for entry in page}
    return left == {"journal"} and read(store, FOLDER, opening.codec()).position.is_closed


def test_a_gc_that_is_killed_at_any_deletion_is_finished_by_the_next_one() -> None:
    deletions = 0
    while True:
        store, deletions = given_up(), deletions + 1
        store.left, store.act = deletions, killed
        with suppress(KeyboardInterrupt):
            gc(store)
        was_killed = store.left <= 0
        store.left, store.clock = 10**9, 40 * HOUR
        gc(store)
        assert is_gone(store), f"killed at deletion {deletions}"
        assert gc(store).findings == ()
        if not was_killed:
            break
    assert deletions > 20


def test_two_at_once_are_harmless() -> None:
    at = 0
    while True:
        store, at, reports = given_up(), at + 1, list[GcReport]()
        store.left, store.act = at, partial(void, None)
        store.act = lambda store=store, reports=reports: reports.append(gc(store))  # type: ignore[misc]
        reports.append(gc(store))
        gc(store)
        assert is_gone(store)
        if store.left > 0:
            break
        assert sum(report.act is GcAction.CLOSE for report in reports) == 1
    assert at > 20


def test_batches_and_pace_are_kept() -> None:
    store, slept, clock = Watched(), list[float](), [0.0]
    batches: list[int] = []
    store.delete_many = lambda folder, names: batches.append(len(names))  # type: ignore[method-assign]
    remover = Remover(store, Limits(batch=40, per_second=100.0), lambda: clock[0], slept.append)
    assert remover.remove("x/", [str(n) for n in range(100)]) == 100
    assert batches == [40, 40, 20]
    assert slept == [pytest.approx(0.4), pytest.approx(0.8)]


def test_it_is_the_same_on_a_disk(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    fail(store)
    single, whole = leave_waste(store)
    assert single | whole <= results(store)
    gc(store, Retention(0, 10**9))
    assert results(store) == NEEDED
    assert not (tmp_path / FOLDER / "results/clean/g0/e1-a3").exists()
    assert gc(store, AT_ONCE).act is GcAction.CLOSE
    assert is_gone(store)


@pytest.mark.s3
def test_it_is_the_same_on_a_real_object_store(s3: S3Server) -> None:
    store = open_store(s3.url(uuid.uuid4().hex), s3.store_settings)
    fail(store)
    single, whole = leave_waste(store)
    assert single | whole <= results(store)
    gc(store, Retention(0, 10**9))
    assert results(store) == NEEDED
    assert gc(store, AT_ONCE).act is GcAction.CLOSE
    assert is_gone(store)


def arm(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None], *, is_checked: bool = True) -> None:
    """Let something happen after gc judged a run and before it takes it."""

    def close(*arguments: Any, check: Any, **options: Any) -> int:
        meanwhile()
        return opening.close(*arguments, check=check if is_checked else (lambda state: None), **options)

    monkeypatch.setattr(tend, "close", close)


def void(value: object) -> None:
    """An act as an expression."""


@pytest.mark.s3
def test_many_runs_are_tended_at_once_and_told_in_order(s3: S3Server) -> None:
    store = open_store(s3.url(uuid.uuid4().hex), s3.store_settings)
    runs = [("daily", f"run-{number}", number) for number in range(1, 8)]
    for pipeline, run, number in runs:
        breaks = always("clean", 2) if number % 2 else nothing
        make_run(store, run, engine=Filing(store, f"{pipeline}/{run}", breaks=breaks))
    store.put("daily/run-3/journal/00000000000000000002", b"RK1 damaged")
    store.delete_many("daily/run-3/snapshot/", store.list_after("daily/run-3/snapshot/"))
    pins.put_pin(store, "daily", "run-5", RunPin("ann", 0))
    reports = list(tend_all(store, runs, GcRules(terms=AT_ONCE, limits=Limits(parallel=3))))
    assert [(one.number, one.because) for one in reports] == [
        (1, "it was not resumed in time"),
        (2, "it succeeded"),
        (3, "its journal cannot be read"),
        (4, "it succeeded"),
        (5, "it is pinned"),
        (6, "it succeeded"),
        (7, "it was not resumed in time"),
    ]
    left = {entry.name.split("/")[0] for page in store.walk("daily/") for entry in page if "/results/" in entry.name}
    assert left == {"run-3", "run-5"}


def test_what_dead_processes_left_beside_the_pipelines_goes_when_it_is_old(store: MemoryStore) -> None:
    for key in ("_clock/one", "_probe/two", "notes/three"):
        store.put(key, b"")
    store.clock = HOUR
    assert tidy_location(store, AT_ONCE) == 0, "a process may be using it"
    store.clock = HOUR + 1
    assert tidy_location(store, Retention(2 * 3_600_000, 0)) == 0
    assert tidy_location(store, AT_ONCE) == 2 and list(store.objects) == ["notes/three"]
