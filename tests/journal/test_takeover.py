"""Who may become the master, and when."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import msgspec
import pytest

from rekindle.errors import Fenced, JournalRefused, StillOwned, StoreFailed
from rekindle.journal.frame import name_of
from rekindle.journal.history import History, folder_of, read
from rekindle.journal.lease import Lease, LivenessState, heartbeat_key, sign_of_life
from rekindle.journal.owner import Owner, is_seen_dead, this_process
from rekindle.journal.takeover import take_over
from rekindle.storage.memory import MemoryStore
from support.facts import CODEC, RUN, Fact, Noted, no_pause, open_run, opening

OTHER = Owner("elsewhere", 7)


def owned(by: Owner = OTHER) -> tuple[MemoryStore, Lease]:
    """A run whose master beat at store time 100."""
    store = MemoryStore()
    store.clock = 100.0
    journal, _ = take_over(store, RUN, CODEC, opening, owner=by)
    lease = Lease(journal)
    lease.beat()
    return store, lease


def life(store: MemoryStore) -> LivenessState:
    return sign_of_life(store, RUN, read(store, RUN, CODEC).position).life


def test_a_fresh_heartbeat_keeps_others_out_and_says_what_to_do() -> None:
    store, _ = owned()
    store.clock = 129.0
    with pytest.raises(StillOwned, match=r"process 7 on elsewhere, whose last heartbeat was 29 s ago\n.*force=True"):
        open_run(store, force=False)


def test_a_stale_heartbeat_by_the_stores_clock_lets_others_in() -> None:
    store, _ = owned()
    store.clock = 131.0
    journal, _ = open_run(store, force=False)
    assert journal.epoch == 2


def test_a_fresh_record_is_a_sign_of_life_too() -> None:
    store = MemoryStore()
    journal, _ = take_over(store, RUN, CODEC, opening, owner=OTHER)
    store.clock = 40.0
    assert life(store) is LivenessState.STALE
    journal.append(Noted("working"))
    assert life(store) is LivenessState.LIVING


def test_a_master_that_left_is_not_waited_for() -> None:
    store, lease = owned()
    lease.stop()
    assert life(store) is LivenessState.LEFT
    assert open_run(store, force=False)[0].epoch == 2


def test_force_takes_over_a_living_master_which_is_fenced() -> None:
    store, lease = owned()
    open_run(store, force=True)
    with pytest.raises(Fenced, match="belongs to epoch 2"):
        lease.beat()


def test_force_does_not_reach_a_master_that_came_in_between() -> None:
    store, _ = owned()
    raced: list[int] = []

    def slow_opening(history: History[Fact], epoch: int) -> list[Fact]:
        if not raced:
            raced.append(epoch)
            open_run(store, force=True)
        return opening(history, epoch)

    with pytest.raises(StillOwned):
        take_over(store, RUN, CODEC, slow_opening, force=True, pause=no_pause)
    assert read(store, RUN, CODEC).position.epoch == 2


def test_a_dead_process_on_this_host_is_seen_at_once() -> None:
    code = "import msgspec; from rekindle.journal.owner import this_process as me; "
    code += "print(msgspec.json.encode(me()).decode())"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment)
    dead = msgspec.json.decode(done.stdout, type=Owner)
    assert is_seen_dead(dead)
    store, _ = owned(by=dead)
    assert life(store) is LivenessState.DEAD
    assert open_run(store, force=False)[0].epoch == 2


@pytest.mark.parametrize("field", ["host", "boot", "namespace"])
def test_a_process_of_another_host_boot_or_container_is_never_seen_dead(field: str) -> None:
    gone = msgspec.structs.replace(this_process(), pid=2**30)
    assert is_seen_dead(gone)
    assert not is_seen_dead(msgspec.structs.replace(gone, **{field: "other"}))


def test_the_same_number_with_another_start_is_another_process() -> None:
    me = this_process()
    assert not is_seen_dead(me)
    assert is_seen_dead(msgspec.structs.replace(me, started=me.started - 1))


def test_a_journal_shorter_than_its_heartbeat_says_is_refused() -> None:
    store, lease = owned()
    journal = lease._journal
    journal.append(Noted("acknowledged"))
    lease.beat()
    store.delete(folder_of(RUN) + name_of(2))
    store.clock = 500.0
    with pytest.raises(JournalRefused, match="had 2 records and now has 1: the storage lost records"):
        open_run(store)


def test_a_journal_that_lost_a_whole_epoch_is_refused() -> None:
    """The next master would number its attempts again, and find the files of the lost one in their place."""
    store, _ = owned()
    store.clock = 500.0
    second, _ = open_run(store)
    Lease(second).beat()
    store.delete(folder_of(RUN) + name_of(second.position.sequence))
    store.clock = 1000.0
    with pytest.raises(JournalRefused, match="the storage lost records"):
        open_run(store)


def test_a_cut_record_that_was_acknowledged_is_refused() -> None:
    store, lease = owned()
    lease._journal.append(Noted("acknowledged"))
    lease.beat()
    store.put(folder_of(RUN) + name_of(2), b"RK1 ")
    with pytest.raises(JournalRefused, match="the storage lost records"):
        open_run(store)


def test_an_unreadable_heartbeat_is_no_sign_but_the_record_is() -> None:
    store, _ = owned()
    store.put(heartbeat_key(RUN, 1), b"{not json")
    assert life(store) is LivenessState.LIVING
    store.clock = 200.0
    assert life(store) is LivenessState.STALE


class NoHeartbeats(MemoryStore):
    """A store that takes records but no heartbeat."""

    fails = False

    def put(self, key: str, body: bytes) -> None:
        if self.fails:
            raise StoreFailed("told to fail")
        super().put(key, body)


def test_the_thread_tells_its_fencing_once_and_survives_a_failing_store() -> None:
    store = NoHeartbeats()
    journal, _ = open_run(store)
    told: list[Fenced] = []
    lease = Lease(journal, told.append, beat_seconds=0.01)
    lease.start()
    store.fails = True
    wait_for(lambda: lease.failure is not None)
    store.fails = False
    wait_for(lambda: lease.failure is None)
    open_run(store)
    wait_for(lambda: bool(told))
    lease.stop()
    assert len(told) == 1 and lease.fenced is told[0]
    assert b"has_left" not in store.objects[heartbeat_key(RUN, 1)][0]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
