"""Losses: what is made again, what is not, and what is no news."""

from __future__ import annotations

from master.driving import Driven
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.events import PartitionsLost
from rekindle.model.failures import FailureKind
from rekindle.model.ids import AttemptId
from rekindle.model.kinds import FailureDomain
from rekindle.model.partitions import Partitions
from rekindle.model.parts import Parts


def lost(run: Driven) -> list[tuple[str, str]]:
    return [(event.step, str(event.partitions)) for event in run.last if isinstance(event, PartitionsLost)]


def test_a_lost_result_that_nobody_needs_is_not_made_again() -> None:
    run = Driven("a[2] =blocking=> b[2]@run_end")
    run.finish("a")
    run.finish("b")
    run.lose("a", "0-1")
    assert run.open() == {}


def test_hundreds_of_losses_in_one_report_are_one_decision() -> None:
    run = Driven("a[900] =blocking=> b[900]\na =blocking all=> c[2]")
    run.finish("a")
    report = st.PartsLost(Parts({"a": Partitions(range(0, 900, 2))}), FailureDomain.STORAGE)
    run.give(report)
    assert [len(event.partitions) for event in run.last if isinstance(event, PartitionsLost)] == [450]
    assert run.give(report) == ()


def test_an_attempt_that_found_its_input_gone_says_which() -> None:
    run = Driven("a[2] =blocking=> b[2]")
    run.finish("a")
    run.fail("b", "1", FailureKind.RESULT_MISSING, lost=Parts({"a": Partitions((1,))}))
    assert lost(run) == [("a", "1")]
    assert run.open() == {"a": "1"}


def test_losses_of_files_that_count_no_more_are_no_news() -> None:
    run = Driven("a[2]? =blocking=> b[2]\na =blocking=> c[2]")
    run.finish("a")
    reader = run.attempt("b")
    run.fail("c", "0")
    run.fail("c", "1")
    run.lose("a", "0")
    run.finish("a")
    run.give(st.AttemptEnded(attempt=reader, was_cancelled=True, lost=Parts({"a": Partitions((0,))})))
    assert lost(run) == []


def test_a_sink_that_loses_a_partition_is_not_published_until_it_is_whole() -> None:
    run = Driven("a[2]", sinks=("a",))
    run.finish("a")
    assert run.state.publication is not None
    run.lose("a", "0")
    assert run.state.publication is None and run.open() == {"a": "0"}
    run.finish("a")
    assert run.state.publication is not None and run.state.publication.number == 2


def test_a_loss_elsewhere_does_not_disturb_a_publication() -> None:
    run = Driven("a[2]@run_end =blocking=> b[2]\na =blocking=> c[2]@forever", sinks=("b",))
    run.finish("a")
    run.finish("b")
    run.finish("c")
    fence = run.state.publication
    run.lose("c", "1")
    assert run.state.publication == fence


def test_an_exchange_that_nobody_holds_cannot_be_lost_twice() -> None:
    run = Driven("a[2] =blocking all=> b[2]")
    run.finish("a")
    run.lose_exchange("a", "b", "0")
    run.commit("b", "0")
    run.lose_exchange("a", "b", "0")
    assert run.state.steps["b"].held
    assert run.give(st.PartsLost(Parts(), FailureDomain.EXECUTOR)) == ()


def test_the_attempts_read_are_those_whose_files_count() -> None:
    run = Driven("a[2] =blocking=> b[2]")
    run.commit("a", "0")
    run.fail("a", "1")
    run.finish("a")
    one = run.state.attempts[run.attempt("b")]
    assert one.reads == (AttemptId("a", 0, 1, 1), AttemptId("a", 0, 1, 2))  # type: ignore[arg-type]
