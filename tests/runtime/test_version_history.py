"""What a run asks of a target with many publications: not the whole chain at the end of every night."""

from __future__ import annotations

from pathlib import Path

from rekindle.master.facts.events import Fence
from rekindle.publish.history import at_version, previous, stale_after
from rekindle.publish.pointers import POINTERS, NewestPointer, Part, compose, encode
from rekindle.storage.local_disk import LocalDisk


class Counted(LocalDisk):
    """Counts what is read."""

    gets = 0

    def get(self, key: str) -> bytes | None:
        self.gets += 1
        return super().get(key)


def test_the_end_of_a_night_reads_one_pointer_however_many_there_are(tmp_path: Path) -> None:
    for adds in (True, False):
        store, top = Counted(tmp_path / str(adds)), NewestPointer(0, None)
        for order in range(1, 51):
            part = Part(fence=Fence(order, 1, 1), source=str(order), bytes=(1,), key=f"day-{order}")
            top = NewestPointer(order, compose(top, part, "daily", "{}", adds=adds, stays=True))
            assert top.pointer is not None
            store.put(f"{POINTERS}{order:020d}", encode(top.pointer))
        assert stale_after(store, "day-50") == stale_after(store, "day-1") == []
        assert store.gets == 2
        assert previous(store, "day-50", "out") is None, "nothing was made from itself, and this key is the last one"
        assert store.gets == 3


def test_a_version_is_found_by_its_name_its_number_and_what_show_prints(tmp_path: Path) -> None:
    store, top = LocalDisk(tmp_path), NewestPointer(0, None)
    for order in (1, 2):
        part = Part(fence=Fence(order, 1, 1), source=str(order), bytes=(1,), key=f"day-{order}")
        top = NewestPointer(order, compose(top, part, "daily", "{}", adds=True, stays=True))
        assert top.pointer is not None
        store.put(f"{POINTERS}{order:020d}", encode(top.pointer))
    assert at_version(store, "v2-1-1-on-1", "out") == at_version(store, "v2-1-1", "out") == top.pointer
    assert at_version(store, 2, "out") == top.pointer != at_version(store, "v1-1-1", "out")
