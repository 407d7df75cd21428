"""A partition that failed is left out: what then runs, what readers are given, and how the hole is filled."""

from __future__ import annotations

import pytest

from given import sets
from master.driving import AT_ONCE, Driven
from rekindle.errors import Refused
from rekindle.master.dispatch import commands
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import MasterConfig
from rekindle.master.facts.events import (
    AttemptOpened,
    EpochOpened,
    GenerationOpened,
    HoleAccepted,
    PartitionsReleased,
    PublicationOpened,
    RunFailing,
    RunStopped,
    RunSucceeded,
)
from rekindle.master.rules.advance import work_left
from rekindle.master.state import commands as cmd
from rekindle.master.state.invariants import violations
from rekindle.master.state.run_state import Phase
from rekindle.model.failures import FailureKind
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.parts import Parts
from rekindle.remedies import new_run

ONE_TRY = MasterConfig(backoff=AT_ONCE.backoff, poison_tries_max=1)
CHAIN = "a[3] =blocking=> b[3] =blocking all=> c[2]"
CODE = {name: {"code": "1"} for name in "abc"}


def failed(drawing: str = CHAIN, at: str = "1", **options: object) -> Driven:
    """Given up because `a` has poison at `at`; everything that does not need it is there."""
    run = Driven(drawing, config=ONE_TRY, **options)  # type: ignore[arg-type]
    run.fail("a", at)
    while run.is_now(Phase.RUNNING):
        run.finish(next(iter(run.open())))
    return run


def opened(run: Driven) -> dict[str, str]:
    return {event.attempt.step: str(event.partitions) for event in run.last if isinstance(event, AttemptOpened)}


def inputs(run: Driven) -> list[cmd.Input]:
    [command] = [one for one in commands(run.state) if isinstance(one, cmd.StartAttempt)]
    return list(command.inputs)


def publications(run: Driven) -> dict[str, cmd.PublishSink]:
    return {one.sink: one for one in commands(run.state) if isinstance(one, cmd.PublishSink)}


def test_the_hole_is_a_fact_and_only_what_waited_for_it_runs() -> None:
    run = failed()
    assert str(run.state.steps["b"].committed) == "0,2"
    run.take_over(without="a:1")
    assert [type(event) for event in run.last] == [EpochOpened, HoleAccepted, AttemptOpened]
    assert run.last[1] == HoleAccepted("a", Partitions((1,)), "you", run.now)
    assert opened(run) == {"b": "1"}
    assert run.state.holes() == sets("a:1")
    assert inputs(run) == [cmd.Input("a", (), Partitions((1,)))], "no file, and told why"


def test_readers_of_all_get_the_files_there_are_and_the_run_succeeds_with_its_hole() -> None:
    run = failed(sinks=("c",))
    run.take_over(without="a:1")
    run.finish("b")
    [one] = inputs(run)
    assert (one.step, one.holes) == ("b", EMPTY), "b[1] is there: it was made over the hole"
    run.finish("c")
    assert publications(run)["c"].holes == (("a", Partitions((1,))),)
    run.publish()
    assert run.is_now(Phase.SUCCEEDED) and run.state.holes() == sets("a:1")
    assert any(isinstance(event, RunSucceeded) for event in run.last)
    released = {event.step: str(event.partitions) for event in run.journal if isinstance(event, PartitionsReleased)}
    assert released["a"] == "0,2", "there is no file to release"


def test_a_hole_in_the_sink_itself_is_published_and_told() -> None:
    run = failed("a[3]", sinks=("a",))
    run.take_over(without="a:1")
    assert [type(event) for event in run.last] == [EpochOpened, HoleAccepted, PublicationOpened]
    command = publications(run)["a"]
    assert command.holes == (("a", Partitions((1,))),)
    assert not any(1 in segment.partitions for segment in command.segments)


