"""`rekindle results release` of a stream, as a user types it: what goes, what stays, and who is in the way."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.calling import Said, call
from cli.test_stream_commands import DIED, FAILED, Held, make_failed
from rekindle.errors import RunClosed, StoreFailed
from rekindle.gc.audit_log import AuditEntry, AuditLog
from rekindle.gc.close_stream import close_stream
from rekindle.gc.collect_run import GcRules
from rekindle.gc.policy import Retention
from rekindle.gc.remover import Remover
from rekindle.journal.keys import stream_folder
from rekindle.publish.batch_pins import pins_folder
from rekindle.publish.stream_entries import generation_of
from rekindle.service.streaming import look as look_at
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.store import Put
from support.streams_at import make_stream

Look = Callable[..., Said]
FOLDER = f"shop/_streams/{FAILED}"
RESULT = f"{FOLDER}/results/priced"
# Of a closed stream: the tombstone with the record that it stands on, and those where a sleeper could go on.
STAYS = {"fence", "journal"}
NOW = ("--set", "gc.grace_hours=0")


@pytest.fixture
def store(tmp_path: Path) -> LocalDisk:
    """A stream that failed, with a result, and the fence of one of its regions, which had two drivers."""
    store = LocalDisk(tmp_path)
    make_failed(store)
    for name in ("fence/priced/1", "fence/priced/2", "results/priced/entries/priced/r/0", "state/1/x.zip"):
        store.put(f"{FOLDER}/{name}", b"some bytes")
    return store


@pytest.fixture
def look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Look:
    return lambda *arguments: call(capsys, *arguments, "--location", str(tmp_path))


def everything(store: LocalDisk) -> set[str]:
    root = Path(store.root) / FOLDER
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def folders(store: LocalDisk) -> set[str]:
    return {name.split("/")[0] for name in everything(store)}


def fences(store: LocalDisk, region: str) -> list[str]:
    return sorted(store.list_after(f"{FOLDER}/fence/{region}/"))


def audit(store: LocalDisk) -> list[dict[str, object]]:
    found = sorted((Path(store.root) / "shop" / "_gc").rglob("*"))
    lines = [line for path in found if path.is_file() for line in path.read_text().splitlines()]
    return [entry for entry in map(json.loads, lines) if entry.get("act") == "close"]


def test_a_stream_is_given_up_by_name(look: Look, store: LocalDisk) -> None:
    before = everything(store)
    dry = look("results", "release", "shop/1", "--dry-run")
    assert dry.code == 0 and dry.out.startswith("would delete: the whole run shop/1, ")
    assert everything(store) == before and not audit(store)
    said = look("results", "release", "shop/1")
    assert said.code == 0, said.err
    assert said.out == dry.out.replace("would delete", "deleted")
    assert folders(store) == STAYS
    assert fences(store, "priced") == ["1", "2", "3", "4"], "a driver frozen before it took its number has 3"
    assert fences(store, "customers") == ["1", "2"]
    (entry,) = audit(store)
    assert entry["why"] == "the user gave it up" and entry["folders"] == [f"{FOLDER}/"]
    listed = look("runs")
    assert listed.code == 0 and listed.out.splitlines()[1].split()[:2] == ["shop/1", "closed"]


def test_nobody_goes_on_with_a_closed_stream(look: Look, store: LocalDisk) -> None:
    look("results", "release", "shop/1")
    with pytest.raises(RunClosed):
        look_at(store, "shop", FAILED)
    with pytest.raises(RunClosed):
        make_stream(store, FAILED)
    for words in (("show",), ("explain",), ("results", "pin")):
        said = look(*words, "shop/1")
        assert said.code == 3 and "is closed" in said.err, (words, said)
    again = look("results", "release", "shop/1")
    assert again.code == 0 and again.out == "nothing to delete: it is closed\n"


def test_what_a_gc_that_died_left_goes_by_the_next_one(
    look: Look, store: LocalDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(self: Remover, folder: str, names: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Remover, "remove", dies)
        close_stream(store, "shop", FAILED, 1, GcRules(terms=Retention(grace_ms=0, retention_ms=0)))
    assert {"checkpoints", "results", "state"} <= folders(store)
    assert look("gc").code == 0 and "results" in folders(store), "younger than the grace time"
    dry = look("gc", "--dry-run", *NOW)
    assert "results" in folders(store) and "shop/1" in dry.out
    assert look("gc", *NOW).code == 0
    assert folders(store) == STAYS
    assert {one["why"] for one in audit(store)} == {"the user gave it up", "it is closed"}
    assert look("gc", *NOW).code == 0 and len(audit(store)) == 2, "nothing is left to do"


def test_what_a_driver_that_woke_up_wrote_goes_and_the_closing_record_stays(look: Look, store: LocalDisk) -> None:
    look("results", "release", "shop/1")
    before = everything(store)
    store.put(f"{FOLDER}/checkpoints/priced/offsets/3", b"v1")
    store.put(f"{FOLDER}/fence/new/1", b"")
    assert look("gc", *NOW).code == 0
    assert folders(store) == STAYS and before < everything(store)
    assert fences(store, "new") == ["1", "2", "3"]


def test_a_living_driver_keeps_its_stream(look: Look, store: LocalDisk) -> None:
    held = Held()
    thread = threading.Thread(target=lambda: make_stream(store, DIED, port=held))
    thread.start()
    held.is_polled.wait()
    said = look("results", "release", "shop/2")
    held.may_die.set()
    thread.join()
    assert said.code == 3 and "RK124" in said.err and "last heartbeat was" in said.err
    assert store.list_after(f"shop/_streams/{DIED}/journal/")


def test_what_is_pinned_or_read_stays(look: Look, store: LocalDisk) -> None:
    before = everything(store)
    assert look("results", "pin", "shop/1").code == 0
    said = look("results", "release", "shop/1")
    assert said.code == 3 and "results unpin" in said.err
    assert look("results", "unpin", "shop/1").code == 0
    until = round(store.now()) + 7200
    pin = f"{RESULT}/{pins_folder('priced', generation_of(FAILED, 0))}0.{until}.abcdef0123456789"
    store.put(pin, b"")
    said = look("results", "release", "shop/1")
    assert said.code == 3 and "a batch reads the result of priced" in said.err, (said, everything(store) - before)
    store.delete(pin)
    assert everything(store) == before
    assert look("results", "release", "shop/1").code == 0


def test_a_fence_that_was_not_certainly_put_deletes_nothing(
    look: Look, store: LocalDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = LocalDisk.put_if_absent

    def broken(self: LocalDisk, key: str, data: bytes) -> Put:
        if "/fence/" in key:
            raise StoreFailed("the disk is full")
        return put(self, key, data)

    with monkeypatch.context() as patch:
        patch.setattr(LocalDisk, "put_if_absent", broken)
        said = look("results", "release", "shop/1")
    assert said.code != 0 and {"checkpoints", "results"} <= folders(store)
    assert look("results", "release", "shop/1").code == 0 and folders(store) == STAYS


def test_a_stream_that_never_began_is_refused(look: Look, store: LocalDisk) -> None:
    journal = f"{stream_folder('shop', FAILED)}/journal/"
    store.delete_many(journal, store.list_after(journal))
    for other in ("snapshot/", "heartbeat/"):
        store.delete_many(f"{FOLDER}/{other}", store.list_after(f"{FOLDER}/{other}"))
    said = look("results", "release", "shop/1")
    assert said.code == 3 and "shop/1 never began" in said.err


def test_a_pin_that_comes_while_a_stream_is_closed_is_kept_or_refused(
    look: Look, store: LocalDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever pins writes before it looks, and so does whoever closes."""
    told: list[Said] = []
    note = AuditLog.note

    def pinned_meanwhile(self: AuditLog, entry: AuditEntry) -> None:
        told.append(look("results", "pin", "shop/1"))
        note(self, entry)

    with monkeypatch.context() as patch:
        patch.setattr(AuditLog, "note", pinned_meanwhile)
        assert look("results", "release", "shop/1").code == 0
    assert told[0].code == 3 and "gc is closing run" in told[0].err
    assert not store.list_after("shop/_pins/") and not store.list_after("shop/_closing/")
