"""runs, show, explain, resume and gc of streams, as a user types them, over journals that the real loop made."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.calling import Said, call
from rekindle.cli.catalog import Named, find_run, runs_of
from rekindle.cli.resume import choose
from rekindle.errors import NotFound, StoreFailed
from rekindle.gc.collect_location import tend_targets
from rekindle.gc.collect_run import GcRules
from rekindle.gc.policy import Retention
from rekindle.gc.targets import note_targets
from rekindle.publish.stream_entries import BatchEntry, batch_files
from rekindle.results.checkpoint_log import last_commit, planned
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import StoredObject
from rekindle.streams.stream_events import QueryEnd, StreamPhase
from support.location import make_run
from support.streams_at import HOUR_MS, TEXT, ScriptedQueries, TargetOfStream, make_checkpoint, make_stream

Look = Callable[..., Said]
FAILED, DIED, DONE = "20261110T000001Z-aa", "20261111T000001Z-bb", "20261112T000001Z-cc"
POISON = [("priced", QueryEnd.FAILED)] * 3


@pytest.fixture
def store(tmp_path: Path) -> LocalDisk:
    return LocalDisk(tmp_path)


@pytest.fixture
def look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Look:
    return lambda *arguments: call(capsys, *arguments, "--location", str(tmp_path))


def make_failed(store: LocalDisk) -> None:
    """priced gave up in its batch 2, customers was stopped."""
    state = make_stream(store, FAILED, script=[*POISON, "SIGTERM"])
    assert state is not None and state.phase is StreamPhase.FAILED
    make_checkpoint(store, FAILED, "priced", committed=1, planned=2)
    make_checkpoint(store, FAILED, "customers", committed=4, planned=4)


class Held(ScriptedQueries):
    """A driver that lives until the test lets it die."""

    def __init__(self) -> None:
        super().__init__()
        self.is_polled, self.may_die = threading.Event(), threading.Event()

    def poll(self, timeout_ms: int) -> list[object]:  # type: ignore[override]
        self.is_polled.set()
        self.may_die.wait()
        raise KeyboardInterrupt


@pytest.fixture
def living(store: LocalDisk) -> Iterator[Held]:
    held = Held()
    thread = threading.Thread(target=lambda: make_stream(store, DIED, port=held))
    thread.start()
    held.is_polled.wait()
    yield held
    held.may_die.set()
    thread.join()


def test_runs_lists_streams_beside_batches(look: Look, store: LocalDisk) -> None:
    make_failed(store)
    make_run(store, "20261109T000001Z-ee", pipeline="daily", parameters={})
    said = look("runs")
    assert said.code == 0 and said.err == ""
    lines = said.out.splitlines()
    assert lines[0].split()[:2] == ["RUN", "PHASE"] and lines[1].split()[:2] == ["daily/1", "succeeded"]
    assert lines[3].split()[:4] == ["STREAM", "PHASE", "SINCE", "REGIONS"]
    assert lines[4].split()[:2] == ["shop/1", "failed"] and "0/2" in lines[4] and "has ended" in lines[4]
    assert TEXT[:40] in lines[4] and " ago: " in lines[4]
    stream, batch = json.loads(look("runs", "--json").out)
    assert (stream["kind"], stream["regions"], stream["gave_up"], stream["restarts"]) == ("stream", 2, 1, 2)
    assert stream["failure"] == TEXT and batch["kind"] == "batch"
    journal = f"shop/_streams/{FAILED}/journal/"
    store.put(journal + store.list_after(journal)[0], b"nonsense")
    store.delete_many(f"shop/_streams/{FAILED}/snapshot/", store.list_after(f"shop/_streams/{FAILED}/snapshot/"))
    assert json.loads(look("runs", "shop", "--json").out)[0]["phase"] == "damaged"


def test_a_stream_is_found_by_number_name_and_pipeline(store: LocalDisk) -> None:
    make_failed(store)
    wanted = Named("shop", FAILED, 1, True)
    assert runs_of(store, "shop") == [wanted]
    assert [find_run(store, word) for word in (None, "1", "shop", "shop/1", FAILED[:12])] == [wanted] * 5


def test_show_tells_each_region_and_what_to_type(look: Look, store: LocalDisk) -> None:
    make_failed(store)
    said = look("show", "shop/1")
    assert said.code == 0, said.err
    assert said.out.startswith("stream 1 of shop  failed\n")
    rows = [line.split() for line in said.out.splitlines()]
    (priced,) = (row for row in rows if row[:1] == ["priced"])
    (customers,) = (row for row in rows if row[:1] == ["customers"])
    assert priced[1:5] == ["gave", "up", "1", "2"] and priced[-2:] == ["exactly", "once"]
    assert customers[1:4] == ["stopped", "4", "0"], "the last batch is that of the checkpoint, not of the journal"
    assert "next: see why priced does not run: rekindle explain " in said.out
    assert f"next: bring all its regions back: rekindle resume --location {store.root} PIPELINE shop/1" in said.out
    found = json.loads(look("show", "--json").out)
    assert [(one["name"], one["state"], one["batch"], one["failure_at"]) for one in found["regions"]] == [
        ("priced", "gave up", 1, "shop.py:20 in cents"),
        ("customers", "stopped", 4, ""),
    ]
    page = Path(store.root) / "page.html"
    assert look("show", "--html", str(page)).err == f"written: {page}\n"
    assert "<td>gave up (poison: batch 2 failed 3 times in the same way)</td>" in page.read_text()
    assert "customers [====================] 10 seconds  <- orders" in look("graph", "shop/1").out


def test_a_living_stream_is_shown_without_being_owned(look: Look, living: Held) -> None:
    said = look("show")
    assert "stream 1 of shop  running" in said.out and ", alive" in said.out
    assert "nothing: its driver is alive" in said.out and "resume" not in said.out
    assert json.loads(look("runs", "--json").out)[0]["running"] == 2


def test_a_stream_whose_driver_is_gone_is_said_to_be_interrupted(look: Look, store: LocalDisk) -> None:
    make_stream(store, DIED, script=[("priced", QueryEnd.FAILED)], delay_ms=HOUR_MS)
    said = look("show")
    assert "stream 1 of shop  interrupted" in said.out and "has ended" in said.out
    assert [one["state"] for one in json.loads(look("show", "--json").out)["regions"]] == ["interrupted"] * 2
    assert "next: bring all its regions back: rekindle resume" in said.out


def test_a_stream_that_read_everything_needs_nothing(look: Look, store: LocalDisk) -> None:
    ends = [(name, QueryEnd.FINISHED) for name in ("priced", "customers")]
    make_stream(store, DONE, script=ends, trigger="available now")
    said = look("show")
    assert "stream 1 of shop  finished" in said.out and "next: nothing: it has read all its input" in said.out
    make_stream(store, DONE, regions=("priced",), script=ends[:1], trigger="available now")
    *_, gone = json.loads(look("show", "--json").out)["regions"]
    assert (gone["name"], gone["state"], gone["is_in_code"]) == ("customers", "not in the code", False)


def test_explain_names_the_batch_that_failed_with_what_it_reads(look: Look, store: LocalDisk) -> None:
    make_failed(store)
    said = look("explain", "priced")
    assert said.code == 0, said.err
    for sentence in (
        "query 1 started",
        "query 1 failed after batch 1",
        "(failure 2 of this kind in the same batch); restarts at",
        "gave up: poison (batch 2 failed 3 times in the same way)",
        "the stream was to stop: SIGTERM",
        "priced gave up (poison: batch 2 failed 3 times in the same way); last batch 1, 2 restarts",
        "batch 2 is the one that failed; it reads",
        '  orders: after {"logOffset":1} up to {"logOffset":2}',
        "  file:///shop/orders/2.json",
        f": {TEXT}",
        "next: correct it, then: rekindle resume ",
    ):
        assert sentence in said.out, said.out
    found = json.loads(look("explain", "customers", "--run", "shop/1", "--json").out)
    assert found["next_batch"] is None and "batch 5 is not planned yet" in found["outlook"][1]
    refused = look("explain", "prized")
    assert refused.code == 3 and "stream shop/1 has no region prized" in refused.err and "priced" in refused.err


def test_the_files_of_a_batch_are_those_of_its_own_entry(store: LocalDisk) -> None:
    """Every tenth entry of Spark's log has all files before it, too."""
    make_checkpoint(store, FAILED, "priced", committed=8, planned=9)
    checkpoint = f"shop/_streams/{FAILED}/checkpoints/priced"
    seen = [json.dumps({"path": f"file:/{number}.json", "timestamp": 1, "batchId": number}) for number in range(10)]
    store.delete(f"{checkpoint}/sources/0/9")
    store.put(f"{checkpoint}/sources/0/9.compact", "\n".join(["v1", *seen, "{torn"]).encode())
    found = planned(store, checkpoint, 9)
    assert found is not None and (found.files, found.file_count) == (("file:/9.json",), 1)
    assert last_commit(store, checkpoint) == 8 and planned(store, checkpoint, 10) is None
    store.put(f"{checkpoint}/offsets/10", b'v1\n{}\n{"orders":{"0":12}}\n-')
    kafka = planned(store, checkpoint, 10)
    assert kafka is not None and (kafka.upto, kafka.files) == (('{"orders":{"0":12}}', "-"), ())


