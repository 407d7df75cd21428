"""What a plan says of the space that results take: what goes when, and what the budget comes to."""

from __future__ import annotations

import json
from collections.abc import Mapping

from master.driving import AT_ONCE, Driven
from observe.test_plan import nothing_left
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import MasterConfig
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.model.partitions import Partitions
from rekindle.observe.plan import Budget, Deletion, Plan
from rekindle.observe.plan_ahead import Expected, play
from rekindle.observe.plan_make import PlanInputs, plan_of
from rekindle.observe.plan_times import StepRate
from rekindle.observe.summary import SummaryBuilder, summary_of

CHAIN = "a[1]@run_end =blocking=> b[1]@run_end =blocking=> c[1]"


def ten_each(step: str, count: int) -> int:
    return 10 * count


def unknown(step: str, count: int) -> None:
    return None


def fresh(
    drawing: str, budget_bytes: int = 0, expected: Expected = ten_each, rates: Mapping[str, StepRate] | None = None
) -> Plan:
    run = Driven(drawing)
    config = MasterConfig(budget_bytes=budget_bytes)
    first = st.StartRun(
        run="run",
        pipeline="daily",
        order=1,
        spec=RunSpec(graph=GraphSpec.of(run.graph), sinks=("c",)),
        config=config,
        run_time_ms=0,
        seed=0,
        application="app",
        owner="me",
    )
    return plan_of(None, play(None, first, 0, nothing_left, expected=expected), PlanInputs(paces=rates or {}))


def test_what_protection_writes_is_told_where_it_was_measured() -> None:
    """Bare Spark writes what is published, too: it is no cost."""
    rates = {step: StepRate(1000, 1, size) for step, size in (("a", 200), ("b", 50), ("c", 900))}
    plan = fresh(CHAIN, rates=rates)
    assert plan.protects == ("a", "b")
    told = "Protection writes about 250 bytes, as measured in an earlier run: a (200 bytes) and b (50 bytes)."
    assert told in str(plan)
    assert [stage["bytes_written"] for stage in json.loads(plan.to_json())["stages"]] == [200, 50, 900]
    assert "Protection" not in str(fresh(CHAIN)) + str(fresh(CHAIN, rates={"a": rates["a"]}))


def test_the_plan_says_how_long_results_are_kept() -> None:
    plan = fresh("a[1] =blocking=> b[1]@forever =blocking=> c[1]@run_end")
    assert plan.released == ("a",)
    said = (
        "The results of a are deleted as soon as they are consumed. "
        "When the run succeeds, the results of c are deleted. The results of b are kept forever."
    )
    assert said in str(plan)
    told = json.loads(plan.to_json())
    assert [stage["keep_until"] for stage in told["stages"]] == ["consumed", "forever", "run end"]
    assert told["released"] == ["a"] and told["budget"] is None


def test_a_result_that_is_there_goes_when_it_is_consumed() -> None:
    run = Driven("a[1] =blocking=> b[1] =blocking=> c[1]", sinks=("c",))
    run.finish("a")
    take_over = st.TakeOver(application="new", owner="me", spec=RunSpec(graph=GraphSpec.of(run.graph)))
    plan = plan_of(run.state, play(run.state, take_over, run.now, nothing_left), PlanInputs())
    assert Deletion("a", Partitions((0,)), is_after=False, is_released=True) in plan.deletions
    assert "Deleted after being replaced" not in str(plan)


def test_without_a_budget_nothing_is_said_of_one() -> None:
    plan = fresh(CHAIN)
    assert plan.budget is None and "Budget" not in str(plan)


def test_a_budget_that_is_large_enough() -> None:
    plan = fresh(CHAIN, 100)
    assert plan.budget == Budget(100, 30) and "Budget 100 bytes: the results take at most 30 bytes." in str(plan)


def test_what_goes_for_the_budget_is_named() -> None:
    plan = fresh(CHAIN, 20)
    assert plan.budget == Budget(20, 20, 0, ("a",))
    assert "To stay within it, the results of a are deleted once no step needs them." in str(plan)


def test_a_budget_that_cannot_be_kept_is_said_and_nothing_needed_goes() -> None:
    plan = fresh(CHAIN, 15)
    assert plan.budget == Budget(15, 20, 5, ("a", "b"))
    assert "It is exceeded by 5 bytes, because results that are needed are never deleted." in str(plan)
    assert json.loads(plan.to_json())["budget"]["short_bytes"] == 5


def test_sizes_that_nobody_knows_are_not_guessed() -> None:
    plan = fresh(CHAIN, 15, unknown)
    assert plan.budget == Budget(15, None)
    assert "Budget 15 bytes: the size of the results is not known yet." in str(plan)


def test_the_summary_says_what_was_stored_at_the_most() -> None:
    run = Driven(CHAIN, config=MasterConfig(backoff=AT_ONCE.backoff, budget_bytes=15), sinks=("c",))
    tally = SummaryBuilder()
    tally.take(tuple(run.journal), run.state)
    for step in "abc":
        run.commit(step, "0", size_bytes=10)
        tally.take(run.last, run.state)
        run.end(step)
        tally.take(run.last, run.state)
    told = str(summary_of(run.state, tally, was_done=False, was_resumed=False))
    assert "stored at most 30 bytes of a budget of 15 bytes, which was exceeded because all of it was needed" in told
