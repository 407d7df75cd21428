"""What a published sink was made from is settled: if it comes back different, the run stops with both digests."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from master.driving import AT_ONCE, Driven
from rekindle.errors import Refused
from rekindle.failover.restart import Strategy
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import MasterConfig
from rekindle.master.facts.events import (
    AttemptOpened,
    Differs,
    EpochOpened,
    Fence,
    GenerationOpened,
    PartitionsCommitted,
    RepublishAccepted,
    RunFailing,
    SinkUntouched,
)
from rekindle.master.rules.advance import work_left
from rekindle.master.rules.published import sentence
from rekindle.master.state.run_state import Phase
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.partitions import EMPTY, Partitions

TWO = "a[2]{mark} =blocking=> b[2]@run_end\na =blocking=> c[2]@run_end"


def half_published(drawing: str, steps: str, sinks: tuple[str, ...], digests: bytes | None = b"xy") -> Driven:
    """Everything is committed, and the first sink is published."""
    run = Driven(drawing, sinks=sinks, fingerprints={name: {"code": "1"} for name in steps})
    for step in steps:
        run.finish(step, digests=digests)
    fence = run.state.publication
    assert fence is not None
    run.give(st.SinkDone(sinks[0], fence))
    return run


def lost_again(mark: str = "?", digests: bytes | None = b"xy") -> Driven:
    """b is published, c may be; c[0] is gone and so is what it was made from, which is being made again."""
    run = half_published(TWO.format(mark=mark), "abc", ("b", "c"), digests)
    run.lose("c", "0")
    run.lose("a", "0") if run.state.steps["a"].committed else None
    assert run.open()["a"].startswith("0")
    return run


def differs(run: Driven) -> Differs | None:
    return next((event.differs for event in run.last if isinstance(event, RunFailing)), None)


ROWS = [
    ("an equal digest: it is the same", "?", b"xy", b"x", None),
    (
        "another digest: the run stops",
        "?",
        b"xy",
        b"z",
        Differs(step="a", partitions=Partitions((0,)), sinks=("b", "c"), was=b"x", now=b"z", maybe=("c",)),
    ),
    (
        "no digest this time is a mismatch",
        "?",
        b"xy",
        None,
        Differs(step="a", partitions=Partitions((0,)), sinks=("b", "c"), was=b"x", now=None, maybe=("c",)),
    ),
    (
        "no digest last time is a mismatch",
        "?",
        None,
        b"x",
        Differs(step="a", partitions=Partitions((0,)), sinks=("b", "c"), was=None, now=b"x", maybe=("c",)),
    ),
    ("no digests, but repeatable: it is the same", "", None, None, None),
    (
        "another digest is believed, whatever the plan says",
        "",
        b"xy",
        b"z",
        Differs(step="a", partitions=Partitions((0,)), sinks=("b", "c"), was=b"x", now=b"z", maybe=("c",)),
    ),
]


@pytest.mark.parametrize(("mark", "old", "new", "found"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_a_published_sink_read_comes_back(
    mark: str, old: bytes | None, new: bytes | None, found: Differs | None
) -> None:
    run = lost_again(mark, old)
    run.commit("a", "0", digests=new)
    assert differs(run) == found
    assert (0 in run.state.steps["a"].committed) is (found is None), "what differs does not count"
    assert not any(isinstance(event, GenerationOpened) and event.step == "b" for event in run.journal)
    assert "b" in run.state.published


def test_both_digests_are_told() -> None:
    run = lost_again()
    run.commit("a", "0", digests=b"z")
    assert run.state.failing is not None
    said = run.state.failing.gave_up
    which = "a[0], which b was published from, and c may have been"
    assert said == f"{which}, was recomputed with other rows: digest 7a, published 78"
    assert run.state.failing.is_resumable
    unknown = Differs(step="b", partitions=Partitions((1,)), sinks=("b",), was=None, now=b"z")
    assert sentence(unknown) == ("b[1] is published, and recomputing it gives other rows: digest 7a, published unknown")


def test_the_digest_is_that_of_the_partition_that_differs() -> None:
    """Partitions that were committed one by one, and lost: the first is not yet made again when the other differs."""
    run = Driven(TWO.format(mark="?"), sinks=("b", "c"))
    run.commit("a", "0", digests=b"x")
    run.commit("a", "1", digests=b"y")
    run.end("a")
    for step in "bc":
        run.finish(step)
    run.lose("c", "0-1")
    assert [str(one.partitions) for one in run.state.steps["a"].superseded] == ["0", "1"]
    run.commit("a", "1", digests=b"z")
    assert differs(run) == Differs(
        step="a", partitions=Partitions((1,)), sinks=("b", "c"), was=b"y", now=b"z", maybe=("b", "c")
    )


def test_what_else_was_reported_with_it_counts() -> None:
    run = half_published(TWO.format(mark="?"), "abc", ("b", "c"))
    run.lose("c", "0-1")
    run.lose("a", "0-1") if run.state.steps["a"].committed else None
    run.commit("a", "0-1", digests=b"xz")
    assert differs(run) == Differs(
        step="a", partitions=Partitions((1,)), sinks=("b", "c"), was=b"y", now=b"z", maybe=("c",)
    )
    [commit] = [event for event in run.last if isinstance(event, PartitionsCommitted)]
    assert str(commit.partitions) == "0" and not commit.changed
    run.commit("a", "1", digests=b"z")
    assert run.last == (), "it is stopping already, and it still does not count"


def test_a_resume_goes_on_if_it_comes_back_equal_and_stops_again_if_not() -> None:
    run = lost_again()
    run.commit("a", "0", digests=b"z")
    run.end_cancelled()
    assert run.is_now(Phase.FAILED)
    run.take_over()
    assert run.open()["a"].startswith("0"), "made again"
    run.commit("a", "0", digests=b"w")
    assert differs(run) == Differs(
        step="a", partitions=Partitions((0,)), sinks=("b", "c"), was=b"x", now=b"w", maybe=("c",)
    )
    run.end_cancelled()
    run.take_over()
    run.finish("a", digests=b"x")
    assert set(run.open()) == {"c"}, "b was made from the same"
    run.finish("c")
    assert run.state.publication is not None
    run.give(st.SinkDone("c", run.state.publication))
    assert run.is_now(Phase.SUCCEEDED)


def test_on_the_users_word_all_that_was_made_from_it_is_published_together() -> None:
    run = lost_again()
    run.commit("a", "0", digests=b"z")
    run.end_cancelled()
    run.take_over(republish=True)
    assert [type(event) for event in run.last] == [EpochOpened, AttemptOpened]
    run.commit("a", "0", digests=b"z")
    assert RepublishAccepted(("b", "c"), "you", run.now) in run.last
    run.finish("a", digests=b"z")
    assert run.state.published == {}
    run.finish("b")
    assert run.state.publication is None, "c is not there yet"
    run.finish("c")
    assert run.state.publication is not None
    run.publish()
    assert run.is_now(Phase.SUCCEEDED)


def test_the_word_touches_no_sink_that_was_made_from_something_else() -> None:
    drawing = "a[1]? =blocking=> b[1]@run_end\na =blocking=> c[1]@run_end\nx[1] =blocking=> d[1]@run_end"
    run = half_published(drawing, "abcxd", ("b", "c", "d"), b"x")
    assert run.state.publication is not None
    run.give(st.SinkDone("d", run.state.publication))
    run.lose("c", "0")
    run.lose("a", "0") if run.state.steps["a"].committed else None
    run.commit("a", "0", digests=b"z")
    run.end_cancelled()
    run.take_over(republish=True)
    run.finish("a", digests=b"z")
    assert set(run.state.published) == {"d"}


def test_the_word_changes_nothing_where_the_same_comes_back() -> None:
    run = lost_again()
    run.commit("a", "0", digests=b"z")
    run.end_cancelled()
    run.take_over(republish=True)
    run.finish("a", digests=b"x")
    assert set(run.open()) == {"c"} and set(run.state.published) == {"b"}
    assert not any(isinstance(event, RepublishAccepted) for event in run.journal)


def test_the_word_counts_for_what_is_lost_later_and_only_until_the_next_master() -> None:
    run = half_published(TWO.format(mark="?"), "abc", ("b", "c"))
    run.take_over(republish=True)
    run.lose("c", "0")
    run.lose("a", "0") if run.state.steps["a"].committed else None
    run.take_over()
    run.seal("a")
    run.commit("a", "0", digests=b"z")
    assert differs(run) is not None
    run.end_cancelled()
    run.take_over()
    run.take_over(republish=True)
    run.seal("a")
    run.commit("a", "0", digests=b"w")
    assert differs(run) is None and RepublishAccepted(("b", "c"), "you", run.now) in run.last


def test_a_change_reaches_a_published_sink_only_through_what_it_read() -> None:
    """b lies between: it starts over, and only when it comes back different has the sink read something else."""
    drawing = "a[1]? =blocking=> b[1]? =blocking=> c[1]@run_end\na =blocking=> d[1]@run_end"
    for again, is_stopped in ((b"x", False), (b"z", True)):
        run = half_published(drawing, "abcd", ("c", "d"), b"x")
        changed = {name: {"code": "2" if name == "d" else "1"} for name in "abcd"}
        run.take_over(fingerprints=changed, republish=True)
        assert run.state.possibly_published == {"c"}, "d is to be made and published again"
        run.take_over()
        for step in run.open():
            run.seal(step)
        run.lose("a", "0")
        run.finish("a", digests=b"z")
        assert differs(run) is None and "b" in run.open()
        run.finish("b", digests=again)
        assert any(isinstance(event, RunFailing) for event in run.journal) is is_stopped
        assert "c" in run.state.published


def test_a_published_sink_that_others_read_is_settled_itself() -> None:
    run = half_published("a[1]?@run_end =blocking=> b[1]@run_end", "ab", ("a", "b"), b"x")
    run.lose("a", "0")
    assert run.open() == {}, "nobody needs it yet"
    run.lose("b", "0")
    run.commit("a", "0", digests=b"z")
    assert differs(run) == Differs(
        step="a", partitions=Partitions((0,)), sinks=("a", "b"), was=b"x", now=b"z", maybe=("b",)
    )


def maybe_published() -> Driven:
    """A driver died after it opened the publication: nobody knows whether the targets took b and c."""
    run = Driven(TWO.format(mark="?"), sinks=("b", "c"), fingerprints={name: {"code": "1"} for name in "abc"})
    for step in "abc":
        run.finish(step, digests=b"xy")
    assert run.state.publication is not None
    run.take_over()
    return run


def test_what_may_be_published_is_settled_too() -> None:
    run = maybe_published()
    run.lose("c", "0")
    run.lose("a", "0") if run.state.steps["a"].committed else None
    run.commit("a", "0", digests=b"z")
    assert differs(run) == Differs(
        step="a", partitions=Partitions((0,)), sinks=("b", "c"), was=b"x", now=b"z", maybe=("b", "c")
    )
    assert run.state.failing is not None
    assert run.state.failing.gave_up.startswith(
        "a[0], which b and c may have been published from, was recomputed with other rows"
    )
    run.end_cancelled()
    run.take_over(republish=True)
    run.commit("a", "0", digests=b"z")
    assert RepublishAccepted(("b", "c"), "you", run.now) in run.last
    assert not run.state.possibly_published
    for step in "abc":
        run.finish(step, digests=b"zy")
    run.publish()
    assert run.is_now(Phase.SUCCEEDED)


def test_what_surely_was_not_written_is_not_settled() -> None:
    run = Driven("a[2]? =blocking=> b[2]@run_end", sinks=("b",))
    for step in "ab":
        run.finish(step, digests=b"xy")
    first = run.state.publication
    assert first is not None and run.state.possibly_published == {"b"}
    assert run.give(st.SinkUnchanged("b", Fence(7, 1, 9))) == (), "no such publication"
    assert run.give(st.SinkUnchanged("b", first)) == (SinkUntouched("b", first),)
    assert not run.state.possibly_published
    run.lose("b", "0")
    run.finish("a", digests=b"z") if "a" in run.open() else None
    assert differs(run) is None and run.is_now(Phase.RUNNING)


def test_an_older_publication_that_nobody_heard_of_stays_a_maybe() -> None:
    run = maybe_published()
    fence = run.state.publication
    assert fence is not None
    run.give(st.SinkUnchanged("b", fence))
    run.give(st.SinkUnchanged("b", fence))
    assert run.state.possibly_published == {"b", "c"}


def test_what_may_be_published_is_left_out_only_with_the_word() -> None:
    run = maybe_published()
    run.lose("c", "0")
    run.lose("a", "0") if run.state.steps["a"].committed else None
    while run.state.phase is Phase.RUNNING:
        run.fail("a", "0")
    run.end_cancelled()
    with pytest.raises(Refused, match=r"has published it, or may have\n.*republish=True"):
        run.take_over(without="a:0")
    run.take_over(without="a:0", republish=True)
    assert RepublishAccepted(("b", "c"), "you", run.now) in run.last
    for step in "bc":
        run.finish(step)
    run.publish()
    assert run.is_now(Phase.SUCCEEDED)


def test_what_may_be_published_is_published_without_a_word_if_it_is_still_there() -> None:
    run = maybe_published()
    assert run.open() == {} and run.state.publication is not None
    run.publish()
    assert run.is_now(Phase.SUCCEEDED) and not run.state.publications_unconfirmed


def test_changed_code_of_a_sink_that_may_be_published_is_refused_without_the_word() -> None:
    run = maybe_published()
    with pytest.raises(Refused, match="b may be published, and b changed since"):
        run.take_over(fingerprints=CHANGED)


def test_a_published_sink_that_nobody_reads_is_not_made_again() -> None:
    run = half_published(TWO.format(mark="?"), "abc", ("b", "c"))
    run.lose("b", "0-1")
    assert work_left(run.state).steps == {}
    assert run.state.publication is not None
    run.give(st.SinkDone("c", run.state.publication))
    assert run.is_now(Phase.SUCCEEDED)


def test_a_lost_one_is_made_again_where_it_is_to_be_published_again() -> None:
    run = lost_again()
    run.lose("b", "1")
    run.commit("a", "0", digests=b"z")
    run.end_cancelled()
    run.take_over(republish=True)
    run.commit("a", "0", digests=b"z")
    run.end("a")
    run.finish("a", digests=b"y")
    assert run.open()["b"] == "0-1"


def test_new_code_is_not_the_same_even_if_nothing_of_this_generation_was_started() -> None:
    """a was released and has to be made again; before it starts the run gives up, and then the code of a changes."""
    config = replace(AT_ONCE, attempts_per_step_max=1)
    run = Driven(
        TWO.format(mark=""), sinks=("b", "c"), config=config, fingerprints={one: {"code": "1"} for one in "abc"}
    )
    for step in "abc":
        run.finish(step)
    assert run.state.publication is not None
    run.give(st.SinkDone("b", run.state.publication))
    run.lose("c", "0-1")
    assert run.state.steps["a"].generation == 1 and not run.state.steps["a"].started
    assert run.is_now(Phase.FAILED)
    run.take_over(fingerprints={"a": {"code": "2"}, "b": {"code": "1"}, "c": {"code": "1"}})
    run.commit("a", "0-1")
    found = next(event.differs for event in reversed(run.journal) if isinstance(event, RunFailing))
    assert found is not None and found.step == "a" and "b" in found.sinks


@pytest.mark.parametrize("heard", ["b", ""], ids=["one is published", "none is known to be"])
def test_everything_restarts_only_while_nothing_may_be_published(heard: str) -> None:
    run = Driven(
        TWO.format(mark="?"), sinks=("b", "c"), config=MasterConfig(strategy=Strategy.FULL, backoff=AT_ONCE.backoff)
    )
    for step in "abc":
        run.finish(step)
    fence = run.state.publication
    assert fence is not None
    for sink in heard:
        run.give(st.SinkDone(sink, fence))
    run.give(st.SinkFailed(Failure("c", EMPTY, Cause(FailureKind.TIMED_OUT), "slow"), fence))
    assert not any(isinstance(event, GenerationOpened) for event in run.journal)
    assert run.state.publication is not None and run.state.publication > fence, "only publishing is tried again"


CHANGED = {"a": {"code": "1"}, "b": {"code": "2"}, "c": {"code": "1"}}


def test_changed_code_of_a_published_sink_is_refused_without_the_word() -> None:
    run = half_published(TWO.format(mark=""), "abc", ("b", "c"))
    with pytest.raises(
        Refused, match=r"b is published, and b changed since\n.*republish=True.*accept_change=\[\'b\'\]"
    ):
        run.take_over(fingerprints=CHANGED)
    run.take_over(fingerprints=CHANGED, accepted=frozenset("b"))
    assert set(run.state.published) == {"b"}


def test_changed_code_of_a_published_sink_is_published_again_on_the_users_word() -> None:
    run = half_published(TWO.format(mark=""), "abc", ("b", "c"))
    run.take_over(fingerprints=CHANGED, republish=True)
    assert RepublishAccepted(("b",), "you", run.now) in run.last
    assert next(event.step for event in run.last if isinstance(event, GenerationOpened)) == "b"


def test_the_word_means_nothing_where_nothing_is_published() -> None:
    run = Driven(TWO.format(mark="?"), sinks=("b", "c"))
    run.finish("a")
    run.take_over(republish=True)
    assert not any(isinstance(event, RepublishAccepted) for event in run.journal)


def test_what_is_written_once_is_never_published_again_with_others() -> None:
    """`b` and `c` are made from `a`; `b` goes to a directory that is written once. If `a` comes back different, to
    publish `c` again would leave two versions of `a` at the targets."""
    for once, ends in (((), Phase.RUNNING), (("b",), Phase.FAILING)):
        run = lost_again()
        run.take_over(republish=True, once=once)
        run.seal("a")
        run.commit("a", "0", digests=b"z")
        assert run.state.phase is ends, once


def test_the_word_is_refused_where_it_cannot_be_carried_out() -> None:
    run = half_published(TWO.format(mark="?"), "abc", ("b", "c"))
    changed = dict(run.state.spec.fingerprints) | {"a": {"code": "2"}}
    with pytest.raises(Refused, match="b would have to be published again, but its target can be published only once"):
        run.take_over(fingerprints=changed, republish=True, once=("b",))
    run.take_over(fingerprints=changed, republish=True)
