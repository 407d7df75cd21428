"""The sweep beside a run: bounded, rarely, in turn, and never any trouble of the run's."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rekindle.errors import StoreFailed
from rekindle.gc import background_sweep as net
from rekindle.gc.background_sweep import EVERY_SECONDS, FILES, PAGES, RUNS, BackgroundSweep, sweep
from rekindle.gc.collect_run import GcRules
from rekindle.gc.policy import GcAction, Retention
from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import Store
from support.filing import Filing
from support.location import always, make_run

RULES = GcRules(terms=Retention(grace_ms=3_600_000, retention_ms=0))
DAY = 86_400.0


class Counting(MemoryStore):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in COUNTED:
            self.calls[name] += 1
        return found


COUNTED = {"get", "put", "put_if_absent", "list_after", "list_folders", "walk", "modified", "now", "delete", "get_many"}


def with_runs(count: int, late: int = 1) -> Counting:
    """Runs that are done, each with files that came late; they are a day old."""
    store = Counting()
    for number in range(1, count + 1):
        folder = f"daily/run-{number}"
        make_run(store, f"run-{number}", engine=Filing(store, folder))
        for file in range(late):
            store.put(f"{folder}/results/orders/g0/e1-a1/part-99_{file:05d}.parquet", b"late")
    store.clock = DAY
    store.calls.clear()
    return store


def late(store: MemoryStore) -> set[str]:
    return {key.split("/")[1] for key in store.objects if "part-99_" in key}


def test_waste_of_other_runs_goes_and_none_is_closed() -> None:
    store = with_runs(2)
    make_run(store, "run-3", engine=Filing(store, "daily/run-3", breaks=always("clean", 2)))
    store.clock += 10 * DAY
    kept = {key for key in store.objects if "/results/" in key and "part-7_" in key}
    reports = sweep(store, "daily", RULES)
    assert [(report.number, report.act) for report in reports] == [
        (1, GcAction.SWEEP),
        (2, GcAction.SWEEP),
        (3, GcAction.SWEEP),
    ]
    assert late(store) == set() and kept and kept <= store.objects.keys()


def test_it_happens_once_in_a_while_and_in_turn() -> None:
    store = with_runs(RUNS + 5)
    assert [one.number for one in sweep(store, "daily", RULES)] == list(range(1, RUNS + 1))
    assert late(store) == {f"run-{number}" for number in range(RUNS + 1, RUNS + 6)}
    assert sweep(store, "daily", RULES) == []
    store.clock += EVERY_SECONDS
    assert [one.number for one in sweep(store, "daily", RULES)][:6] == [21, 22, 23, 24, 25, 1]
    assert late(store) == set()


def test_its_calls_are_bounded_however_many_runs_there_are() -> None:
    few, many = with_runs(RUNS), with_runs(2 * RUNS)
    for store in (few, many):
        sweep(store, "daily", replace(RULES, terms=Retention(10**12, 0)))
    assert few.calls == many.calls
    assert sum(many.calls.values()) < 12 * RUNS


@pytest.mark.parametrize("count", [FILES + 1, PAGES * 1000])
def test_what_is_large_waits_for_gc(count: int) -> None:
    store = with_runs(1, late=count)
    (report,) = sweep(store, "daily", RULES)
    assert report.findings == () and late(store) == {"run-1"}


def test_the_end_of_the_run_ends_it() -> None:
    store, left = with_runs(5), [2]

    def is_over() -> bool:
        left[0] -= 1
        return left[0] < 0

    assert len(sweep(store, "daily", RULES, is_over)) == 2
    store.clock += EVERY_SECONDS
    assert [one.number for one in sweep(store, "daily", RULES)] == [3, 4, 5, 1, 2]


class Broken(MemoryStore):
    def modified(self, key: str) -> float | None:
        raise StoreFailed("told to fail")


@pytest.mark.parametrize("make", [Broken, MemoryStore])
def test_nothing_of_it_reaches_the_run(make: Callable[[], Store]) -> None:
    with BackgroundSweep(make, "daily", RULES):
        pass


def test_it_is_done_at_the_start_unless_it_is_switched_off() -> None:
    store = with_runs(2)
    with BackgroundSweep(lambda: store, "daily", None):
        pass
    assert late(store) == {"run-1", "run-2"} and "daily/_swept" not in store.objects
    with BackgroundSweep(lambda: store, "daily", RULES) as beside:
        beside._wait(600.0)
        assert late(store) == set()


def test_it_is_done_at_the_end_of_a_run_that_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net, "END_SECONDS", 600.0)
    store = with_runs(2)
    with BackgroundSweep(lambda: store, "daily", RULES) as beside:
        beside._wait(600.0)
        store.put("daily/run-2/results/orders/g0/e1-a1/part-99_00001.parquet", b"late")
        store.clock += EVERY_SECONDS
    assert late(store) == set()


class Hanging(MemoryStore):
    """Answers nobody until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def modified(self, key: str) -> float | None:
        self.go_on.wait()
        return super().modified(key)


def test_a_store_that_hangs_holds_up_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net, "STOP_SECONDS", 0.0)
    store = Hanging()
    with BackgroundSweep(lambda: store, "daily", RULES) as beside:
        pass
    assert beside._thread is not None and beside._thread.is_alive(), "the run is over, and it is not"
    store.go_on.set()
    beside._wait(600.0)


def test_a_process_that_can_have_no_more_threads_runs_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with BackgroundSweep(MemoryStore, "daily", RULES):
        pass


def test_after_a_failure_nobody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(net, "sweep", lambda *_: begun.append("sweep"))
    with pytest.raises(KeyError), BackgroundSweep(MemoryStore, "daily", RULES):
        raise KeyError("the run failed")
    assert begun == ["sweep"], "the one at the start"
