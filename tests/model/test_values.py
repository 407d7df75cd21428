"""The smaller nouns: ids, reasons, causes, parts, availability."""

from __future__ import annotations

import msgspec
import pytest

from given import finished, parts, sets
from rekindle.model.failures import Cause, FailureKind
from rekindle.model.ids import AttemptId, Epoch, ExchangeId, Generation, Vertex
from rekindle.model.kinds import FailureDomain
from rekindle.model.parts import NOTHING
from rekindle.model.reasons import (
    AnyReason,
    CodeChanged,
    EverythingRestarts,
    ExchangeChanged,
    Failed,
    FusedInto,
    InputDiffers,
    KeptByRun,
    NeededBy,
    NotYetRun,
    ResultLost,
    WholeStep,
    sentence,
)
from rekindle.testing.drawing import draw

REASONS: list[tuple[AnyReason, str]] = [
    (Failed(), "failed"),
    (ResultLost(), "result lost"),
    (NotYetRun(), "not yet run"),
    (NeededBy("c"), "needed by c and not available"),
    (FusedInto("c"), "pipelined into c"),
    (InputDiffers("a"), "its input a is recomputed and may differ"),
    (ExchangeChanged(ExchangeId("c", "a")), "its exchange a=>c is recomputed and may differ"),
    (WholeStep(), "its step restarts as a whole"),
    (CodeChanged(), "its code changed"),
    (KeptByRun(3), "taken from run 3, which kept the same result"),
    (EverythingRestarts(), "the failover strategy is full"),
]


@pytest.mark.parametrize(("reason", "text"), REASONS, ids=[text for _, text in REASONS])
def test_a_reason_is_a_sentence_and_a_record(reason: AnyReason, text: str) -> None:
    assert sentence(reason) == text
    assert msgspec.json.decode(msgspec.json.encode(reason), type=AnyReason) == reason


def test_names_read_well() -> None:
    assert str(AttemptId("b", Generation(2), Epoch(5), 7)) == "b/g2/e5-a7"
    assert str(Vertex("b", 3)) == "b[3]"
    assert [str(x) for x in (ExchangeId("b", "a"), ExchangeId("b"))] == ["a=>b", "query=>b"]


@pytest.mark.parametrize(
    ("kind", "domain"),
    [
        (FailureKind.EXCEPTION, FailureDomain.TASK),
        (FailureKind.WORKER_KILLED, FailureDomain.TASK),
        (FailureKind.NO_SPACE, FailureDomain.TASK),
        (FailureKind.EVICTED, FailureDomain.EVICTION),
        (FailureKind.EXECUTOR_LOST, FailureDomain.EXECUTOR),
        (FailureKind.APPLICATION_DIED, FailureDomain.APPLICATION),
        (FailureKind.READ_ERROR, FailureDomain.STORAGE),
        (FailureKind.RESULT_MISSING, FailureDomain.STORAGE),
        (FailureKind.RESULT_CORRUPT, FailureDomain.STORAGE),
    ],
)
def test_a_failure_has_a_domain(kind: FailureKind, domain: FailureDomain) -> None:
    assert kind.domain is domain


def test_which_failures_are_never_retried_and_which_blame_the_partition() -> None:
    assert {kind for kind in FailureKind if not kind.is_recoverable} == {
        FailureKind.USER_ERROR,
        FailureKind.INPUT_CHANGED,
        FailureKind.DENIED,
        FailureKind.INVARIANT,
    }
    assert {kind for kind in FailureKind if kind.blames_partition} == {
        FailureKind.EXCEPTION,
        FailureKind.POISON,
        FailureKind.WORKER_KILLED,
        FailureKind.OUT_OF_MEMORY,
        FailureKind.INPUT_MISSING,
        FailureKind.INPUT_CORRUPT,
    }


def test_a_chain_of_causes() -> None:
    deep = Cause(FailureKind.EXCEPTION, behind=Cause(FailureKind.CANCELLED, behind=Cause(FailureKind.USER_ERROR)))
    assert not deep.is_recoverable
    assert deep.root.kind is FailureKind.USER_ERROR
    assert Cause(FailureKind.EXCEPTION, behind=Cause(FailureKind.TIMED_OUT)).is_recoverable


def test_parts_gather_many_reports() -> None:
    gathered = NOTHING
    for at in range(500):
        gathered = gathered | parts(f"a:{at} a=>b:{at % 3}")
    assert gathered == parts("a:0-499 a=>b:0-2")
    assert gathered and not NOTHING
    assert not parts("a:") and parts("=>b:0")


@pytest.mark.parametrize(
    ("domain", "left", "exchanges"),
    [
        pytest.param(FailureDomain.TASK, "abc", True, id="a task takes nothing stored"),
        pytest.param(FailureDomain.EVICTION, "ab", True, id="an eviction takes memory results"),
        pytest.param(FailureDomain.EXECUTOR, "a", False, id="losing all executors takes all but blocking"),
        pytest.param(FailureDomain.APPLICATION, "a", False, id="so does the death of the application"),
        pytest.param(FailureDomain.STORAGE, "bc", True, id="losing the storage takes blocking results"),
    ],
)
def test_availability_after_a_domain(domain: FailureDomain, left: str, exchanges: bool) -> None:
    graph = draw("a[2] =blocking=> b[2] =caching=> c[2]:memory\na =blocking all=> c2[2] ~> d[2]:memory")
    after = finished(graph).after(graph, domain)
    assert "".join(name for name in after.results if name in "abc") == left
    assert bool(after.exchanges) is exchanges
    assert not after.running


def test_availability_without_some_parts() -> None:
    graph = draw("a[2] =blocking all=> b[2]")
    before = finished(graph)
    assert before.without(NOTHING) == before
    after = before.without(parts("a:0 a=>b:1"))
    assert after.results == sets("a:1 b:0-1")
    assert after.exchanges == parts("a=>b:0").exchanges