def test_a_region_that_runs_is_explained(look: Look, living: Held) -> None:
    said = look("explain", "priced")
    assert "priced is running; last batch none, 0 restarts" in said.out and "next:" not in said.out


def test_resume_chooses_a_stream_that_did_not_end(store: LocalDisk) -> None:
    make_stream(store, DONE, script=[(name, QueryEnd.FINISHED) for name in ("priced", "customers")])
    with pytest.raises(NotFound, match="no run of shop can be resumed"):
        choose(store, "shop", "")
    named = choose(store, "shop", "1")
    assert named.named.is_stream and not named.available_now
    make_stream(store, DIED, trigger="available now", parameters={"day": "1"})
    chosen = choose(store, "shop", "")
    assert chosen.named.run == DIED and chosen.parameters == {"day": "1"}
    assert chosen.available_now, "it was started to end with its input, and is not resumed for ever"
    assert "resuming stream shop/2 (day=1): it did not come to its end, 2 regions go on" in str(chosen)


@pytest.mark.parametrize("words", [("verify",)])
def test_what_is_for_batches_refuses_a_stream_by_name(look: Look, store: LocalDisk, words: tuple[str, ...]) -> None:
    make_failed(store)
    said = look(*words, "shop/1")
    assert said.code == 3 and "run shop/1 is a stream, and this command is for batches" in said.err
    assert "rekindle show" in said.err


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


