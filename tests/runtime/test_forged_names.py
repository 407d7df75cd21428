"""Names that stand in the store become folders: one that leads elsewhere is never followed, by gc least of all."""

from __future__ import annotations

import warnings
import zlib
from pathlib import Path

import msgspec
import pytest

from cli.calling import call
from rekindle.config import Config
from rekindle.errors import JournalRefused, Notice, Refused
from rekindle.gc.background_sweep import sweep
from rekindle.journal import keys
from rekindle.model.ids import AttemptId, Epoch, Generation
from rekindle.model.partitions import EMPTY
from rekindle.results import manifest
from rekindle.results.result_paths import directory_of
from rekindle.runtime.opening import peek
from rekindle.service.limits import rules_of
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.memory import MemoryStore
from support.filing import Filing
from support.location import always, make_run

NOW = ("--set", "gc.grace_hours=0", "--set", "gc.retention_hours=0")
FORGED = [
    "../../b/daily/run-1",
    "..",
    ".",
    "",
    "/etc",
    "run/1",
    "_keys",
    ".hidden",
    "a\x1b[2J",
    "x" * 200,
    "a\nb",
    "a\\b",
]
OLDER = ["day=2026-11-13", "the day", "täglich", "2026-11-13T10:00+01", "a,b"]


@pytest.fixture
def two(tmp_path: Path) -> tuple[LocalDisk, LocalDisk]:
    """Two locations, each with a run that can be resumed."""
    stores = LocalDisk(tmp_path / "a"), LocalDisk(tmp_path / "b")
    for store in stores:
        make_run(store, "run-1", engine=Filing(store, "daily/run-1", breaks=always("clean", 2)))
    return stores


def everything(store: LocalDisk) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in store.root.rglob("*") if path.is_file()}


def test_gc_of_one_location_never_touches_another(
    two: tuple[LocalDisk, LocalDisk], capsys: pytest.CaptureFixture[str]
) -> None:
    mine, other = two
    before = everything(other)
    mine.put("daily/_runs/00000091", b"../../b/daily/run-1")
    said = call(capsys, "gc", *NOW, "--location", str(mine.root))
    assert everything(other) == before
    assert "daily/1 " in said.out and "daily/91" not in said.out, "its own runs are looked after"
    told = "warning: daily/_runs/00000091 is ignored: '../../b/daily/run-1' is not the name of a run\n"
    assert (said.code, said.err) == (0, told)


def test_the_sweep_beside_a_run_touches_no_other_location(two: tuple[LocalDisk, LocalDisk]) -> None:
    mine, other = two
    before = everything(other)
    mine.put("daily/_runs/00000091", b"../../b/daily/run-1")
    with pytest.warns(Notice, match="daily/_runs/00000091"):
        reports = sweep(mine, "daily", rules_of(Config(grace_hours=0, retention_hours=0)))
    assert [report.run for report in reports] == ["run-1"] and everything(other) == before


@pytest.mark.parametrize("name", FORGED)
def test_what_is_no_run_name_is_given_to_nobody(name: str) -> None:
    store = MemoryStore()
    keys.enlist(store, "daily", "run-1")
    store.put("daily/_runs/00000002", name.encode())
    with pytest.warns(Notice):
        assert keys.listed(store, "daily") == {1: "run-1"}
    with pytest.warns(Notice):
        assert keys.numbered(store, "daily", 2) is None
    with pytest.raises(Refused):
        keys.enlist(store, "daily", name)
    with pytest.raises(Refused):
        keys.claim(store, "daily", {}, name)


@pytest.mark.parametrize("name", OLDER)
def test_a_run_that_an_earlier_release_named_is_found_and_resumed(name: str) -> None:
    """Names were free then. A new one has to be a plain one."""
    store = MemoryStore()
    keys.claim(store, "daily", {}, "run-1")
    (key,) = [key for key in store.objects if "/_keys/" in key]
    store.put(key, msgspec.json.encode({"run": name, "key": "{}"}))
    assert keys.claim(store, "daily", {}, name) == keys.claim(store, "daily", {}, "run-2") == keys.Claim(name, 1)
    assert keys.enlist(store, "daily", name) == 1, "it may have died before it was listed"
    assert keys.listed(store, "daily") == {1: name} and keys.numbered(store, "daily", 1) == name
    with pytest.raises(Refused, match="is not a valid run name"):
        keys.claim(store, "daily", {"day": "1"}, name)