def test_a_sink_that_has_nothing_to_do_with_the_hole_does_not_tell_of_it() -> None:
    run = failed("a[2] =blocking=> b[2]\nx[1]", sinks=("b", "x"))
    run.take_over(without="a:1")
    run.finish("b")
    told = {sink: command.holes for sink, command in publications(run).items()}
    assert told == {"b": (("a", Partitions((1,))),), "x": ()}


def test_the_same_word_given_twice_is_one_fact() -> None:
    run = failed()
    run.take_over(without="a:1")
    run.take_over(without="a:1")
    run.seal("b")
    assert sum(isinstance(event, HoleAccepted) for event in run.journal) == 1
    assert run.open() == {"b": "1"}


def test_a_resume_without_the_word_keeps_the_hole() -> None:
    run = failed()
    run.take_over(without="a:1")
    run.take_over()
    run.seal("b")
    assert run.state.holes() == sets("a:1") and run.open() == {"b": "1"}


REFUSED = [
    ("its result is committed", "a:0", "a[0] cannot be left out: its result is committed"),
    ("it waits for the poison, and did not fail", "b:1", "b[1] cannot be left out: it has not failed"),
    ("it never started", "c:0-1", "c[0-1] cannot be left out: it has not failed"),
    ("one of them failed, the other counts", "a:1-2", "a[2] cannot be left out: its result is committed"),
]


