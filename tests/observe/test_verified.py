"""Two digests compared, and what is said of it: equal, different, or not comparable and why."""

from __future__ import annotations

import struct

import pytest

from rekindle.model.partitions import EMPTY, Partitions
from rekindle.observe.verified import (
    ComparisonBasis,
    ComparisonResult,
    DigestComparison,
    RunVerification,
    StepVerification,
    total,
)


def digest(rows: int, first: int = 1, second: int = 2) -> bytes:
    return struct.pack(">QQQ", rows, first, second)


A, B = digest(7), digest(6, 3)


@pytest.mark.parametrize(
    ("wanted", "found", "faults", "answer", "why", "different"),
    [
        pytest.param({0: A, 1: B}, {0: A, 1: B}, {}, ComparisonResult.EQUAL, "2 partitions", (), id="all the same"),
        pytest.param({}, {}, {}, ComparisonResult.EQUAL, "0 partitions", (), id="nothing was there, and nothing is"),
        pytest.param(
            {0: A, 1: B}, {0: A, 1: A}, {}, ComparisonResult.DIFFERENT, "s[1] of 2 partitions", (1,), id="other rows"
        ),
        pytest.param(
            {0: A, 1: B}, {1: B}, {0: "gone"}, ComparisonResult.DIFFERENT, "s[0] of 2 partitions", (0,), id="a fault"
        ),
        pytest.param(
            {0: None}, {0: A}, {}, ComparisonResult.NOT_COMPARABLE, "none kept", (), id="no digest is no match"
        ),
        pytest.param({0: A}, {}, {}, ComparisonResult.NOT_COMPARABLE, "none kept", (), id="nothing found is no match"),
        pytest.param(
            {0: A, 1: None},
            {0: A, 1: B},
            {},
            ComparisonResult.NOT_COMPARABLE,
            "none kept of s[1], the rest of 2 partitions is equal",
            (),
            id="one of two is not known",
        ),
        pytest.param(
            {0: None, 1: A},
            {0: A, 1: B},
            {},
            ComparisonResult.DIFFERENT,
            "s[1] of 2 partitions",
            (1,),
            id="the worst is said",
        ),
    ],
)
def test_a_comparison(
    wanted: dict[int, bytes | None],
    found: dict[int, bytes],
    faults: dict[int, str],
    answer: ComparisonResult,
    why: str,
    different: tuple[int, ...],
) -> None:
    judged = DigestComparison(wanted, found, faults).judge("s", ComparisonBasis.FILES, "none kept")
    assert (judged.answer, judged.why, judged.different) == (answer, why, Partitions(different))


def test_both_digests_and_both_numbers_of_rows_are_told() -> None:
    judged = DigestComparison({3: A}, {3: B}, {}).judge("s", ComparisonBasis.AGAIN, "")
    assert judged.details == (f"s[3] other rows: now 6 rows, digest {B.hex()}, recorded 7 rows, digest {A.hex()}",)


def test_of_many_the_first_are_told_and_how_many_there_are() -> None:
    judged = DigestComparison(dict.fromkeys(range(9), A), dict.fromkeys(range(9), B), {}).judge(
        "s", ComparisonBasis.FILES, ""
    )
    assert [line.split()[0] for line in judged.details] == ["s[0]", "s[1]", "s[2]", "s[3]", "s[4]", "and"]
    assert judged.details[-1] == "and 4 more"
    assert judged.why == "s[0-8] of 9 partitions"


def test_partitions_add_up_whatever_rows_they_hold() -> None:
    """Each digest has the schema's hash once, and sums wrap around."""
    nothing = digest(0, 2**64 - 5, 9)

    def of(rows: int, first: int, second: int) -> bytes:
        return struct.pack(">QQQ", rows, (first + 2**64 - 5) % 2**64, (second + 9) % 2**64)

    one_way = [of(3, 100, 2**63), of(0, 0, 0), of(2, 50, 2**63 + 4)]
    other_way = [of(1, 30, 1), of(4, 120, 3)]
    assert total(one_way, nothing) == total(other_way, nothing) == of(5, 150, 4)
    assert total([], nothing) == nothing
    assert total([*one_way, of(1, 0, 0)], nothing) != of(5, 150, 4)


def test_the_answer_is_the_worst_one() -> None:
    equal = StepVerification(step="a", way=ComparisonBasis.FILES, answer=ComparisonResult.EQUAL, why="1 partition")
    unsure = StepVerification(
        step="a", way=ComparisonBasis.AGAIN, answer=ComparisonResult.NOT_COMPARABLE, why="released"
    )
    bad = StepVerification(
        step="b",
        way=ComparisonBasis.FILES,
        answer=ComparisonResult.DIFFERENT,
        why="b[1] of 2 partitions",
        different=Partitions((1,)),
        details=("b[1] gone",),
    )
    worse = StepVerification(
        step="b",
        way=ComparisonBasis.AGAIN,
        answer=ComparisonResult.DIFFERENT,
        why="b[0] of 2 partitions",
        different=Partitions((0,)),
    )
    assert [
        RunVerification("p", "r", False, judged).answer for judged in ((equal,), (equal, unsure), (bad, equal), ())
    ] == [
        ComparisonResult.EQUAL,
        ComparisonResult.NOT_COMPARABLE,
        ComparisonResult.DIFFERENT,
        ComparisonResult.NOT_COMPARABLE,
    ]
    found = RunVerification("p", "r", False, (equal, bad, worse))
    assert found.different(ComparisonBasis.FILES) == {"b": Partitions((1,))}
    assert found.different(*ComparisonBasis) == {"b": Partitions((0, 1))}
    assert found.of("b", ComparisonBasis.FILES) == bad and found.of("b", ComparisonBasis.PUBLISHED) is None
    assert str(found).splitlines() == [
        "run r of p",
        "a  files: equal: 1 partition",
        "b  files: different: b[1] of 2 partitions",
        "  b[1] gone",
        "b  recomputed: different: b[0] of 2 partitions",
        "1 equal, 0 not comparable, 2 different",
    ]
    assert equal.different == EMPTY and "<pre>run r of p" in found._repr_html_()