NOW = ("--set", "gc.grace_hours=0", "--set", "gc.retention_hours=0")


@pytest.fixture
def target(store: LocalDisk, tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalDisk, Path]:
    folder = tmp_path_factory.mktemp("target")
    note_targets(store, "shop", [f"file:{folder}"])
    return LocalDisk(folder), folder


def test_gc_of_batches_keeps_its_hands_off_streams(look: Look, store: LocalDisk, tmp_path: Path) -> None:
    make_failed(store)
    store.put(f"shop/_streams/{FAILED}/fence/priced/1", b"")
    make_run(store, "20261109T000001Z-ee", pipeline="shop", parameters={"day": "1"})
    before = {name for name in everything(tmp_path) if "_streams" in name}
    said = look("gc", *NOW)
    assert said.code == 0 and "nothing to delete" in said.out, said
    assert "runs kept: 1 (it succeeded)" in said.out
    assert f"streams kept: 1 (journals, checkpoints and fences: {len(before)} files, " in said.out
    assert {name for name in everything(tmp_path) if "_streams" in name} == before
    *_, stream = json.loads(look("gc", "--json", *NOW).out)
    assert (stream["kind"], stream["run"], stream["kept_files"]) == ("stream", FAILED, len(before))


def test_gc_deletes_tries_whose_batch_another_try_committed(
    look: Look, store: LocalDisk, target: tuple[LocalDisk, Path]
) -> None:
    make_failed(store)
    files = TargetOfStream(target[0], "priced", FAILED)
    first, second = files.write(0, 1), files.write(0, 2)
    assert files.commit(0, second)
    torn = files.write(1, 2, tasks=[(0, 5), (0, 6), (1, 7)])
    assert files.commit(1, torn, tasks=[(0, 6), (1, 7)])
    alone, living, older = files.write(2, 2), files.write(3, 3), files.write(3, 1)
    assert files.commit(2, alone)
    foreign = TargetOfStream(target[0], "other", "20200101T000000Z-zz")
    theirs, counted = foreign.write(0, 1), foreign.write(0, 2)
    assert foreign.commit(0, counted)
    target[0].put("data/priced/notes.txt", b"mine")
    before = everything(target[1])
    assert "kept for now: 4 files" in look("gc").out and everything(target[1]) == before, "younger than a day"
    dry = look("gc", "--dry-run", *NOW)
    assert "another try committed its batch" in dry.out and everything(target[1]) == before
    said = look("gc", *NOW)
    assert said.code == 0 and "deleted: 4 files" in said.out, said
    gone = before - everything(target[1])
    assert {name.rsplit("/", 1)[0] for name in gone} == {first, torn}
    assert {name.rsplit("/", 1)[1] for name in gone if name.startswith(torn)} == {
        "part-00000-5-c000.snappy.parquet",
        ".part-00000-5-c000.snappy.parquet.crc",
    }
    for one in (second, alone, living, older, theirs, counted):
        assert (target[1] / one).is_dir(), one
    assert all((target[1] / one.directory / one.name).stat().st_size == one.bytes for one in batch_files(target[0]))
    notes = [json.loads(store.get(f"shop/_gc/{name}") or b"") for name in store.list_after("shop/_gc/")]
    assert {name for note in notes for name in note["names"]} == gone, "noted, by name"
    assert files.commit(3, older), "a try of an older epoch, frozen after its look at the fence, still commits"
    assert {one.directory for one in batch_files(target[0])} >= {older}
    assert look("gc", *NOW).code == 0 and not (target[1] / living).exists() and (target[1] / older).is_dir()


