"""Scenarios F and the takeover part of H: a new master closes what the old one opened, and what new code means."""

from __future__ import annotations

import pytest

from master.driving import Driven, start_of
from rekindle.errors import Refused
from rekindle.errors import RunClosed as RunIsClosed
from rekindle.failover.restart import Strategy
from rekindle.master.decide import decide
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.config import MasterConfig
from rekindle.master.facts.events import (
    ChangeAccepted,
    CodeReplaced,
    EpochOpened,
    GenerationOpened,
    PartitionsCommitted,
    PartitionsLost,
    RunStarted,
)
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import DeclaredStep, Fingerprint, RunSpec
from rekindle.master.state.commands import SealAttempt
from rekindle.master.state.run_state import Phase
from rekindle.model.ids import AttemptId
from rekindle.model.partitions import EMPTY
from rekindle.remedies import StartRemedy, TextRemedy, new_run

CODE = {"a": {"code": "1"}, "b": {"code": "1"}}


def dropped(run: Driven) -> dict[str, str]:
    return {event.step: str(event.dropped) for event in run.last if isinstance(event, GenerationOpened)}


def adopted(run: Driven) -> str:
    found = [event for event in run.last if isinstance(event, PartitionsCommitted)]
    return str(found[0].partitions) if found else ""


def test_sources_are_kept_and_the_middle_continues_with_its_missing_partitions() -> None:
    run = Driven("a[3] =blocking=> b[3]")
    run.finish("a")
    run.commit("b", "0")
    run.take_over()
    run.seal("b")
    assert run.open() == {"b": "1-2"}


def test_one_committed_file_gone_at_resume_only_its_producer_runs_again() -> None:
    run = Driven("a[3] =blocking=> b[3]")
    run.finish("a")
    run.commit("b", "0")
    run.take_over()
    run.seal("b")
    run.fail("b", "1", lost=None)
    run.lose("a", "1")
    assert run.open()["a"] == "1"


def test_nothing_starts_before_the_old_attempt_is_sealed() -> None:
    run = Driven("a[2]")
    old = run.attempt("a")
    run.take_over()
    assert run.out == [SealAttempt(old)]
    assert run.give(st.Tick()) == ()
    assert run.give(st.CommitsSeen(attempt=old, partitions=run.state.attempts[old].partitions)) == ()


ADOPTION = [
    ("a narrow group: any mix of attempts is a possible outcome", "a[2]! =blocking=> b[2]!", None, "0"),
    ("a determinate exchange", "a[2]! =blocking all.=> b[2]!", None, "0"),
    ("an exchange nobody can vouch for", "a[2]! =blocking all?=> b[2]!", None, ""),
    ("the engine can say that no exchange was made again", "a[2]! =blocking all?=> b[2]!", 0, "0"),
    ("a cached result died with its application", "a[2] =blocking=> b[2]:caching", None, ""),
]


@pytest.mark.parametrize(("drawing", "version", "wanted"), [row[1:] for row in ADOPTION], ids=[r[0] for r in ADOPTION])
def test_adoption(drawing: str, version: int | None, wanted: str) -> None:
    run = Driven(drawing)
    run.finish("a")
    run.take_over()
    run.seal("b", "0", version)
    assert adopted(run) == wanted


def test_what_does_not_survive_the_application_is_lost_as_a_fact() -> None:
    run = Driven("a[2] =memory=> b[2]")
    run.finish("a")
    run.take_over()
    assert [(e.step, str(e.partitions)) for e in run.last if isinstance(e, PartitionsLost)] == [("a", "0-1")]


def test_a_takeover_in_the_same_application_keeps_what_lives_there() -> None:
    run = Driven("a[2] =memory=> b[2]")
    run.finish("a")
    run.give(st.TakeOver(application="app1", owner="me again", spec=RunSpec(graph=GraphSpec.of(run.graph))))
    assert not [event for event in run.last if isinstance(event, PartitionsLost)]


def test_changed_code_opens_a_new_generation_and_upstream_is_reused() -> None:
    run = Driven("a[2] =blocking=> b[2]", fingerprints=CODE)
    run.finish("a")
    run.commit("b", "0")
    run.take_over(fingerprints=CODE | {"b": {"code": "2"}})
    assert [event.parts for event in run.last if isinstance(event, CodeReplaced)] == [("code",)]
    assert dropped(run) == {"b": "0-1"}
    run.seal("b", "0-1")
    assert adopted(run) == ""
    assert run.open() == {"b": "0-1"}


