"""Poison partitions are tried last, and stop their step after a bounded number of equal failures."""

from __future__ import annotations

import pytest

from rekindle.failover.poison import FailureCounts, Poison, PoisonLimits, poison, tried_last
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.partitions import EMPTY, Partitions


def failure(numbers: str, signature: str = "boom", kind: FailureKind = FailureKind.EXCEPTION) -> Failure:
    return Failure("a", Partitions.parse(numbers), Cause(kind), signature)


def after(*failures: Failure) -> FailureCounts:
    suspects = FailureCounts()
    for one in failures:
        suspects = suspects.after(one)
    return suspects


LIMITS = PoisonLimits(tries_max=3, step_max=10)

ROWS = [
    pytest.param([], None, id="no failure"),
    pytest.param([failure("1"), failure("1")], None, id="twice is not yet poison"),
    pytest.param(
        [failure("1"), failure("1"), failure("1")], Poison("boom", Partitions((1,)), 3), id="three times the same"
    ),
    pytest.param([failure("1"), failure("1"), failure("1", "crash")], None, id="another signature begins anew"),
    pytest.param([failure("1"), failure("2"), failure("3")], None, id="three partitions once each"),
    pytest.param(
        [failure("1-2"), failure("1"), failure("1-2")],
        Poison("boom", Partitions((1,)), 3),
        id="only the one that failed three times is named",
    ),
    pytest.param([failure("0-8")], None, id="nine at once is one short of the step's bound"),
    pytest.param([failure("0-9")], Poison("boom", Partitions.first(10), 1, True), id="ten at once: the step is wrong"),
    pytest.param(
        [failure("0-4"), failure("3-7")], Poison("boom", Partitions.first(8), 2, True), id="ten in all, some twice"
    ),
    pytest.param(
        [failure("1", kind=FailureKind.EXECUTOR_LOST)] * 9, None, id="the world's failures blame no partition"
    ),
]


ROWS += [
    pytest.param([failure("")] * 2, None, id="a map task that failed twice is not yet poison"),
    pytest.param([failure("")] * 3, Poison("boom", EMPTY, 3, True), id="three times: it stops the step"),
    pytest.param([failure("1"), failure("1"), failure("")], None, id="named and unnamed ones are counted apart"),
]


@pytest.mark.parametrize(("failures", "expected"), ROWS)
def test_poison(failures: list[Failure], expected: Poison | None) -> None:
    assert poison(LIMITS, after(*failures)) == ((expected,) if expected else ())


def test_the_root_of_the_chain_is_blamed() -> None:
    killed = Cause(FailureKind.EXECUTOR_LOST, behind=Cause(FailureKind.OUT_OF_MEMORY))
    assert FailureCounts().after(Failure("a", Partitions((1,)), killed, "oom")).partitions == Partitions((1,))


def test_suspects_are_tried_last() -> None:
    suspects = after(failure("1"), failure("5", "crash"))
    assert suspects.partitions == Partitions((1, 5))
    assert tried_last(suspects, Partitions.first(4)) == (Partitions((0, 2, 3)), Partitions((1,)))
    assert tried_last(suspects, Partitions((1, 5))) == (Partitions((1, 5)), EMPTY)
    assert tried_last(suspects, Partitions((2,))) == (Partitions((2,)), EMPTY)
    assert tried_last(suspects, EMPTY) == (EMPTY, EMPTY)


def test_what_finished_is_a_suspect_no_longer() -> None:
    suspects = after(failure("1-2"), failure("1")).without(Partitions((1,)))
    assert suspects.partitions == Partitions((2,))
    assert suspects.levels == {"boom": (Partitions((2,)),)}
    assert suspects.without(Partitions((2,))).levels == {}
    assert suspects.seen == {"boom": 3}
    assert poison(PoisonLimits(3, 3), suspects.without(Partitions((2,)))) == ()
