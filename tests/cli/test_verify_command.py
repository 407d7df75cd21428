"""`rekindle verify` without Spark: what it prints, what it tells to type next, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from doubles.user import NoSpark
from doubles.verified_runs import Kept, files
from rekindle.cli import run_session
from rekindle.cli.boundary import ExitCode, guarded
from rekindle.cli.main import group
from rekindle.cli.verify import FILES_ALONE, sample_of
from rekindle.engine.verified import DamagedFile, DamageKind
from rekindle.errors import Refused

PIPELINE = """
import rekindle as rk

pipeline = rk.Pipeline("daily")


@pipeline.source
def orders(spark, day="today"): ...


@pipeline.step
def keyed(orders): ...


@pipeline.sink(rk.files("/out"))
def scored(keyed): ...
"""
OTHER = b"other rows".ljust(24)


class User:
    """Types commands in one folder, where a run of `daily` is."""

    def __init__(self, folder: Path, kept: Kept, capture: pytest.CaptureFixture[str]) -> None:
        self.kept = kept
        self.spark = NoSpark()
        self.file = folder / f"shop_{folder.name}.py"
        self.file.write_text(PIPELINE)
        self.folder = folder
        self._capture = capture
        self.out = self.err = ""

    def types(self, *words: str) -> int:
        code = guarded(group, [words[0], "--location", str(self.folder), *words[1:]])
        self.out, self.err = self._capture.readouterr()
        return code

    def run(self) -> int:
        return self.types("run", "-p", "day=monday", "--set", "backoff.kind=none", str(self.file))


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[User]:
    kept = Kept()
    made = User(tmp_path, kept, capsys)
    monkeypatch.setattr("rekindle.api.spark_adapter", lambda: kept)
    monkeypatch.setattr(run_session, "spark_adapter", lambda: made.spark)
    yield made


def test_files_alone_without_the_pipeline(user: User) -> None:
    assert user.run() == ExitCode.DONE
    before = files(user.folder)
    assert user.types("verify", "daily") == ExitCode.DONE
    assert user.out.splitlines() == [
        "run daily/1",
        "keyed  files: equal: 3 partitions",
        "scored  files: equal: 3 partitions",
        "2 equal, 0 not comparable, 0 different",
        FILES_ALONE,
    ]
    assert files(user.folder) == before and user.kept.asked == []


def test_with_the_pipeline_partitions_are_made_again(user: User) -> None:
    user.run()
    assert user.types("verify", "1", "keyed", "--pipeline", str(user.file), "--sample", "50%") == ExitCode.DONE
    assert "keyed  recomputed: equal: 2 partitions; 2 of 4 partitions recomputed" in user.out
    assert FILES_ALONE not in user.out


def test_a_damaged_file_of_a_run_that_can_be_resumed(user: User) -> None:
    user.kept.broken = {"scored": 2}
    assert user.run() == ExitCode.RESUMABLE
    user.kept.faults["keyed", 1] = DamagedFile(DamageKind.LENGTH, "g0/e1-a1/part-1_00001.parquet", "9 bytes, not 101")
    assert user.types("verify", "daily/1") == ExitCode.WORK
    assert "keyed  files: different: keyed[1] of 3 partitions" in user.out
    assert "  keyed[1] the file has another length: g0/e1-a1/part-1_00001.parquet (9 bytes, not 101)" in user.out
    again = f"rekindle resume --location {user.folder} PIPELINE 1"
    assert f"next: move the files that are named away, then make again what is missing: {again}\n" in user.out
    assert user.types("verify", "daily/1", "--pipeline", str(user.file)) == ExitCode.WORK
    assert f"rekindle resume --location {user.folder} {user.file} 1\n" in user.out


def test_a_damaged_file_of_a_run_that_is_done(user: User) -> None:
    user.run()
    user.kept.files["keyed", 1] = OTHER
    assert user.types("verify", "1") == ExitCode.WORK
    again = f"rekindle run --new --location {user.folder} --param day=monday PIPELINE"
    assert f"next: the run is over; a new one computes and publishes it again: {again}" in user.out


def test_what_comes_back_different_can_be_looked_at(user: User) -> None:
    user.run()
    user.kept.made["scored", 2] = OTHER
    assert user.types("verify", "1", "--pipeline", str(user.file)) == ExitCode.WORK
    again = f"rekindle reproduce --location {user.folder} --run 1 {user.file} 'scored[2]'"
    assert f"next: see what is made now: {again}" in user.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["9"], "there is no run 9"),
        (["1", "kyed"], "did you mean keyed"),
        (["1", "--sample", "2"], "--sample works only with --pipeline, which recomputes partitions"),
        (["1", "--pipeline", "FILE", "--sample", "many"], "--sample many is not a number"),
        (["1", "--pipeline", "FILE", "--sample", "0"], "a sample of 0 is not valid"),
    ],
)
def test_what_cannot_be_verified_is_refused_before_spark_is_started(user: User, words: list[str], said: str) -> None:
    user.run()
    started = user.spark.started
    typed = [str(user.file) if word == "FILE" else word for word in words]
    assert user.types("verify", *typed) == ExitCode.REFUSED
    assert said in user.err and "next: " in user.err
    assert user.spark.started == started


def test_the_file_of_another_pipeline_is_refused(user: User) -> None:
    user.run()
    other = user.file.with_stem(f"other_{user.file.stem}")
    other.write_text(PIPELINE.replace('"daily"', '"weekly"'))
    assert user.types("verify", "1", "--pipeline", str(other)) == ExitCode.REFUSED
    assert "run daily/1 is not a run of weekly" in user.err


def test_how_a_sample_is_said() -> None:
    assert [sample_of(given) for given in (None, "10", "0.25", "25%")] == [None, 10, 0.25, 0.25]
    with pytest.raises(Refused):
        sample_of("a few")