def test_without_the_entry_as_proof_a_living_try_would_be_lost(
    look: Look, store: LocalDisk, target: tuple[LocalDisk, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fence alone is no proof: the same world, where the try of the highest epoch is taken for the one that
    counts."""
    make_failed(store)
    files = TargetOfStream(target[0], "priced", FAILED)
    frozen, newer = files.write(0, 1), files.write(0, 2)
    assert look("gc", *NOW).code == 0 and (target[1] / frozen).is_dir(), "no entry yet: both stay"
    monkeypatch.setattr("rekindle.gc.collect_stream.find_entry", lambda *_: BatchEntry(directory=newer, files={}))
    assert look("gc", *NOW).code == 0 and not (target[1] / frozen).exists()
    assert files.commit(0, frozen), "it wakes up, and its batch counts"
    assert not any((target[1] / one.directory / one.name).exists() for one in batch_files(target[0])), "rows are lost"


class Away(MemoryStore):
    """A store that lists nothing."""

    def list_after(self, folder: str, after: str = "") -> list[str]:
        raise StoreFailed(f"{folder} cannot be listed")

    def walk(self, folder: str) -> Iterator[list[StoredObject]]:
        raise StoreFailed(f"{folder} cannot be listed")


def test_a_target_that_cannot_be_reached_stops_no_other(store: LocalDisk, target: tuple[LocalDisk, Path]) -> None:
    make_failed(store)
    note_targets(store, "shop", ["s3a://away/target"])
    files = TargetOfStream(target[0], "priced", FAILED)
    files.commit(0, files.write(0, 1))
    rules = GcRules(terms=Retention(0, 0))
    reports = list(tend_targets(store, "shop", rules, lambda base: Away() if "away" in base else target[0]))
    assert [(one.target, one.is_failed, one.kept_files) for one in reports] == [
        (f"file:{target[1]}", False, 2),
        ("s3a://away/target", True, 0),
    ]


def test_nothing_of_a_batch_goes_whose_own_files_are_gone(
    look: Look, store: LocalDisk, target: tuple[LocalDisk, Path]
) -> None:
    make_failed(store)
    files = TargetOfStream(target[0], "priced", FAILED)
    other, counted = files.write(0, 1), files.write(0, 2)
    files.commit(0, counted)
    (target[1] / counted / "part-00000-1-c000.snappy.parquet").unlink()
    said = look("gc", *NOW)
    assert said.code == 0 and "is gone, and its batch counts: nothing of that batch was deleted" in said.out, said
    assert (target[1] / other).is_dir()
    target[0].delete(f"entries/priced/{FAILED}/0")
    target[0].put(f"entries/priced/{FAILED}/0", b"torn")
    assert "is damaged: it does not name the files of its batch" in look("gc", *NOW).out
    assert (target[1] / other).is_dir() and (target[1] / counted).is_dir()
