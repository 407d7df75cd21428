"""Rules 3, 4 and 5: what a recomputed result or exchange means for those who read the old one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from given import shown
from master.driving import AT_ONCE, Driven
from rekindle.failover.restart import Strategy
from rekindle.master.dispatch import commands
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.facts.digests import Digests
from rekindle.master.facts.events import (
    AttemptOpened,
    ExchangeCarried,
    ExchangesLost,
    GenerationOpened,
    PartitionsCommitted,
)
from rekindle.master.rules.advance import work_left
from rekindle.master.state.commands import StartAttempt
from rekindle.model.failures import FailureKind
from rekindle.model.ids import ExchangeId
from rekindle.model.kinds import FailureDomain, Proof
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.parts import Parts
from rekindle.model.reasons import AnyReason, ExchangeChanged, InputDiffers, NotYetRun, ResultLost

DIAMOND = "a[2]{mark} =blocking=> b[2] =blocking=> d[2]\na =blocking=> c[2] =blocking=> d[2]"


def generations(run: Driven) -> dict[str, str]:
    return {event.step: str(event.dropped) for event in run.last if isinstance(event, GenerationOpened)}


def changed(run: Driven) -> str:
    return next(str(event.changed) for event in run.last if isinstance(event, PartitionsCommitted))


RECOMPUTED = [
    ("equal digests: consumers are skipped", "?", b"xy", b"x", ""),
    ("another digest: the reader of that partition restarts", "?", b"xy", b"z", "0"),
    ("an unknown digest is never a match", "?", b"xy", None, "0"),
    ("no digest, but repeatable: the same", "", None, None, ""),
    ("a digest that is missing this time, but repeatable: the same", "", b"xy", None, ""),
    ("a digest that was missing last time, but repeatable: the same", "", None, b"x", ""),
    ("a digest that differs is believed, whatever the plan says", "", b"xy", b"z", "0"),
]


@pytest.mark.parametrize(("mark", "old", "new", "hit"), [row[1:] for row in RECOMPUTED], ids=[r[0] for r in RECOMPUTED])
def test_a_lost_input_is_made_again(mark: str, old: bytes | None, new: bytes | None, hit: str) -> None:
    run = Driven(DIAMOND.format(mark=mark))
    run.finish("a", digests=old)
    run.finish("b")
    run.fail("c", "0")
    run.lose("a", "0")
    run.commit("a", "0", digests=new)
    assert changed(run) == hit
    assert generations(run).get("b", "") == hit


def test_running_readers_of_a_changed_input_are_cancelled_only_where_they_read_it() -> None:
    run = Driven("a[2]? =blocking=> b[2]")
    run.finish("a")
    run.fail("b", "0")
    run.lose("a", "0")
    attempt = run.attempt("a")
    run.commit("a", "0")
    assert generations(run) == {"b": "0"}
    run.give(st.AttemptEnded(attempt=attempt))
    assert str(run.state.running("b")) == "1"
    run.finish("b")
    assert run.open() == {"b": "0"}


def test_readers_of_readers_wait_until_their_own_input_differs() -> None:
    run = Driven("a[1]? =blocking=> b[1]? =blocking=> c[1]\na =blocking=> d[1]", sinks=("c", "d"))
    run.finish("a", digests=b"1")
    run.finish("b", digests=b"2")
    run.finish("c")
    run.fail("d", "0")
    run.lose("a", "0")
    run.finish("a", digests=b"9")
    assert generations(run) == {} and run.state.steps["c"].generation == 0
    run.finish("b", digests=b"2")
    assert run.state.steps["c"].generation == 0
    run.end_cancelled()
    run.finish("d")
    assert run.state.publication is not None


def test_an_exchange_made_again_is_carried_by_proof_or_starts_the_step_over() -> None:
    determinate = Driven("a[2] =blocking all.=> b[3]!")
    determinate.finish("a")
    determinate.commit("b", "0")
    determinate.commit("b", "1", version=1)
    carried = next(event for event in determinate.last if isinstance(event, ExchangeCarried))
    assert carried.proof is Proof.DETERMINATE
    assert str(determinate.state.steps["b"].committed) == "0-1"

    unknown = Driven("a[2] =blocking all?=> b[3]!")
    unknown.finish("a")
    unknown.commit("b", "0")
    unknown.commit("b", "1", version=1)
    opened = next(event for event in unknown.last if isinstance(event, GenerationOpened))
    assert (str(opened.dropped), opened.exchange_version) == ("0-2", 1)
    assert unknown.state.steps["b"].exchange_version == 1
    assert isinstance(opened.because[0][0], ExchangeChanged)
    assert str(unknown.state.steps["b"].committed) == ""


def test_a_report_from_before_the_exchange_was_carried_still_counts() -> None:
    run = Driven("a[2] =blocking all.=> b[3]!")
    run.finish("a")
    run.commit("b", "0", version=1)
    run.commit("b", "1", version=0)
    assert str(run.state.steps["b"].committed) == "0-1"


def test_checksums_let_a_new_application_go_on() -> None:
    run = Driven("a[2] =blocking all?=> b[3]?@unordered")
    run.finish("a")
    run.commit("b", "0", checksum="same")
    run.take_over()
    run.seal("b")
    assert generations(run) == {} and run.open() == {"b": "1-2"}
    run.commit("b", "1", version=1)
    assert generations(run) == {"b": "0-2"}


def test_a_held_exchange_spares_the_inputs_and_a_lost_one_does_not() -> None:
    run = Driven("a[2] =blocking all?=> b[2]?")
    run.finish("a")
    run.commit("b", "0")
    run.fail("b", "1")
    assert run.open() == {"b": "1"}
    run.lose("a", "0")
    assert run.open() == {"b": "1"}
    run.fail("b", "1")
    run.lose_exchange("a", "b", "0")
    assert run.open() == {"a": "0", "b": "1"}


def test_what_was_lost_cannot_stand_beside_a_new_exchange() -> None:
    run = Driven("a[1] =blocking all?=> b[2]?:memory =memory=> c[2]")
    run.finish("a")
    run.finish("b")
    run.commit("c", "0")
    run.take_over()
    run.seal("c")
    assert generations(run) == {"b": "0-1"}
    assert run.open() == {"b": "0-1"}


def test_a_barrier_step_is_started_whole_or_not_at_all() -> None:
    run = Driven("a[3]@whole")
    run.commit("a", "0")
    run.fail("a", "1")
    assert generations(run) == {"a": "0-2"}
    assert run.open() == {"a": "0-2"}


def test_a_barrier_step_waits_for_its_own_attempt() -> None:
    run = Driven("a[2]? =blocking=> b[2]@whole\na =blocking=> c[2]")
    run.finish("a")
    run.commit("b", "1")
    run.lose("a", "0")
    assert run.open()["b"] == "0"
    run.lose("b", "1")
    assert run.open()["b"] == "0"


def test_a_changed_input_of_a_barrier_step_restarts_all_of_it() -> None:
    run = Driven("a[2]? =blocking=> b[2]@whole\na =blocking=> c[2]")
    run.finish("a")
    run.commit("b", "1")
    run.fail("c", "0")
    run.lose("a", "0")
    run.commit("a", "0")
    assert generations(run)["b"] == "0-1"


def test_a_step_waits_for_the_attempt_that_may_make_its_exchange_again() -> None:
    run = Driven("a[2] =blocking all?=> b[3]?")
    run.finish("a")
    run.commit("b", "0-1")
    run.lose_exchange("a", "b", "1")
    run.lose("b", "0")
    assert generations(run) == {} and run.open() == {"b": "2"}
    run.finish("b")
    assert generations(run) == {} and run.open() == {"b": "0"}


def test_of_several_lost_partitions_only_those_that_read_the_change_are_outdated() -> None:
    run = Driven("a[4]? =blocking=> b[4]")
    run.finish("a", digests=b"xyzw")
    run.commit("b", "0-1", digests=b"pq")
    run.commit("b", "2", digests=b"r")
    run.give(st.PartsLost(Parts({"a": Partitions((0,)), "b": Partitions((0, 1, 2))}), FailureDomain.STORAGE))
    run.finish("a", digests=b"v")
    assert generations(run) == {} and run.state.steps["b"].generation == 1
    outdated = {str(one.partitions): one.are_inputs_equal for one in run.state.steps["b"].superseded}
    assert outdated == {"0": False, "1": True, "2": True}


def test_a_reader_that_never_began_has_seen_nothing() -> None:
    run = Driven("a[1]? =blocking=> b[1]\na =blocking=> d[1]\nc[1] =blocking=> d[1]")
    run.finish("a")
    run.fail("b", "0")
    run.lose("a", "0")
    run.finish("a")
    assert run.state.steps["d"].generation == 0


def test_strategy_individual_does_not_mix_exchanges_either() -> None:
    config = MasterConfig(strategy=Strategy.INDIVIDUAL, backoff=AT_ONCE.backoff)
    run = Driven("a[2] =blocking all?=> b[3]?", config=config)
    run.finish("a")
    run.commit("b", "0-1")
    run.take_over()
    run.seal("b")
    assert generations(run) == {"b": "0-2"}
    opened = next(event for event in run.last if isinstance(event, GenerationOpened))
    assert [str(at) for why, at in opened.because if isinstance(why, ExchangeChanged)] == ["0-1"]
    assert run.open() == {"b": "0-2"}


def test_digests_compare_by_partition() -> None:
    one = Digests(Partitions((1, 3)), b"aabb")
    assert one.digest(3) == b"bb"
    assert one.digest(2) is None
    other = Digests(Partitions((1, 2, 3)), b"aaccbx")
    assert one.equal_to(other, Partitions((1, 3))) == Partitions((1,))
    assert one.equal_to(Digests(Partitions((1,)), None), Partitions((1,))) == EMPTY
    assert one.equal_to(one, Partitions((3, 9))) == Partitions((3,))
    elsewhere = Digests(Partitions((1, 2)), b"aabb")
    assert one.equal_to(elsewhere, Partitions((1, 3))) == Partitions((1,))


def test_the_reason_of_a_dropped_vertex_reaches_its_next_attempt() -> None:
    run = Driven("a[1]? =blocking=> b[1]\na =blocking=> c[1]")
    run.finish("a")
    run.finish("b")
    run.fail("c", "0")
    run.lose("a", "0")
    run.finish("a")
    assert run.state.steps["b"].why[0][0] == InputDiffers("a")
    opened = next(event for event in run.journal if isinstance(event, GenerationOpened))
    assert (opened.step, opened.carried, opened.proof) == ("b", EMPTY, None), "nothing is carried, nothing is proved"


def test_without_a_known_checksum_order_does_not_help_a_new_application() -> None:
    run = Driven("a[2] =blocking all?=> b[3]?@unordered")
    run.finish("a")
    run.commit("b", "0")
    run.take_over()
    run.seal("b")
    assert generations(run) == {"b": "0-2"}


def attempts(run: Driven) -> list[tuple[str, list[tuple[AnyReason, str]]]]:
    return [
        (event.attempt.step, [(reason, str(at)) for reason, at in event.because])
        for event in run.last
        if isinstance(event, AttemptOpened)
    ]


def test_every_vertex_of_an_attempt_has_one_reason() -> None:
    run = Driven("a[3]? =blocking=> b[3]\na =blocking=> c[3]")
    assert attempts(run) == [("a", [(NotYetRun(), "0-2")])]
    run.fail("a", "1")
    assert attempts(run) == [("a", [(NotYetRun(), "0,2")])]


def test_an_attempt_at_dropped_and_lost_vertices_names_both_reasons() -> None:
    config = MasterConfig(backoff=BackoffSpec("fixed", {"attempts_max": 9, "delay_ms": 50}))
    run = Driven("a[3]? =blocking=> b[3]\na =blocking=> c[3]", config=config)
    run.finish("a")
    run.finish("b")
    run.fail("c", "0", FailureKind.NO_SPACE)
    run.give(st.PartsLost(Parts({"a": Partitions((0,)), "b": Partitions((1,))}), FailureDomain.STORAGE))
    assert run.open() == {"a": "0"}
    run.commit("a", "0")
    assert attempts(run) == [("b", [(InputDiffers("a"), "0"), (ResultLost(), "1")])]


def test_a_barrier_step_whose_readers_need_one_partition_is_made_whole() -> None:
    run = Driven("a[2]@whole =blocking=> b[2]")
    run.finish("a")
    run.commit("b", "0")
    run.lose("a", "0-1")
    run.fail("b", "1", FailureKind.RESULT_MISSING)
    assert run.open() == {"a": "0-1"}


def test_an_exchange_that_an_attempt_found_gone_is_lost() -> None:
    run = Driven("a[2] =blocking all?=> b[2]?")
    run.finish("a")
    run.commit("b", "0")
    exchange = ExchangeId("b", "a")
    run.fail("b", "1", FailureKind.EXECUTOR_LOST, lost=Parts({}, {exchange: Partitions((1,))}))
    assert [event.lost for event in run.last if isinstance(event, ExchangesLost)] == [((exchange, Partitions((1,))),)]
    assert generations(run) == {"b": "0-1"}


PLANS = [
    ("region counts what is not repeatable as different", Strategy.REGION, "a:0 b:0 c:0"),
    ("full restarts by generations, and plans as region does", Strategy.FULL, "a:0 b:0 c:0"),
    ("individual waits for the digest", Strategy.INDIVIDUAL, "a:0 c:0"),
]


@pytest.mark.parametrize(("strategy", "wanted"), [row[1:] for row in PLANS], ids=[row[0] for row in PLANS])
def test_the_work_left_is_that_of_the_strategy(strategy: Strategy, wanted: str) -> None:
    run = Driven("a[1]? =blocking=> b[1]\na =blocking=> c[1]", config=MasterConfig(strategy=strategy))
    run.finish("a")
    run.finish("b")
    attempt = run.attempt("c")
    run.lose("a", "0")
    run.give(st.AttemptEnded(attempt=attempt, was_cancelled=True))
    idle = replace(run.state, attempts={})
    assert shown(work_left(idle)) == wanted


def start_of(run: Driven, step: str) -> StartAttempt:
    (found,) = (one for one in commands(run.state) if isinstance(one, StartAttempt) and one.attempt.step == step)
    return found


def test_an_input_that_an_exchange_spares_is_named_as_absent_and_made_once_the_plan_is_lost() -> None:
    """An executor took two blocks; one of them is wanted by nobody but a held exchange."""
    run = Driven("a[4]@run_end =caching all=> x[4]\na =caching=> y[4]")
    run.finish("a")
    run.commit("x", "0")
    run.commit("y", "0,1,3")
    run.lose("a", "2-3", FailureDomain.EXECUTOR)
    run.fail("y", "2")
    run.fail("x", "1")
    run.finish("a")
    assert [str(one.absent) for one in start_of(run, "x").inputs] == ["3"]
    run.give(st.AttemptEnded(attempt=run.attempt("x"), was_cancelled=True, has_lost_plan=True))
    assert run.open()["a"] == "3" and "x" not in run.open()
    run.finish("a")
    assert run.open()["x"] == "2-3" and not start_of(run, "x").inputs[0].absent


def test_a_task_that_could_not_read_its_input_has_lost_the_plan_also_if_the_loss_is_known() -> None:
    """The map task that must run again lay beside its input: without this the same plan fails again and again."""
    run = Driven("a[4]@run_end =caching all=> x[4]")
    run.finish("a")
    run.commit("x", "0")
    run.lose("a", "3", FailureDomain.EXECUTOR)
    run.fail("x", "1", FailureKind.EVICTED, lost=Parts({"a": Partitions((3,))}))
    assert run.open() == {"a": "3"}
    run.finish("a")
    assert run.open() == {"x": "1-3"} and run.state.steps["x"].generation == 0


def test_the_end_of_an_attempt_of_an_older_generation_takes_no_exchange_of_the_newer_one() -> None:
    run = Driven("a[4]@run_end =caching all?=> x[4]?\na =caching=> y[4]")
    run.finish("a")
    run.commit("x", "0")
    older = run.attempt("x")
    run.commit("x", "1", version=1)
    assert run.state.steps["x"].generation == 1
    run.commit("x", "0-2", attempt=run.attempt("x"))
    lost = Parts({"a": Partitions((3,))})
    run.give(st.AttemptEnded(attempt=older, was_cancelled=True, lost=lost, has_lost_plan=True))
    assert all(run.state.steps["x"].held.values()) and str(run.state.steps["x"].committed) == "0-2"
