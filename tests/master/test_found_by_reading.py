"""Sequences that a critical read of the master found, each a way to mix versions or to end where nobody can go on."""

from __future__ import annotations

from msgspec.structs import replace

from master.driving import AT_ONCE, Driven
from rekindle.master.facts.events import AttemptOpened, GenerationOpened, PartitionsCommitted
from rekindle.master.state.run_state import Phase


def test_beside_poison_the_attempts_of_a_step_are_bounded() -> None:
    """Rule 9. A journal that breaks it can never be opened again: invariants are checked of what is replayed."""
    run = Driven("a[2] =blocking=> b[2]", config=replace(AT_ONCE, attempts_per_step_max=1, poison_tries_max=1))
    run.commit("a", "0")
    run.fail("a", "1")  # poison; b[0] runs beside it
    run.commit("b", "0")
    run.lose("b", "0")
    run.end("b")  # check_invariants: "rule 9: more attempts than allowed (b)"
    assert run.is_now(Phase.FAILED)


def test_leaving_out_a_partition_and_one_that_reads_it() -> None:
    run = Driven("a[2] =blocking=> b[2]\na =blocking=> c[2]", config=replace(AT_ONCE, poison_tries_max=1))
    run.finish("a")
    run.commit("b", "1")
    run.fail("b", "0")
    run.lose("a", "0")
    run.fail("a", "0")
    run.finish("c")
    assert run.is_now(Phase.FAILED)  # "poison: a[0] ...; b[0] ..."
    run.take_over(without="a:0 b:0")  # apply: AssertionError "left out what never began"


def test_a_whole_step_whose_new_generation_never_started_is_outdated_as_a_whole() -> None:
    run = Driven(
        "a[2]?@run_end =blocking=> b[2]*@whole@run_end =blocking=> d[2]",
        config=replace(AT_ONCE, attempts_per_step_max=1),
    )
    run.finish("a", digests=b"xy")
    run.finish("b")
    run.commit("d", "1")  # read b[1]
    run.lose("b", "0")
    run.fail("d", "0")  # b opens generation 1 as a whole, and is given up before it starts
    assert run.is_now(Phase.FAILED) and not run.state.steps["b"].started
    run.lose("a", "0")
    run.take_over()
    run.finish("a", digests=b"z")  # a[0] came back as something else
    run.commit("b", "0-1")  # all of b was made from it: nothing may be taken for what it was
    [commit] = [event for event in run.last if isinstance(event, PartitionsCommitted)]
    assert str(commit.changed) == "0-1"
    assert 1 not in run.state.steps["d"].committed, "d[1] was made from the old b[1]"


def test_an_accepted_change_is_a_word_for_what_is_kept_only() -> None:
    """b was made from the old input of a, c is made from the new one; both are published."""
    marks = {name: {"code": "1"} for name in "abc"}
    run = Driven(
        "a[2] =blocking=> b[2]@run_end\na =blocking=> c[2]@run_end",
        sinks=("b", "c"),
        fingerprints=marks | {"a": {"input": "1"}},
    )
    run.finish("a")
    run.finish("b")
    run.lose("a", "0")  # not kept any more, whatever the user says of what is
    run.take_over(fingerprints=marks | {"a": {"input": "2"}}, accepted=frozenset({"a"}))
    run.seal("c")
    assert run.open()["a"] == "0", "made again, from the new input"
    run.finish("a")
    assert any(isinstance(event, GenerationOpened) and event.step == "b" for event in run.journal)


def test_what_is_adopted_after_a_change_was_accepted_was_made_by_the_old_code() -> None:
    """The seal of what a dead driver wrote comes after the user's word."""
    marks = {name: {"code": "1"} for name in "abc"}
    run = Driven(
        "a[2]@run_end =blocking=> b[2]@run_end\na =blocking=> c[2]@run_end", sinks=("b", "c"), fingerprints=marks
    )
    run.take_over(fingerprints=marks | {"a": {"code": "2"}}, accepted=frozenset({"a"}))
    run.seal("a", "0-1")  # what the dead driver wrote unseen, by the old code
    run.finish("b")
    run.lose("a", "0")
    run.take_over()
    run.seal("c")
    assert run.open()["a"] == "0", "made again, by the new code"
    run.finish("a")
    [commit] = [event for event in run.journal if isinstance(event, PartitionsCommitted)][-1:]
    assert str(commit.changed) == "0", "b[0] was made from what the old code gave"


def test_a_cancelled_attempt_of_an_older_generation_says_nothing_of_the_exchange_of_this_one() -> None:
    run = Driven("a[2]?@forever =blocking=> b[2]?\nx[2]@run_end =blocking all=> b")
    run.finish("a", digests=b"xy")
    run.finish("x")
    old = run.attempt("b")
    run.lose("a", "0-1")
    run.finish("a", digests=b"zw")  # b opens generation 1; `old` may commit nothing any more
    run.commit("b", "0")
    run.commit("b", "1", attempt=old, version=1)  # its own exchange was made again
    assert str(run.state.steps["b"].committed) == "0"


def test_nothing_is_opened_in_the_record_that_gives_the_run_up() -> None:
    """What was opened and never dispatched would be cancelled, and never end: the driver would wait for ever."""
    run = Driven(
        "a[1]?@run_end =blocking=> b[1]\na =blocking=> c[1]\na =blocking=> d[1]",
        config=replace(AT_ONCE, attempts_per_step_max=2),
    )
    run.finish("a", digests=b"x")
    run.finish("b")
    run.fail("c", "0")
    run.finish("c")  # at its second attempt, the last
    run.lose("a", "0")
    run.fail("d", "0")
    run.finish("a", digests=b"y")  # all readers are to start again
    assert not any(isinstance(event, AttemptOpened) for event in run.last)
    assert run.is_now(Phase.FAILED)


def test_an_exchange_made_by_changed_code_is_another_one_whatever_the_user_accepts() -> None:
    """Other keys put rows into other partitions: one kept of the old exchange beside one of the new loses some."""
    marks = {name: {"code": "1"} for name in "ab"}
    run = Driven("a[2] =blocking all=> b[2]", fingerprints=marks)
    run.finish("a")
    run.commit("b", "1")
    run.take_over(fingerprints=marks | {"b": {"code": "2"}}, accepted=frozenset({"b"}))
    run.seal("b")
    assert run.open()["b"] == "0-1", "there is no checksum by which the kept partition could stand"
