"""The tables behind the words."""

from __future__ import annotations

import pytest

from rekindle.model.kinds import Determinism, DigestPolicy, FailureDomain, ResultKind

T, V, E, A, S = FailureDomain  # task, eviction, executor, application, storage


@pytest.mark.parametrize(
    ("kind", "survives"),
    [
        pytest.param(ResultKind.PIPELINED, set(), id="pipelined: nothing is stored, nothing survives"),
        pytest.param(ResultKind.BLOCKING, {T, V, E, A}, id="blocking: all but the loss of its storage"),
        pytest.param(ResultKind.CACHING, {T, V, S}, id="caching: dies with its executor or application"),
        pytest.param(ResultKind.MEMORY, {T, S}, id="memory: may also be evicted"),
    ],
)
def test_what_a_result_survives(kind: ResultKind, survives: set[FailureDomain]) -> None:
    assert {domain for domain in FailureDomain if kind.survives(domain)} == survives


def test_only_pipelined_joins_a_region() -> None:
    assert [kind for kind in ResultKind if kind.joins_region] == [ResultKind.PIPELINED]
    assert [kind for kind in ResultKind if not kind.is_kept] == [ResultKind.PIPELINED]


def test_unknown_is_not_repeatable() -> None:
    assert {level for level in Determinism if level.is_repeatable} == {
        Determinism.DETERMINATE,
        Determinism.DECLARED,
    }


@pytest.mark.parametrize(
    ("policy", "levels"),
    [
        pytest.param(DigestPolicy.AUTO, set(Determinism) - {Determinism.DETERMINATE}, id="auto: what is not proved"),
        pytest.param(DigestPolicy.ALWAYS, set(Determinism), id="always"),
        pytest.param(DigestPolicy.NEVER, set(), id="never"),
    ],
)
def test_which_results_get_a_digest(policy: DigestPolicy, levels: set[Determinism]) -> None:
    assert {level for level in Determinism if policy.is_on(level)} == levels
