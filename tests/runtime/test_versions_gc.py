"""gc of published versions: exactly what goes and what stays, and what is lost if one protection is left out."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from rekindle.gc import collect_target
from rekindle.gc.audit_log import AuditEntry, AuditLog
from rekindle.gc.collect_run import GcReport, GcRules
from rekindle.gc.collect_target import GcTarget, TargetCollector
from rekindle.gc.policy import GcAction, Retention
from rekindle.gc.targets import note_targets, noted_targets
from rekindle.master.facts.events import Fence
from rekindle.publish.pointers import POINTERS, NewestPointer, Part, Pointer, compose, encode
from rekindle.storage.local_disk import LocalDisk

HOUR = 3600.0
NOW = 1_800_000_000.0
TERMS = Retention(grace_ms=3_600_000, retention_ms=0, versions_ms=24 * 3_600_000)
HERE = GcTarget(pipeline="daily", place="abc", base="file:/out")
WHY = {"replaced": collect_target.REPLACED, "left": collect_target.LEFT}


class Target:
    """A target on disk whose publications are as old as the test says."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.location = folder / "out", LocalDisk(folder / "runs")
        self.store = LocalDisk(self.folder)
        self.top = NewestPointer(0, None)

    def publish(self, order: int, hours_ago: float, key: str, *, adds: bool = True, listed: str = "") -> Pointer:
        part = Part(
            fence=Fence(order, 1, 1),
            source=f"source-{order}",
            bytes=() if listed else (3,),
            place="abc",
            key=key,
            listed=tuple((f"{one}/part-{order}.parquet", 3) for one in listed.split()),
            directories=tuple(listed.split()),
        )
        pointer = compose(self.top, part, "daily", "{}", adds=adds, stays=True)
        ours = pointer.parts[-1]
        for name, _ in ours.files():
            self.write(f"versions/{pointer.folder_of(ours)}/{name}", hours_ago)
        if len(pointer.parts) > 1:
            for one in pointer.parts:
                for name, _ in one.files():
                    self.write(f"views/{pointer.version}/{name}", hours_ago)
        number = self.top.number + 1
        self.write(f"{POINTERS}{number:020d}", hours_ago, encode(pointer))
        self.top = NewestPointer(number, pointer)
        return pointer

    def write(self, name: str, hours_ago: float, body: bytes = b"abc") -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        os.utime(path, (NOW - hours_ago * HOUR,) * 2)

    def gc(self, *, over: set[int] | None = None, is_dry: bool = False, target: GcTarget = HERE) -> GcReport:
        rules = GcRules(terms=TERMS, is_dry=is_dry)
        log = AuditLog(self.location, "daily", round(NOW * 1000))
        collector = TargetCollector(rules, log, NOW, lambda order: over is None or order in over)
        return collector.tend(self.store, target)

    def there(self) -> set[str]:
        """Names without what is long in them."""
        found = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}
        return {name.replace("-1-1-abc", "").replace("part-00000-", "").lstrip("0") for name in found}

    def versions(self) -> set[str]:
        return {name.split("/")[1] for name in self.there() if name.startswith("versions/")}

    def readable(self) -> bool:
        """Every file that the newest pointer names is there."""
        top = self.top.pointer
        assert top is not None
        names = [f"versions/{top.folder_of(part)}/{name}" for part in top.parts for name, _ in part.files()]
        return all((self.folder / name).exists() for name in names)

    def entries(self) -> list[AuditEntry]:
        folder = self.location.root / "daily/_gc"
        bodies = [path.read_bytes() for path in sorted(folder.iterdir())] if folder.exists() else []
        return [msgspec.json.decode(body, type=AuditEntry) for body in bodies]


def found(report: GcReport) -> dict[str, int]:
    return {item.why: item.files for item in report.findings}


def test_versions_that_were_replaced_long_ago_go(tmp_path: Path) -> None:
    """A version counts as old from the moment in which it was replaced, not in which it was made."""
    target = Target(tmp_path)
    for order, hours in ((1, 100), (2, 90), (3, 20), (4, 1)):
        target.publish(order, hours, "day", adds=False)
    report = target.gc(is_dry=True)
    assert target.versions() == {"v1", "v2", "v3", "v4"}
    assert report.findings == target.gc().findings
    assert target.versions() == {"v2", "v3", "v4"}, "2 was replaced 20 hours ago, although it is 90 hours old"
    assert found(report) == {WHY["replaced"]: 2}
    assert [(one.act, one.files) for one in target.entries()] == [("versions", 2)]
    assert target.readable()
    assert target.gc().findings == ()