@pytest.mark.parametrize("body", [b'{"run": "../../b/daily/run-1", "key": "{}"}', b"no json", b"{}"])
def test_a_key_that_names_no_run_is_refused_and_new_goes_past_it(body: bytes) -> None:
    store = MemoryStore()
    keys.claim(store, "daily", {}, "run-1")
    (key,) = [key for key in store.objects if "/_keys/" in key]
    store.put(key, body)
    with pytest.raises(JournalRefused, match="_keys/"):
        keys.find_claim(store, "daily", {})
    with pytest.raises(JournalRefused, match="_keys/"):
        keys.claim(store, "daily", {}, "run-2")
    assert keys.claim(store, "daily", {}, "run-2", is_new=True) == keys.Claim("run-2", 2, True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert keys.parameters_of(store, "daily")["run-2"] == {}


def test_an_identity_that_is_none_is_refused() -> None:
    store = MemoryStore()
    assert keys.find_identity(store, "daily") == ""
    assert keys.find_identity(store, "daily") == "" != keys.identify(store, "daily")
    store.put("daily/_identity/id", b"../../elsewhere")
    with pytest.raises(JournalRefused, match="_identity/id"):
        keys.find_identity(store, "daily")


def test_the_newest_run_is_found_below_a_name_that_is_none(
    two: tuple[LocalDisk, LocalDisk], capsys: pytest.CaptureFixture[str]
) -> None:
    mine, _ = two
    mine.put("daily/_runs/00000091", b"../../b/daily/run-1")
    said = call(capsys, "show", "--location", str(mine.root))
    assert said.code == 0 and "run 1 of daily" in said.out


@pytest.mark.parametrize("key", ["../b/x", "daily/../../b/x", "/etc/passwd", ".."])
def test_no_key_leads_out_of_a_disk(tmp_path: Path, key: str) -> None:
    store = LocalDisk(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").write_bytes(b"mine")
    for act in (
        lambda: store.get(key),
        lambda: store.put(key, b""),
        lambda: store.put_if_absent(key, b""),
        lambda: store.delete(key),
        lambda: store.delete_many("", [key]),
        lambda: list(store.get_many("", [key])),
        lambda: list(store.get_many(key, ["x"])),
        lambda: store.modified(key),
        lambda: list(store.walk(key)),
        lambda: store.list_after(key),
        lambda: store.list_folders(key),
    ):
        with pytest.raises(JournalRefused, match="is outside of"):
            act()
    assert (tmp_path / "b" / "x").read_bytes() == b"mine"


@pytest.mark.parametrize("step", ["../../../b", "..", "", "a/b"])
def test_a_step_of_a_journal_names_no_other_folder(step: str) -> None:
    with pytest.raises(JournalRefused, match="not the name of a step"):
        directory_of(AttemptId(step, Generation(0), Epoch(1), 1))


def test_a_manifest_names_no_file_of_another_folder() -> None:
    packed = manifest.pack([manifest.Commit(partition=0, task=1, name="part-1_00000.parquet", bytes=10)], "{}")
    assert [one.name for one in manifest.unpack(packed)] == ["part-1_00000.parquet"]
    forged = manifest._Columns([0], [1], [10], "/../../../../b/x", "{}")
    with pytest.raises(JournalRefused, match="would lie elsewhere"):
        manifest.unpack(zlib.compress(msgspec.json.encode(forged)))
    assert manifest.bytes_of(packed, EMPTY) == 0


def test_a_journal_that_was_copied_under_another_name_is_refused(two: tuple[LocalDisk, LocalDisk]) -> None:
    mine, _ = two
    (mine.root / "daily" / "run-9").symlink_to(mine.root / "daily" / "run-1")
    assert peek(mine, "daily", "run-1") is not None
    with pytest.raises(JournalRefused, match="belongs to daily/run-1"):
        peek(mine, "daily", "run-9")