def test_changed_code_upstream_restarts_readers_only_if_its_result_differs() -> None:
    for digest, wanted in ((b"xy", {}), (b"xz", {"b": "1"})):
        run = Driven("a[2] =blocking=> b[2]", fingerprints=CODE, sinks=("b",))
        run.finish("a", digests=b"xy")
        run.commit("b", "0-1", digests=b"pq")
        run.take_over(fingerprints=CODE | {"a": {"code": "2"}})
        run.seal("b", "")
        run.finish("a", digests=digest)
        assert run.open() == wanted


def test_a_change_is_accepted_on_the_users_word() -> None:
    run = Driven("a[2] =blocking=> b[2]", fingerprints=CODE)
    run.finish("a")
    run.commit("b", "0")
    run.take_over(fingerprints=CODE | {"b": {"code": "2", "helper": "9"}}, accepted=frozenset({"b"}))
    assert [event.parts for event in run.last if isinstance(event, ChangeAccepted)] == [("code", "helper")]
    assert dropped(run) == {}
    run.seal("b")
    assert run.open() == {"b": "1"}


def test_changed_code_of_a_fused_step_restarts_its_group() -> None:
    run = Driven("a[2] ~> b[2]", fingerprints=CODE)
    run.commit("b", "0")
    run.take_over(fingerprints=CODE | {"a": {"code": "2"}})
    assert dropped(run) == {"b": "0-1"}


def test_changed_code_of_a_step_that_never_ran_is_only_noted() -> None:
    run = Driven("a[2] =blocking=> b[2]", fingerprints=CODE)
    run.take_over(fingerprints=CODE | {"b": {"code": "2"}})
    assert dropped(run) == {}
    assert run.state.spec.fingerprints["b"] == {"code": "2"}


def test_a_changed_input_is_refused_unless_the_step_is_named() -> None:
    files = {"a": {"input": "1"}}
    run = Driven("a[2]", fingerprints=files)
    run.commit("a", "0")
    with pytest.raises(Refused, match="the input of a changed") as refused:
        run.take_over(fingerprints={"a": {"input": "2"}})
    assert refused.value.remedies == (
        StartRemedy(to="keep what was read", accept_change=("a",)),
        StartRemedy(to="or read it again", replace=("a",)),
    )
    run.take_over(fingerprints={"a": {"input": "2"}}, replaced=frozenset({"a"}))
    assert dropped(run) == {"a": "0-1"}


EARLIER = {"a.code": "1", "a.constant:RATE": "2"}
NAMED = EARLIER | {"identity": "2"}
FINGERPRINTS = [
    ("what an earlier release did not name is not compared", EARLIER, NAMED | {"a.udf:f": "9", "seeds": "3"}, ()),
    ("what it did name is", EARLIER, NAMED | {"a.code": "5", "a.udf:f": "9"}, ("a.code",)),
    ("of whatever kind", EARLIER | {"a.udf:f": "9"}, NAMED | {"a.udf:f": "8"}, ("a.udf:f",)),
    ("so is what it named, and is gone", EARLIER, {"a.code": "1", "identity": "2"}, ("a.constant:RATE",)),
    ("a new part of a kind that it named", EARLIER, NAMED | {"a.constant:MAX": "7"}, ("a.constant:MAX",)),
    ("a setting has no kind, whatever it is called", EARLIER, NAMED | {"spark.names": "x"}, ("spark.names",)),
    ("a run of this release compares all", NAMED, NAMED | {"a.udf:f": "9", "seeds": "3"}, ("a.udf:f", "seeds")),
    ("which release named it is no change", NAMED, EARLIER | {"identity": "3"}, ()),
]


