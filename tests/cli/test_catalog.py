"""What a location holds, also where the store is far away and is read in parallel."""

from __future__ import annotations

import pytest

from rekindle.cli.catalog import Named, each, find_run, newest_of, pipelines, runs_of
from rekindle.cli.run_list import RunList
from rekindle.errors import NotFound, StoreFailed
from rekindle.journal.keys import claim, enlist, parameters_of
from rekindle.journal.lease import Liveness, LivenessState
from rekindle.journal.owner import Owner
from rekindle.runtime import snapshots as snapshots_module
from rekindle.service.life import life_text
from rekindle.storage.memory import MemoryStore
from support.instant import Instant
from support.location import make_run


def test_runs_by_number_and_by_name() -> None:
    store = MemoryStore()
    make_run(store, "run-1", parameters={"day": "1"})
    make_run(store, "run-2", parameters={"day": "2"})
    store.put("_probe/x", b"")
    store.put("somebody/elses/data", b"")
    assert pipelines(store) == ["daily"]
    assert runs_of(store, "daily") == [
        Named("daily", "run-1", 1),
        Named("daily", "run-2", 2),
    ]
    assert newest_of(store, "daily") == find_run(store, None) == Named("daily", "run-2", 2)
    assert str(find_run(store, "run-2")) == str(find_run(store, "daily")) == "daily/2"
    with pytest.raises(NotFound, match="name one: daily/1, daily/2"):
        find_run(store, "run-")


def test_a_key_that_was_claimed_anew_names_every_run_of_it() -> None:
    store = MemoryStore()
    claim(store, "daily", {"day": "1"}, "run-1")
    claim(store, "daily", {"day": "1"}, "run-2", is_new=True)
    claim(store, "daily", {}, "run-3")
    assert parameters_of(store, "daily") == {"run-1": {"day": "1"}, "run-2": {"day": "1"}, "run-3": {}}


def test_a_run_that_took_a_number_and_never_began() -> None:
    store = MemoryStore()
    enlist(store, "daily", "run-1")
    (named,) = runs_of(store, "daily")
    brief = RunList(store, 30.0).of(named, None)
    assert (brief.phase, brief.kept, brief.wanted, brief.changed_ms) == ("never began", 0, 0, None)


def test_everything_is_read_in_order_from_far_away() -> None:
    store = MemoryStore()
    assert list(each(store, lambda number: number * 2, range(100))) == [number * 2 for number in range(100)]


def test_the_store_is_asked_for_the_time_once_and_may_have_none() -> None:
    store = MemoryStore()
    for number in range(3):
        make_run(store, f"run-{number}", parameters={"day": str(number)}, engine=Mute(store, dies_after=2))
    asked = []
    store.now = lambda: asked.append(1) or 10.0  # type: ignore[method-assign,func-returns-value]
    reader = RunList(store, 30.0)
    briefs = [reader.of(named, None) for named in runs_of(store, "daily")]
    assert [brief.phase for brief in briefs] == ["running"] * 3 and len(asked) == 1
    assert "alive 10 s ago" in briefs[0].driver

    def refuse() -> float:
        raise StoreFailed("read only")

    store.now = refuse  # type: ignore[method-assign]
    brief = RunList(store, 30.0).of(runs_of(store, "daily")[0], None)
    assert (brief.phase, brief.driver) == ("running", "unknown: the store does not tell the time")


class Mute(Instant):
    """Dies without giving its lease back."""

    def __init__(self, store: MemoryStore, dies_after: int) -> None:
        super().__init__(dies_after=dies_after)
        self._store = store

    def close(self) -> None:
        left = [key for key in self._store.objects if "/heartbeat/" in key]
        for key in left:
            body = self._store.objects[key][0].replace(b',"has_left":true', b"")
            self._store.objects[key] = (body, 0.0)


def test_a_snapshot_is_gone_on_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots_module, "RECORDS_MIN", 3)
    store, bare = MemoryStore(), MemoryStore()
    for one in (store, bare):
        make_run(one, "run-1", engine=Instant(dies_after=3))
    bare.objects = {key: value for key, value in bare.objects.items() if "/snapshot/" not in key}
    assert any("/snapshot/" in key for key in store.objects)
    with_one, without = (RunList(each_, 30.0).of(Named("daily", "run-1", 1), None) for each_ in (store, bare))
    assert (with_one.phase, with_one.kept, with_one.wanted) == (without.phase, without.kept, without.wanted)
    for key in store.objects:
        if "/snapshot/" in key:
            store.objects[key] = (b"torn", 0.0)
    assert RunList(store, 30.0).of(Named("daily", "run-1", 1), None).kept == without.kept


@pytest.mark.parametrize(
    ("sign", "text"),
    [
        (Liveness(LivenessState.LIVING, 3.0, Owner("host", 7)), "process 7 on host, alive 3 s ago"),
        (Liveness(LivenessState.LEFT, None, Owner("host", 7)), "process 7 on host has ended"),
        (Liveness(LivenessState.DEAD, None, Owner("host", 7)), "process 7 on host is dead"),
        (Liveness(LivenessState.STALE, 600.0, None), "its driver, last seen 10 min ago"),
        (Liveness(LivenessState.STALE, None, None), "its driver, last seen long ago"),
        (Liveness(LivenessState.NOBODY, None, None), "nobody"),
    ],
)
def test_a_driver_in_words(sign: Liveness, text: str) -> None:
    assert life_text(sign) == text
