"""When the producer of a result is held, and how often a stream that runs looks at its results."""

from __future__ import annotations

import pytest

from rekindle.gc.stream_release import ReleaseRules


@pytest.mark.parametrize(
    ("bytes_left", "behind", "was_held", "is_held"),
    [
        pytest.param(100, 3, False, False, id="at its bound"),
        pytest.param(101, 3, False, True, id="over its bound"),
        pytest.param(90, 3, True, True, id="held until it is well below"),
        pytest.param(80, 3, True, False, id="well below"),
        pytest.param(101, 0, False, False, id="all of it was read"),
        pytest.param(500, 0, True, False, id="all of it was read meanwhile"),
    ],
)
def test_a_producer_is_held_over_its_bound(bytes_left: int, behind: int, was_held: bool, is_held: bool) -> None:
    assert ReleaseRules(keep_seconds=0, bytes_max=100).is_held(bytes_left, behind, was_held=was_held) is is_held
    assert not ReleaseRules(keep_seconds=0).is_held(bytes_left, behind, was_held=was_held), "without a bound nobody is"


def test_rounds_follow_the_time_that_batches_are_kept() -> None:
    assert [ReleaseRules(keep_seconds=one).round_seconds for one in (0, 60, 3600, 86_400)] == [5, 10, 600, 600]