@pytest.mark.parametrize(("without", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_did_not_fail_cannot_be_left_out(without: str, said: str) -> None:
    run = failed()
    before = list(run.journal)
    with pytest.raises(Refused, match=said.replace("[", r"\[").replace("]", r"\]")) as caught:
        run.take_over(without=without)
    assert caught.value.hint
    assert run.journal == before


def test_what_the_last_driver_may_have_finished_cannot_be_left_out() -> None:
    run = Driven("a[2]")
    run.fail("a", "1")
    run.finish("a")
    assert run.open() == {"a": "1"}, "it is tried again when its driver dies"
    with pytest.raises(Refused, match=r"a\[1\] cannot be left out: the previous driver may have finished it"):
        run.take_over(without="a:1")


def test_what_failed_before_the_last_start_and_not_since_cannot_be_left_out() -> None:
    run = failed("a[2]")
    run.take_over()
    run.give(st.AttemptEnded(attempt=run.attempt("a"), was_cancelled=True))
    run.give(st.CancelRun())
    run.end_cancelled()
    with pytest.raises(Refused, match="has not failed since the run was last started"):
        run.take_over(without="a:1")


def test_a_step_whose_code_changed_is_tried_again_and_not_left_out() -> None:
    run = failed(fingerprints=CODE)
    changed = CODE | {"a": {"code": "2"}}
    with pytest.raises(Refused, match=r"a\[1\] cannot be left out: a changed since it failed"):
        run.take_over(without="a:1", fingerprints=changed)
    run.take_over(without="a:1", fingerprints=changed, accepted=frozenset("a"))
    assert run.state.holes() == sets("a:1")


def test_a_step_that_restarts_whole_and_all_of_a_step_cannot_be_left_out() -> None:
    run = failed("a[2]@whole\nb[1]")
    with pytest.raises(Refused, match=r"a\[1\] cannot be left out: a is computed as a whole"):
        run.take_over(without="a:1")
    run = failed("a[2]\nb[1]", at="0-1")
    with pytest.raises(Refused, match=r"a\[0-1\] cannot be left out: no partition of a would be left"):
        run.take_over(without="a:0-1")


def test_what_is_published_cannot_be_left_out() -> None:
    run = failed("a[3]", sinks=("a",))
    run.take_over(without="a:1")
    run.publish()
    with pytest.raises(Refused, match=r"a\[0\] cannot be left out: run run has published it") as caught:
        run.take_over(without="a:0")
    assert caught.value.remedies == (new_run(),)
    run.take_over(without="a:1")
    assert run.is_now(Phase.SUCCEEDED), "what was left out may be asked for again"


def test_readers_that_saw_rows_of_it_start_over() -> None:
    """a[1] was there and was read; then it is lost, cannot be made again, and is left out."""
    run = Driven("a[2] =blocking=> b[2] =blocking all=> c[1]", config=ONE_TRY)
    run.finish("a", digests=b"01")
    run.finish("b", digests=b"01")
    run.fail("c", "0", FailureKind.RESULT_MISSING, lost=Parts(sets("b:1")))
    assert run.open() == {"a": "1"}, "it was released, and is made again for b[1]"
    run.fail("a", "1")
    assert run.is_now(Phase.FAILED) and str(run.state.steps["b"].committed) == "0"
    run.take_over(without="a:1")
    [hole] = [event for event in run.last if isinstance(event, HoleAccepted)]
    assert hole.changed == Partitions((1,))
    [again] = [event for event in run.last if isinstance(event, GenerationOpened)]
    assert (again.step, str(again.dropped), str(again.carried)) == ("b", "1", "0")
    assert opened(run) == {"b": "1"}


def resumed_over_hole() -> Driven:
    """Everything but `d` is there, made over the hole a[1]; `d` stopped the run."""
    run = failed(f"{CHAIN} =blocking=> d[2]", fingerprints=CODE | {"d": {"code": "1"}})
    run.take_over(without="a:1")
    run.finish("b", digests=b"1")
    run.finish("c", digests=b"01")
    run.fail("d", "0-1")
    assert run.is_now(Phase.FAILED)
    return run


def test_corrected_code_fills_the_hole_and_nothing_below_it_is_mixed() -> None:
    run = resumed_over_hole()
    run.take_over(fingerprints=run.state.spec.fingerprints | {"a": {"code": "2"}})
    [again] = [event for event in run.last if isinstance(event, GenerationOpened)]
    assert (again.step, str(again.dropped)) == ("a", "0-2")
    assert run.state.holes() == {} and run.open() == {"a": "0-2"}
    before = len(run.journal)
    run.finish("a")
    dropped = {one.step: str(one.dropped) for one in run.journal[before:] if isinstance(one, GenerationOpened)}
    assert dropped == {"b": "0-2"}
    run.finish("b")
    assert run.open() == {"c": "0-1"}, "all of c read b[1], which was made over the hole"


def test_a_changed_input_tries_the_hole_again_and_only_its_readers_follow() -> None:
    run = Driven("s[3] =blocking=> a[3] =blocking=> b[3]\nz[1]", config=ONE_TRY, fingerprints={"s": {"code": "1"}})
    run.finish("s", digests=b"012")
    run.fail("a", "1")
    run.finish("a", digests=b"02")
    run.fail("z", "0")
    run.finish("b", digests=b"02")
    assert run.is_now(Phase.FAILED)
    run.take_over(without="a:1")
    run.finish("b", digests=b"1")
    run.fail("z", "0")
    assert run.is_now(Phase.FAILED)
    run.take_over(fingerprints={"s": {"code": "2"}})
    run.finish("s", digests=b"0x2")
    assert run.state.holes() == {}
    assert run.open()["a"] == "1", "only its input came back different"
    run.finish("a", digests=b"1")
    assert run.open()["b"] == "1"


def test_a_hole_left_out_again_is_the_same_to_its_readers() -> None:
    run = resumed_over_hole()
    run.take_over(fingerprints=run.state.spec.fingerprints | {"a": {"code": "2"}})
    run.commit("a", "0,2")
    run.fail("a", "1")
    while run.is_now(Phase.RUNNING):
        run.finish(next(iter(run.open())))
    assert [type(event) for event in run.last][-2:] == [RunFailing, RunStopped]
    run.take_over(without="a:1")
    [hole] = [event for event in run.last if isinstance(event, HoleAccepted)]
    assert hole.changed == EMPTY


def test_the_work_left_does_not_name_what_is_left_out() -> None:
    run = failed()
    assert str(work_left(run.state).partitions("a")) == "1"
    run.take_over(without="a:1")
    assert not work_left(run.state).partitions("a")
    assert not list(violations(run.state))
