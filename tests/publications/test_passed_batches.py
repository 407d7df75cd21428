"""Batches of a result that every reader has passed: which of them may go."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from rekindle.gc.passed_batches import passed_batches
from rekindle.storage.local_disk import LocalDisk
from rekindle.streams.stream_spec import StreamLimits, StreamSpec
from rekindle.streams.stream_state import RegionState, StreamState
from streams.specs import region_spec

READERS = (region_spec(name, reads=("made",)) for name in ("fast", "slow"))
SPEC = StreamSpec(regions=(region_spec("made"), *READERS))
STATE = StreamState(
    pipeline="live",
    run="r",
    limits=StreamLimits(),
    run_time_ms=1,
    seed=2,
    spec=SPEC,
    regions=dict.fromkeys(SPEC.names, RegionState()),
)
FOLDER = "live/_streams/r/"


class ResultFolder:
    """The files of one stream: a result of ten batches, and checkpoints that have read some of them."""

    def __init__(self, root: Path) -> None:
        self.root, self.store = root / FOLDER, LocalDisk(str(root))
        for batch in range(10):
            self.put(f"results/made/data/made/r/{batch}-1-uuid/part-0.parquet")
            self.put(f"results/made/entries/made/r/{batch}")
            self.put(f"checkpoints/made/commits/{batch}")

    def put(self, name: str, text: str = "x") -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def reads(self, region: str, batch: int, entry: int, *, commits: bool = True, folder: str = "checkpoints") -> None:
        lines = ["v1", "{}", '{"logOffset":99}', f'{{"entry":{entry},"result":"made"}}']
        self.put(f"{folder}/{region}/offsets/{batch}", "\n".join(lines))
        if commits:
            self.put(f"{folder}/{region}/commits/{batch}")

    def goes(self, state: StreamState = STATE, *, is_ripe: bool = True) -> set[str]:
        passed = passed_batches(self.store, FOLDER, state)
        found = [one.look(self.store, FOLDER, lambda at: is_ripe).objects for one in passed]
        return {one.name.rpartition("made/r/")[2].partition("/")[0] for some in found for one in some}


def batches(upto: int) -> set[str]:
    return {name for one in range(upto + 1) for name in (str(one), f"{one}-1-uuid")}


def test_what_the_slowest_reader_has_committed_goes(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    assert folder.goes() == set(), "no reader has read anything"
    folder.reads("fast", 4, 8)
    assert folder.goes() == set(), "one reader has read nothing"
    folder.reads("slow", 1, 3)
    assert folder.goes() == batches(3)
    folder.reads("slow", 2, 6, commits=False)
    assert folder.goes() == batches(3), "a batch that is planned and not committed is read again"
    assert folder.goes(is_ripe=False) == set(), "nothing younger than the grace time"
    (only,) = passed_batches(folder.store, FOLDER, STATE)
    assert [one.name.split("/")[2] for one in only.look(folder.store, FOLDER, lambda at: True).objects] == [
        *["entries"] * 4,
        *["data"] * 4,
    ], "an entry goes before its files"


def test_the_last_batch_of_the_producer_stays(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    folder.reads("fast", 4, 9)
    folder.reads("slow", 4, 9)
    assert folder.goes() == batches(8)
    (folder.root / "checkpoints/made/commits/9").unlink()
    assert folder.goes() == batches(7), "batch 9 is there, and not committed: 8 is the last"


def test_readers_count_by_the_checkpoint_that_they_have_and_only_those_of_the_code(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    folder.reads("fast", 4, 8)
    folder.reads("slow", 4, 8)
    replaced = replace(STATE, regions={**STATE.regions, "slow": RegionState(generation=1)})
    assert folder.goes(replaced) == set(), "a new checkpoint has read nothing"
    folder.reads("slow", 0, 2, folder="checkpoints.1")
    assert folder.goes(replaced) == batches(2)
    left = replace(STATE, spec=StreamSpec(regions=SPEC.regions[:2]))
    assert folder.goes(left) == batches(8), "one that the code no longer has is not waited for"
    alone = replace(STATE, spec=StreamSpec(regions=SPEC.regions[:1]))
    assert folder.goes(alone) == set(), "without readers nobody says what is needed"


def test_files_of_a_young_entry_stay(tmp_path: Path) -> None:
    folder = ResultFolder(tmp_path)
    for region in ("fast", "slow"):
        folder.reads(region, 4, 8)
    entry = folder.root / "results/made/entries/made/r/5"
    young = entry.stat().st_mtime + 100
    for batch in range(5, 10):
        os.utime(folder.root / f"results/made/entries/made/r/{batch}", (young, young))
    (only,) = passed_batches(folder.store, FOLDER, STATE)
    found = only.look(folder.store, FOLDER, lambda at: at < young).objects
    assert {one.name.rpartition("made/r/")[2].partition("/")[0] for one in found} == batches(4)


def test_bytes_of_records_are_those_that_the_entries_say(tmp_path: Path) -> None:
    """A topic has the rows. An entry is read once, and forgotten when it went."""
    folder = ResultFolder(tmp_path)
    for batch in range(10):
        lines = ("epoch\t1", "offsets\td", "directory\tdata/made/r/x", "topic\tt", f"bytes\t{batch * 100}")
        folder.put(f"results/made/entries/made/r/{batch}", "".join(f"{line}\n" for line in lines))
    for region in ("fast", "slow"):
        folder.reads(region, 4, 6)
    spec = StreamSpec(regions=(replace(SPEC.regions[0], topic="t"), *SPEC.regions[1:]))
    known = {3: 5, 9: 7}
    (files,) = passed_batches(folder.store, FOLDER, STATE)
    (records,) = passed_batches(folder.store, FOLDER, replace(STATE, spec=spec))
    every = files.look(folder.store, FOLDER, lambda at: True).bytes_left
    assert records.look(folder.store, FOLDER, lambda at: True, known).bytes_left == every + 700 + 800 + 7
    assert known == {7: 700, 8: 800, 9: 7}
    assert records.look(folder.store, FOLDER, lambda at: False).bytes_left > 4500