@pytest.mark.parametrize(("old", "new", "parts"), [row[1:] for row in FINGERPRINTS], ids=[r[0] for r in FINGERPRINTS])
def test_which_parts_of_a_step_count_as_changed(old: Fingerprint, new: Fingerprint, parts: tuple[str, ...]) -> None:
    run = Driven("a[2] =blocking=> b[2]", fingerprints={"a": old})
    run.finish("a")
    run.take_over(fingerprints={"a": new})
    assert [event for event in run.last if isinstance(event, CodeReplaced)] == (
        [CodeReplaced("a", parts, new)] if parts else []
    )
    assert dropped(run) == ({"a": "0-1"} if parts else {})
    assert run.state.spec.fingerprints == {"a": new if parts else old}


DIFFERENCES = [
    ("a[2] =blocking=> b[2]\nc[1]", "step c is new"),
    ("a[2]", "step b is gone"),
    ("a[3] =blocking=> b[3]", "step a had 2 partitions and now has 3"),
    ("a[2] =caching=> b[2]", "the result of a was blocking and is now caching"),
    ("a[2] =blocking all=> b[2]", "b reads a"),
]


@pytest.mark.parametrize(("drawing", "sentence"), DIFFERENCES, ids=[row[1] for row in DIFFERENCES])
def test_another_graph_is_refused_with_the_difference_named(drawing: str, sentence: str) -> None:
    run = Driven("a[2] =blocking=> b[2]")
    with pytest.raises(Refused, match=sentence) as refused:
        run.take_over(drawing=drawing)
    assert refused.value.remedies == (TextRemedy("restore the graph"), new_run("or start a new run"))


EVENTS = {"events": {"id": "bigint", "customer": "string", "old": "int"}, "only before": {"a": "int"}}
CHANGED = {"events": {"id": "bigint", "customer": "bigint", "new": "int"}, "only now": {"a": "int"}}
SENTENCES = "events.customer: bigint, was string; events.new: int is new; events.old is gone"


def test_columns_that_changed_the_graph_are_named_first() -> None:
    """Nobody changed a graph who changed a column: how rows are partitioned follows from its type."""
    run = Driven("a[2] =blocking=> b[2]", columns=EVENTS)
    with pytest.raises(Refused, match=f"columns changed since run run started: {SENTENCES}. With them") as refused:
        run.take_over(drawing="a[2] =blocking all=> b[2]", columns=CHANGED)
    assert refused.value.remedies == (TextRemedy("restore the columns"), new_run("or start a new run"))


def test_columns_of_an_input_that_changed_are_named() -> None:
    run = Driven("a[2]", fingerprints={"a": {"input": "1"}}, columns=EVENTS)
    with pytest.raises(Refused, match=f"the input of a changed since run run started: {SENTENCES}"):
        run.take_over(fingerprints={"a": {"input": "2"}}, columns=CHANGED)
    with pytest.raises(Refused, match="the input of a changed since run run started\n"):
        run.take_over(fingerprints={"a": {"input": "2"}}, columns=EVENTS)


def test_a_graph_that_is_only_judged_differently_is_taken() -> None:
    run = Driven("a[2] =blocking all.=> b[2]")
    run.finish("a")
    run.commit("b", "0")
    run.take_over(drawing="a[2]? =blocking all?=> b[2]?")
    opened = next(event for event in run.last if isinstance(event, EpochOpened))
    assert opened.graph is not None
    run.seal("b")
    assert run.open() == {"b": "0-1"}


def test_the_sink_must_be_a_kept_step() -> None:
    with pytest.raises(Refused, match="not a kept step"):
        Driven("a[1] ~> b[1]", sinks=("a",))


def test_a_strategy_that_would_be_wrong_is_refused_at_the_start() -> None:
    with pytest.raises(Refused, match="individual"):
        Driven("a[1] ~> b[1]", config=MasterConfig(strategy=Strategy.INDIVIDUAL))


def test_a_closed_or_closing_run_is_refused() -> None:
    run = Driven("a[1]")
    run.give(st.CloseRun("gc", "gc"))
    assert run.is_now(Phase.CLOSING)
    with pytest.raises(RunIsClosed, match="being closed") as closing:
        run.take_over()
    assert closing.value.remedies == (new_run(),)
    run.seal("a", "0")
    run.give(st.DeletionDone(AttemptId("a", 0, 1, 1)))  # type: ignore[arg-type]
    assert run.is_now(Phase.CLOSED)
    with pytest.raises(RunIsClosed, match="is closed") as closed:
        run.take_over()
    assert closed.value.remedies == (new_run(),)
    with pytest.raises(RunIsClosed):
        run.give(st.CloseRun("gc", "gc"))