def test_what_stays_keeps_its_files_however_old_they_are(tmp_path: Path) -> None:
    target = Target(tmp_path)
    for order in range(1, 6):
        target.publish(order, 1000 - order * 100, f"day-{order}")
    target.gc()
    assert target.readable() and target.versions() == {f"v{order}" for order in range(1, 6)}
    assert {name.split("/")[1] for name in target.there() if name.startswith("views/")} == {"v5-on-4"}
    target.publish(6, 1, "day-2")
    target.gc()
    assert target.versions() == {f"v{order}" for order in range(1, 7)}, "the version before is readable for a day"
    target.publish(7, 0, "day-9")
    os.utime(target.folder / f"{POINTERS}{6:020d}", (NOW - 50 * HOUR,) * 2)
    target.gc()
    assert target.versions() == {"v1", "v3", "v4", "v5", "v6", "v7"}
    assert target.readable()


def test_of_a_directory_only_the_files_go_that_nobody_names(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.publish(1, 100, "a", listed="day=1 day=2")
    target.publish(2, 90, "b", listed="day=2")
    target.write("versions/v1-1-1-abc/somebody's file", 1000)
    target.gc()
    assert {name for name in target.there() if name.startswith("versions/")} == {
        "versions/v1/day=1/part-1.parquet",
        "versions/v1/somebody's file",
        "versions/v2/day=2/part-2.parquet",
    }
    assert target.readable()


def test_what_a_dead_publisher_left_goes_when_its_run_is_over(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.publish(1, 100, "a")
    for name in ("versions/v2-1-1-abc/x", "views/.v2-1-1-abc-on-1-77/x", "scratch/v2-1-1-abc-hive/x"):
        target.write(name, 50)
    target.write("versions/v3-1-1-abc/x", 0.5)
    target.write("versions/v2-1-1-def/x", 50)
    target.write("versions/theirs/x", 50)
    assert target.gc(over={1}).findings == ()
    assert found(target.gc(over={1, 2, 3})) == {WHY["left"]: 3}
    assert target.versions() == {"v1", "v3", "v2-1-1-def", "theirs"}


def test_notes_go_when_a_later_run_of_the_same_key_took_the_place_of_theirs(tmp_path: Path) -> None:
    target = Target(tmp_path)
    for order, hours, key in ((1, 100, "monday"), (2, 90, "tuesday"), (3, 80, "monday"), (4, 70, "tuesday")):
        target.publish(order, hours, key)
        target.write(f"noted/v{order}-0-0-abc/v{order}-1-1-abc-000001", hours)
    target.write("noted/v1-0-0-abc/v1-2-1-abc-000002", 0.5)
    target.write("noted/v1-0-0-def/v1-1-1-def-000001", 100)
    target.write("noted/theirs", 100)

    def noted() -> list[str]:
        return sorted(name for name in target.there() if name.startswith("noted/"))

    everything = noted()
    assert target.gc(over={3, 4}).findings and noted() == everything, "a run that is not over may note more"
    assert found(target.gc(over={1, 3, 4}))[collect_target.OUTDATED] == 1
    assert noted() == [name for name in everything if name != "noted/v1-0-0-abc/v1-000001"]
    target.gc()
    assert [name.split("/")[1] for name in noted()] == [
        "theirs",
        "v1-0-0-abc",
        "v1-0-0-def",
        "v3-0-0-abc",
        "v4-0-0-abc",
    ]


def test_nothing_goes_while_a_table_may_show_an_older_version(tmp_path: Path) -> None:
    """The publisher of the newest version died after it put the pointer: its run goes on, or is closed, some day."""
    target = Target(tmp_path)
    for order, hours in ((1, 100), (2, 90)):
        target.publish(order, hours, "day", adds=False)
    assert target.gc(over={1}).findings == ()
    assert target.versions() == {"v1", "v2"}
    assert found(target.gc(over={1, 2})) == {WHY["replaced"]: 2}


@pytest.mark.parametrize("other", [{"place": "def"}, {"pipeline": "hourly"}])
def test_a_target_of_somebody_else_is_left_alone(tmp_path: Path, other: dict[str, str]) -> None:
    target = Target(tmp_path)
    for order, hours in ((1, 100), (2, 90)):
        target.publish(order, hours, "day", adds=False)
    report = target.gc(target=GcTarget(**{"pipeline": "daily", "place": "abc", "base": "file:/out", **other}))
    assert (report.act, report.findings) == (GcAction.LEAVE, ())
    assert target.versions() == {"v1", "v2"}
    assert Target(tmp_path / "empty").gc().act is GcAction.LEAVE


def test_without_the_names_that_stay_a_reader_loses_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the protection: a gc that asks only the newest part takes what older nights brought."""
    target = Target(tmp_path)
    for order, hours in ((1, 100), (2, 90), (3, 80)):
        target.publish(order, hours, f"day-{order}")
    monkeypatch.setattr(Pointer, "folder_of", lambda pointer, part: pointer.version)
    target.gc()
    monkeypatch.undo()
    assert not target.readable()


def test_targets_are_noted_once(tmp_path: Path) -> None:
    store = LocalDisk(tmp_path)
    for _ in range(2):
        note_targets(store, "daily", ["file:/b", "file:/a"])
    assert noted_targets(store, "daily") == ["file:/a", "file:/b"]
    assert noted_targets(store, "hourly") == []
