"""What a listing proves, and what it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.model.partitions import Partitions
from rekindle.results.manifest import Commit, counted, from_driver, from_listing, pack, schema_of, unpack, with_rows

DATA = "part-7_00003.c000.snappy.parquet\t512"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([], [], id="nothing there"),
        pytest.param(
            [DATA, "_committed/00003-7-1-512\t0"],
            [Commit(partition=3, task=7, name=DATA[:-4], bytes=512)],
            id="a marker and its file",
        ),
        pytest.param(
            [DATA, "_committed/00003-7-1-512r20\t0"],
            [Commit(partition=3, task=7, name=DATA[:-4], bytes=512, rows=20)],
            id="a marker with rows",
        ),
        pytest.param(
            [DATA, "_committed/00003-7-1-512r20-ab\t0"],
            [Commit(partition=3, task=7, name=DATA[:-4], bytes=512, digest="ab", rows=20)],
            id="a marker with rows and a digest",
        ),
        pytest.param(
            [DATA, "_committed/00003-7-1-512r20\t0", "_violated\t0"], [], id="nothing counts where a law was violated"
        ),
        pytest.param([DATA], [], id="a file without a marker is not committed, however complete"),
        pytest.param(["_committed/00003-7-1-512\t0"], [], id="a marker whose file is gone"),
        pytest.param([DATA, "_committed/00003-7-1-513\t0"], [], id="a file of another length"),
        pytest.param([DATA, "_committed/00003-8-1-512\t0"], [], id="a marker of another task attempt"),
        pytest.param(
            ["_committed/00004-9-0-0\t0"],
            [Commit(partition=4, task=9, name="", bytes=-1)],
            id="an empty partition has only a marker",
        ),
        pytest.param(
            [DATA, "part-9_00003.c000.snappy.parquet\t99", "_committed/00003-9-1-99\t0", "_committed/00003-7-1-512\t0"],
            [Commit(partition=3, task=7, name=DATA[:-4], bytes=512)],
            id="two task attempts committed: the lower one counts",
        ),
        pytest.param(
            [DATA, "._committed.crc\t8", "_committed/.00003-7-1-512.crc\t8"], [], id="checksums are no markers"
        ),
        pytest.param(["_committed/00003-7-2-512\t0", DATA], [], id="a task with two files is not ours"),
    ],
)
def test_listing(lines: list[str], expected: list[Commit]) -> None:
    assert from_listing("\n".join(lines)) == expected


def test_what_the_driver_saw() -> None:
    assert from_driver("3\t7\t20\tpart-7_00003.c000.parquet\t512\n4\t9\t0\n") == [
        Commit(partition=3, task=7, name="part-7_00003.c000.parquet", bytes=512, rows=20),
        Commit(partition=4, task=9, name="", bytes=-1, rows=0),
    ]


@given(st.dictionaries(st.integers(0, 99_999), st.tuples(st.integers(0, 2**40), st.integers(-1, 2**40))))
def test_a_manifest_comes_back_as_it_was(rows: dict[int, tuple[int, int]]) -> None:
    commits = [
        Commit(partition=p, task=task, name="" if size < 0 else f"part-{task}_{p:05d}.c000.zstd.parquet", bytes=size)
        for p, (task, size) in sorted(rows.items())
    ]
    packed = pack(commits, '{"type":"struct"}')
    assert unpack(packed) == commits
    assert schema_of(packed) == '{"type":"struct"}'


def test_what_counts_and_has_rows() -> None:
    commits = [
        Commit(partition=number, task=7, name=f"part-7_{number:05d}.parquet" if size >= 0 else "", bytes=size)
        for number, size in ((0, 10), (1, -1), (2, 0), (3, 10))
    ]
    packed = pack(commits, "{}")
    assert counted(packed, Partitions((0, 1, 2))) == commits[:3]
    assert with_rows(packed, Partitions((0, 1, 2))) == [commits[0], commits[2]]


def test_a_hundred_thousand_partitions_fit_in_a_record() -> None:
    commits = [
        Commit(partition=p, task=3 * p, name=f"part-{3 * p}_{p:05d}.c000.snappy.parquet", bytes=10_000 + p % 97)
        for p in range(100_000)
    ]
    assert len(pack(commits, "{}")) < 1_000_000