def test_a_finished_run_that_is_opened_again_only_cleans_up() -> None:
    run = Driven("a[1]", sinks=("a",), fingerprints={"a": {"code": "1"}})
    run.finish("a")
    run.publish()
    run.take_over(fingerprints={"a": {"code": "2"}})
    assert run.is_now(Phase.SUCCEEDED)
    assert [type(event) for event in run.last] == [EpochOpened]


def test_nothing_reaches_a_run_that_never_started() -> None:
    with pytest.raises(AssertionError, match=r"^nothing can reach a run that never started$"):
        decide(None, st.Tick(), 0)


def test_a_run_starts_once() -> None:
    run = Driven("a[1]")
    again = start_of("a[1]")
    with pytest.raises(AssertionError, match=r"^a run starts once$"):
        decide(run.state, again, 0)


def test_a_step_whose_code_is_not_told_is_taken_as_it_was() -> None:
    run = Driven("a[2] =blocking=> b[2]", fingerprints=CODE)
    run.finish("a")
    run.take_over(fingerprints={"b": {"code": "1"}})
    assert [type(event) for event in run.last] == [EpochOpened]
    assert run.state.spec.fingerprints == CODE


def test_the_graph_is_journaled_again_only_where_it_differs() -> None:
    run = Driven("a[2]")
    run.take_over()
    (opened,) = run.last
    assert isinstance(opened, EpochOpened) and opened.graph is None


def test_settings_of_the_start_are_in_the_first_event() -> None:
    start = start_of("a[1]", settings={"timezone": "UTC"})
    first = decide(None, start, 0)[0]
    assert isinstance(first, RunStarted) and first.settings == {"timezone": "UTC"}


def test_nothing_of_a_step_starts_while_an_attempt_at_other_partitions_of_it_is_sealed() -> None:
    run = Driven("a[3]")
    run.commit("a", "2")
    run.take_over()
    run.lose("a", "2")
    assert run.open() == {"a": "0-1"}
    run.seal("a")
    assert run.open() == {"a": "0-2"}


def test_new_code_opens_a_generation_without_proof_and_on_the_same_exchange() -> None:
    run = Driven("a[2] =blocking=> b[2]", fingerprints=CODE)
    run.finish("a")
    run.commit("b", "0-1", version=0)
    run.take_over(fingerprints=CODE | {"b": {"code": "2"}})
    opened = next(event for event in run.last if isinstance(event, GenerationOpened))
    assert (opened.carried, opened.proof, opened.exchange_version) == (EMPTY, None, 0)


def test_what_is_pipelined_into_a_step_is_what_the_newest_driver_said() -> None:
    """Of a run that an earlier release started nothing of it is known; then it is, and only a change is a fact."""
    run = Driven("b[2]")
    source, clean, kept = (
        DeclaredStep(name=name, role=role) for name, role in (("s", "source"), ("a", "step"), ("b", "step"))
    )

    def resumed(*declared: DeclaredStep) -> EpochOpened:
        regions = {"b": tuple(one.name for one in declared)}
        spec = RunSpec(graph=GraphSpec.of(run.graph), declared=declared, regions=regions)
        run.give(st.TakeOver(application="other", owner="you", spec=spec))
        assert (run.state.spec.declared, run.state.spec.regions) == (declared, regions)
        return next(event for event in run.last if isinstance(event, EpochOpened))

    assert run.state.spec.regions == {}
    assert resumed(source, clean, kept).regions == {"b": ("s", "a", "b")}
    assert (resumed(source, clean, kept).declared, resumed(source, clean, kept).regions) == (None, None)
    assert resumed(source, kept).declared == (source, kept)


def test_settings_of_a_run_change_only_where_its_sources_read_other_versions() -> None:
    run = Driven("a[1] =blocking=> b[1]")
    spec = RunSpec(graph=GraphSpec.of(run.graph))
    run.give(st.TakeOver(application="other", owner="you", spec=spec, settings={"version": "2"}))
    assert run.state.settings == {"version": "2"}
    run.give(st.TakeOver(application="third", owner="you", spec=spec))
    assert run.state.settings == {"version": "2"}
