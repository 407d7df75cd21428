"""A location that a release left is resumed by today's code, for every release there was; one that a newer release
wrote is refused, and stays as it is."""

from __future__ import annotations

import hashlib
import runpy
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

import rekindle as rk
from cli.pages import command_lines
from rekindle.cli.boundary import ExitCode
from rekindle.engine.spark.plan.identity import versions
from rekindle.errors import NewerJournal
from rekindle.journal.frame import Frame, name_of, to_bytes
from rekindle.journal.history import folder_of, read
from rekindle.model.partitions import Partitions
from rekindle.runtime.opening import codec
from rekindle.storage.local_disk import LocalDisk
from support.recorded_location import (
    ARCHIVE,
    HERE,
    LOCATION,
    MISSING,
    PIPELINE,
    events_of,
    fingerprints_of,
    give_rate,
    rekindle,
    run_name,
    started_in,
    unpack,
)

RELEASES = sorted(path.parent.name for path in HERE.glob(f"*/{ARCHIVE}"))
PAGE = "upgrading.md"
COMPUTED = {"priced": Partitions((3,)), "totals": Partitions((0, 1, 2))}


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def files_of(project: Path) -> dict[str, str]:
    """Each file of the location and a digest of its bytes."""
    location = project / LOCATION
    files = [path for path in location.rglob("*") if path.is_file()]
    return {str(path.relative_to(location)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_every_release_that_was_recorded_has_a_location() -> None:
    assert sorted(path.name for path in HERE.iterdir() if (path / "seed-0.journal").exists()) == RELEASES


@pytest.mark.parametrize("release", RELEASES)
def test_a_location_of_a_release_is_resumed(release: str, spark: SparkSession, tmp_path: Path) -> None:
    unpack(HERE / release / ARCHIVE, tmp_path)
    recorded = fingerprints_of(events_of(tmp_path))
    # Another Python, PySpark or Java is a change of the user's; the release of Rekindle is none.
    changed = [step for step, parts in recorded.items() if not versions(spark).items() <= parts.items()]
    accepted = [word for step in changed for word in ("--accept-change", step)]
    give_rate(tmp_path, MISSING)

    typed = [line.split() for page, line in command_lines() if page.name == PAGE]
    assert [words[0] for words in typed] == ["runs", "plan", "resume"], "what the page about upgrading tells to type"
    looked, planned, resumed = (rekindle(tmp_path, *words, *(accepted if words[1:] else ())) for words in typed)
    assert looked.code == ExitCode.DONE and " failed " in looked.text, looked.text
    assert planned.code == ExitCode.WORK and "Restart set: 4 of 9 partitions" in planned.text, planned.text
    assert resumed.code == ExitCode.DONE, resumed.text

    events = events_of(tmp_path)
    assert started_in(events, epoch=2) == COMPUTED, resumed.text
    bare = runpy.run_path(str(tmp_path / "shop.py"))
    orders = spark.read.schema(bare["SCHEMA"]).csv(str(tmp_path / "orders"))
    assert rows(rk.read_newest(spark, str(tmp_path / "totals"))) == rows(bare["totals"](bare["priced"](orders)))
    assert rows(rk.read_newest(spark, str(tmp_path / "counts"))) == rows(bare["counts"](orders))


@pytest.mark.spark
@pytest.mark.parametrize("command", ["resume", "run"])
def test_a_location_of_a_newer_release_is_refused_and_stays_as_it_is(command: str, tmp_path: Path) -> None:
    """A journal of this release with one more fact, of a type that only the next release knows."""
    unpack(HERE / rk.__version__ / ARCHIVE, tmp_path)
    give_rate(tmp_path, MISSING)
    name = f"{PIPELINE}/{run_name(tmp_path)}"
    store = LocalDisk(tmp_path / LOCATION)
    last = read(store, name, codec()).position
    newer = Frame(
        sequence=last.sequence + 1,
        epoch=last.epoch,
        previous=last.checksum,
        writer="next-release",
        types=("RunDreamt/1",),
        events=(msgspec.Raw(b'{"type":"RunDreamt"}'),),
        owner=None,
    )
    store.put_if_absent(folder_of(name) + name_of(newer.sequence), to_bytes(newer)[0])
    before = files_of(tmp_path)

    ended = rekindle(tmp_path, command, "shop.py")
    assert ended.code == ExitCode.REFUSED, ended.text
    assert f"error {NewerJournal.code}" in ended.text and "a newer Rekindle wrote it" in ended.text
    assert "next: pip install -U rekindle" in ended.text
    assert files_of(tmp_path) == before
    assert not (tmp_path / "totals").exists() and not (tmp_path / "counts").exists()
