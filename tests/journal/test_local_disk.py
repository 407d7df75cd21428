"""What only the local disk can meet: no space, leftovers of dead writers, a folder that disappears."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rekindle.errors import StoreDenied, StoreFailed
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.store import LEFTOVER_SECONDS, Put


def test_leftovers_of_dead_writers_are_not_listed_and_removed_after_an_hour(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    old, young = folder / ".put-old", folder / ".put-young"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (1.0, old.stat().st_mtime - LEFTOVER_SECONDS - 1))
    store = LocalDisk(tmp_path)
    assert store.list_after("folder/") == []
    store.put_if_absent("folder/one", b"1")
    assert not old.exists() and young.exists()
    assert store.list_after("folder/") == ["one"]


def test_no_space_is_a_certain_no_and_leaves_nothing(tmp_path: Path) -> None:
    code = f"""
import resource, signal
from rekindle.errors import StoreFailed
from rekindle.storage.local_disk import LocalDisk
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, {resource.RLIM_INFINITY}))
try:
    LocalDisk({str(tmp_path)!r}).put_if_absent("folder/one", b"x" * 1000)
except StoreFailed as error:
    print(error.message)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "did not write one: File too large" in done.stdout, done.stderr
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize("step", ["link", "fsync-folder"])
def test_an_error_from_the_link_on_is_unknown(tmp_path: Path, step: str) -> None:
    def fail(name: str) -> None:
        if name == f"before {step}":
            raise OSError(5, "Input/output error")

    store = LocalDisk(tmp_path, fail)
    assert store.put_if_absent("folder/one", b"1") is Put.UNKNOWN
    assert LocalDisk(tmp_path).put_if_absent("folder/one", b"1") is (Put.CREATED if step == "link" else Put.EXISTS)


@pytest.mark.parametrize("step", ["open", "write", "fsync"])
def test_an_error_before_the_link_is_a_certain_no(tmp_path: Path, step: str) -> None:
    def fail(name: str) -> None:
        if name == f"before {step}":
            raise OSError(5, "Input/output error")

    with pytest.raises(StoreFailed, match="Input/output error"):
        LocalDisk(tmp_path, fail).put_if_absent("folder/one", b"1")
    assert LocalDisk(tmp_path).list_after("folder/") == []


@pytest.mark.parametrize(
    ("number", "is_denied"),
    [
        pytest.param(errno.EACCES, True, id="no permission"),
        pytest.param(errno.EROFS, True, id="a read-only disk"),
        pytest.param(errno.ENOTDIR, True, id="a file where a folder should be"),
        pytest.param(errno.ENOSPC, False, id="a full disk, on which others may make room"),
        pytest.param(errno.EIO, False, id="a disk that does not answer"),
        pytest.param(errno.ESTALE, False, id="a server that went away"),
    ],
)
def test_what_a_retry_cannot_help_is_told_apart(tmp_path: Path, number: int, is_denied: bool) -> None:
    def fail(name: str) -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(StoreFailed, match=os.strerror(number)) as failed:
        LocalDisk(tmp_path, fail).put_if_absent("folder/one", b"1")
    assert isinstance(failed.value, StoreDenied) == is_denied


def test_a_folder_that_was_deleted_meanwhile_is_made_again(tmp_path: Path) -> None:
    store = LocalDisk(tmp_path)
    store.put_if_absent("folder/one", b"1")
    shutil.rmtree(tmp_path / "folder")
    assert store.put_if_absent("folder/two", b"2") is Put.CREATED
