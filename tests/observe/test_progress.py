"""Progress and the closing summary, folded from the events of one process."""

from __future__ import annotations

from master.driving import Driven, start_of
from rekindle.master.decide import decide
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.state.apply import fold
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.partitions import Partitions
from rekindle.observe.plan_times import StepRate
from rekindle.observe.progress import Progress, ProgressRow
from rekindle.observe.summary import RunSummary, StepSummary, SummaryBuilder, summary_of

SHOP = "orders[4] =blocking=> clean[4]"


def watched(run: Driven, since: int = 0, earlier: dict[str, StepRate] | None = None) -> tuple[Progress, list[str]]:
    """What a watcher knows who was told everything from an event on, as of now."""
    progress = Progress(earlier)
    news = progress.take(tuple(run.journal[since:]), run.state)
    return progress, news


def test_rows_tell_what_counts_what_was_there_and_what_runs() -> None:
    run = Driven(SHOP)
    run.finish("orders")
    run.commit("clean", "0-1")
    before = len(run.journal)
    run.take_over()
    run.seal("clean", "2")
    progress, news = watched(run, before)
    assert progress.rows() == [
        ProgressRow(step="orders", total=4, done=4, kept=4, running=0, again=0),
        ProgressRow(step="clean", total=4, done=3, kept=3, running=1, again=0),
    ]
    assert news[0] == "driver 2 of this run takes over"
    assert "clean: adopted 1 partition that the previous driver finished" in news


def test_what_an_earlier_run_kept_is_told_as_such() -> None:
    both = Partitions.parse("0-3")
    reused = (st.ReusedResult(step="orders", number=4, partitions=both, manifest=b"files"),)
    start = start_of(SHOP, reused=reused)
    events = decide(None, start, 5)
    state = fold(None, events)
    assert state is not None
    assert Progress().take(events, state) == ["orders: reuses 4 partitions of run 4"]


def test_a_try_that_is_not_made_is_not_announced() -> None:
    run = Driven(SHOP, config=MasterConfig(backoff=BackoffSpec("fixed", {"attempts_max": 1, "delay_ms": 500})))
    news = []
    progress = Progress()
    for _ in range(3):
        if run.state.attempts:
            run.fail("orders", "0", signature=f"boom {run.now}")
            news += progress.take(run.last, run.state)
        run.give(st.Tick(), after_ms=600)
    failures = [line for line in news if "failed:" in line]
    assert ["retried in" in line for line in failures] == [True, False]


def test_restarts_are_told_with_their_reason_as_they_happen() -> None:
    run = Driven(SHOP)
    progress = Progress()
    progress.take(tuple(run.journal), run.state)
    run.finish("orders")
    progress.take(run.last, run.state)
    failure = Failure(
        "clean", Partitions((3,)), Cause(FailureKind.EXCEPTION, "ValueError: bad row, at daily.py:7"), "s"
    )
    run.commit("clean", "0-2")
    progress.take(run.last, run.state)
    run.give(st.AttemptEnded(attempt=run.attempt("clean"), failures=(failure,)))
    news = progress.take(run.last, run.state)
    assert news[0].startswith("clean[3] failed: ValueError: bad row, at daily.py:7")
    if len(news) == 1:
        run.give(st.Tick(), after_ms=10_000)
        news = progress.take(run.last, run.state)
    assert news[-1] == "clean: starts 1 partition (3: failed)"


def test_what_is_left_is_estimated_by_the_pace_of_this_run_and_those_before() -> None:
    run = Driven(SHOP)
    run.give(
        st.CommitsSeen(attempt=run.attempt("orders"), partitions=run.graph.whole["orders"], manifest=b"files"),
        after_ms=1000,
    )
    run.give(st.AttemptEnded(attempt=run.attempt("orders")))
    assert watched(run)[0].left_ms() is None
    assert watched(run, earlier={"clean": StepRate(8_000, 4)})[0].left_ms() == 8_000


def test_the_summary_tells_what_ran_what_was_reused_and_what_that_saved() -> None:
    run = Driven(SHOP, sinks=("clean",))
    run.finish("orders")
    run.commit("clean", "0-1")
    before = len(run.journal)
    run.take_over()
    run.seal("clean")
    run.finish("clean")
    run.publish()
    tally = SummaryBuilder()
    tally.take(tuple(run.journal[before:]), run.state)
    summary = summary_of(
        run.state,
        tally,
        was_done=False,
        was_resumed=True,
        earlier={"orders": StepRate(240_000, 4), "clean": StepRate(60_000, 2)},
        sizes=lambda segment: 1_000_000 * len(segment.partitions),
        cores=2,
        results={"daily": "table gold.daily"},
    )
    assert summary.steps["clean"] == StepSummary(partitions=4, computed=2, generation=0)
    assert (summary.steps["clean"].reused, summary.saved_ms) == (2, 300_000)
    text = str(summary)
    assert "is done (resumed); it took " in text
    assert "  computed 2 partitions, reused 6" in text
    assert "  saved about 5 min (10 min of core time) compared with a start from scratch" in text
    assert "  daily is in table gold.daily" in text


def test_a_run_that_was_done_says_so() -> None:
    summary = RunSummary(
        pipeline="daily",
        run="41",
        was_done=True,
        was_resumed=False,
        steps={"clean": StepSummary(partitions=4, computed=0, generation=0, bytes=5)},
    )
    assert list(summary.lines()) == ["run 41 of daily is already done", "  kept results: 5 bytes"]
