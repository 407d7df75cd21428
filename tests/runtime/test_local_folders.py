"""What killed JVMs leave: found and weighed, and removed only where it is ours and certainly dead."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rekindle.gc.local_folders import MARKER, Folder, FolderOwner, Marker, find, remove
from rekindle.journal.owner import this_process

PID_MAX = 4_194_304


def marker(**changes: object) -> Marker:
    here = this_process()
    mine = Marker(
        application="app-1",
        host=here.host,
        pid=here.pid,
        boot=here.boot,
        namespace=here.namespace,
        started=here.started,
    )
    return msgspec.structs.replace(mine, **changes)


GONE = {"pid": PID_MAX + 7}


def made(root: Path, name: str, marked: Marker | None, *, size: int = 10) -> Path:
    folder = root / name
    (folder / "0c").mkdir(parents=True)
    (folder / "0c" / "shuffle_0_0_0.data").write_bytes(b"x" * size)
    if marked is not None:
        (folder / MARKER).write_bytes(msgspec.json.encode(marked))
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def by_name(found: list[Folder]) -> dict[str, FolderOwner]:
    return {one.path.name: one.whose for one in found}


@pytest.mark.parametrize(
    ("name", "marked", "expected"),
    [
        pytest.param("blockmgr-1", marker(), FolderOwner.LIVING, id="its process is alive"),
        pytest.param("blockmgr-1", marker(**GONE), FolderOwner.DEAD, id="its process is gone"),
        pytest.param("blockmgr-1", marker(started=1), FolderOwner.DEAD, id="its number is another process now"),
        pytest.param("blockmgr-1", marker(**GONE, host="elsewhere"), FolderOwner.UNSEEN, id="of another host"),
        pytest.param("blockmgr-1", marker(**GONE, namespace="other"), FolderOwner.UNSEEN, id="of another container"),
        pytest.param("blockmgr-1", marker(**GONE, boot=""), FolderOwner.UNSEEN, id="nobody knows of which boot"),
        pytest.param("blockmgr-1", marker(**GONE, boot="older"), FolderOwner.UNSEEN, id="this host was restarted"),
        pytest.param(
            "blockmgr-1", marker(**GONE, is_served=True), FolderOwner.SERVED, id="a shuffle service may serve it"
        ),
        pytest.param(
            "spark-1", marker(**GONE, is_served=True), FolderOwner.DEAD, id="temporary files are never served"
        ),
        pytest.param("blockmgr-1", None, FolderOwner.UNKNOWN, id="it has no marker of Rekindle"),
    ],
)
def test_whose_it_is_and_whether_it_goes(
    tmp_path: Path, name: str, marked: Marker | None, expected: FolderOwner
) -> None:
    folder = made(tmp_path, name, marked)
    found = find(tmp_path)
    assert by_name(found) == {name: expected}
    assert remove(tmp_path, found) == (found if expected is FolderOwner.DEAD else [])
    assert folder.exists() is (expected is not FolderOwner.DEAD)


def test_a_worker_that_was_killed_leaves_folders_in_folders(tmp_path: Path) -> None:
    inner = tmp_path / "spark-worker" / "executor-1"
    made(inner, "blockmgr-1", marker(**GONE))
    made(inner, "spark-2", marker(**GONE))
    (tmp_path / "spark-other").mkdir()
    (tmp_path / "logs").mkdir()
    found = find(tmp_path)
    assert by_name(found) == {"blockmgr-1": FolderOwner.DEAD, "spark-2": FolderOwner.DEAD}
    assert sum(one.bytes for one in found) > 20 and {one.files for one in found} == {2}
    assert len(remove(tmp_path, found)) == 2 and remove(tmp_path, found) == []
    assert names(tmp_path) == ["logs", "spark-other"], "what became empty goes, what was empty stays"


def test_beside_a_living_executor_only_the_dead_one_goes(tmp_path: Path) -> None:
    inner = tmp_path / "spark-worker" / "executor-1"
    made(inner, "blockmgr-1", marker(**GONE))
    made(inner, "blockmgr-2", marker())
    (inner / "loose").write_bytes(b"xyz")
    found = find(tmp_path)
    assert by_name(found) == {
        "blockmgr-1": FolderOwner.DEAD,
        "blockmgr-2": FolderOwner.LIVING,
        "executor-1": FolderOwner.UNKNOWN,
    }
    assert [one.bytes for one in found if one.path == inner] == [3]
    remove(tmp_path, found)
    assert names(inner) == ["blockmgr-2", "loose"]


def test_a_marker_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    (made(tmp_path, "blockmgr-1", None) / MARKER).write_bytes(b"{")
    assert by_name(find(tmp_path)) == {"blockmgr-1": FolderOwner.UNKNOWN}
    assert find(tmp_path / "nowhere") == []


def test_the_folder_itself_stays_whatever_its_name(tmp_path: Path) -> None:
    root = tmp_path / "spark-local"
    made(root / "executor-1", "blockmgr-1", marker(**GONE))
    assert len(remove(root, find(root))) == 1
    assert root.is_dir() and not list(root.iterdir())
