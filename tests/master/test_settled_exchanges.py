"""An exchange that is made again under a sink that is published: the sink could only start over, as something else."""

from __future__ import annotations

from master.driving import Driven
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.events import Differs, GenerationOpened, RepublishAccepted, RunFailing, RunStopped
from rekindle.master.state.run_state import Phase
from rekindle.model.ids import ExchangeId
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.reasons import ExchangeChanged

BOTH = Partitions.first(2)
AGAIN = "recomputing it gives other rows: digest unknown, published unknown"


def published(checksum: str | None = None) -> Driven:
    """`a` is published, and `b`, which reads it, may be. Nobody vouches for the exchange under `a`; a checksum of it
    lets the engine tell whether it came back as it was."""
    run = Driven("s[2]?@unordered ~all~> a[2]?@unordered@run_end =blocking=> b[2]@run_end", sinks=("a", "b"))
    run.commit("a", "0-1", digests=b"xy", checksum=checksum)
    run.end("a")
    run.finish("b")
    assert run.state.publication is not None
    run.give(st.SinkDone("a", run.state.publication))
    return run


def lose(run: Driven) -> None:
    """One partition of `a` is gone, and so is what was made from it: both are needed to publish `b`."""
    run.lose("a", "0")
    run.lose("b", "0")


def stopped(run: Driven) -> RunFailing:
    return RunFailing(
        f"a[0-1] is published, and {AGAIN}", (), True, run.now, Differs(step="a", partitions=BOTH, sinks=("a",))
    )


def generations(run: Driven) -> list[GenerationOpened]:
    return [event for event in run.journal if isinstance(event, GenerationOpened)]


def test_a_sink_that_could_only_start_over_stops_the_run() -> None:
    run = published()
    run.take_over()
    lose(run)
    assert run.last[1:] == (stopped(run), RunStopped(run.now))
    assert not generations(run) and set(run.state.published) == {"a"}


def test_on_the_users_word_it_starts_over() -> None:
    run = published()
    run.take_over(republish=True)
    lose(run)
    assert run.last[1] == RepublishAccepted(("a",), "you", run.now)
    [opened] = generations(run)
    assert (opened.step, opened.dropped, opened.carried, opened.proof) == ("a", BOTH, EMPTY, None)
    assert run.is_now(Phase.RUNNING) and not run.state.published and run.open() == {"a": "0-1"}


def test_an_exchange_that_comes_back_as_something_else_stops_the_run_and_nothing_over_it_counts() -> None:
    run = published(checksum="same")
    run.take_over()
    lose(run)
    assert run.open() == {"a": "0"}, "the exchange may come back as it was"
    run.commit("a", "0", version=1)
    assert run.last == (stopped(run),)
    assert str(run.state.steps["a"].committed) == "1" and not generations(run)
    assert set(run.state.published) == {"a"}


def test_an_exchange_that_comes_back_as_it_was_lets_the_run_go_on() -> None:
    run = published(checksum="same")
    run.take_over()
    lose(run)
    run.finish("a", digests=b"x")
    assert run.open() == {"b": "0"} and set(run.state.published) == {"a"} and not generations(run)


def test_on_the_users_word_the_sink_starts_over_with_the_other_exchange() -> None:
    run = published(checksum="same")
    run.take_over(republish=True)
    lose(run)
    run.commit("a", "0", version=1)
    assert run.last[0] == RepublishAccepted(("a",), "you", run.now)
    [opened] = generations(run)
    assert (opened.step, opened.dropped, opened.carried, opened.exchange_version) == ("a", BOTH, EMPTY, 1)
    assert opened.because == ((ExchangeChanged(ExchangeId("a", "s")), BOTH),)
    assert run.is_now(Phase.RUNNING) and not run.state.published
