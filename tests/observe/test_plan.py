"""The plan against the master that it was read off: what is planned is what runs, vertex by vertex."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec import structs

from master.driving import AT_ONCE, Driven
from rekindle.master.dispatch import commands
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.events import AttemptOpened
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.state import commands as cmd
from rekindle.master.state.run_state import AttemptState, AttemptStatus, Phase
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.ids import AttemptId
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.observe import plan_ahead
from rekindle.observe.plan import Action, Plan, Start
from rekindle.observe.plan_ahead import Look, play
from rekindle.observe.plan_make import PlanInputs, done_plan, plan_of
from rekindle.observe.plan_times import StepRate

SHOP = """
    orders[4]@run_end =blocking=> clean[4]@run_end =blocking all=> daily[3]
"""


def nothing_left(attempt: AttemptId) -> st.AttemptSealed:
    return st.AttemptSealed(attempt=attempt)


def planned(
    run: Driven, told: PlanInputs | None = None, look: Look = nothing_left, **changes: Mapping[str, str]
) -> Plan:
    """What a new driver would do now. `changes` are new fingerprints of steps."""
    fingerprints = {**run.state.spec.fingerprints, **{name: dict(new) for name, new in changes.items()}}
    first = st.TakeOver(
        application="new", owner="me", spec=RunSpec(graph=GraphSpec.of(run.graph), fingerprints=fingerprints)
    )
    return plan_of(run.state, play(run.state, first, run.now, look), told or PlanInputs())


def shown(plan: Plan) -> str:
    return " ".join(f"{step}:{at}" for step, at in plan.computed().items())


def begun(drawing: str = SHOP, sinks: tuple[str, ...] = ()) -> Driven:
    return Driven(drawing, sinks=sinks)


def test_a_new_run_computes_everything() -> None:
    run = begun()
    first = st.StartRun(
        run="run",
        pipeline="daily",
        order=1,
        spec=RunSpec(graph=GraphSpec.of(run.graph), sinks=("daily",)),
        config=run.state.config,
        run_time_ms=0,
        seed=0,
        application="app",
        owner="me",
    )
    plan = plan_of(None, play(None, first, 0, nothing_left), PlanInputs())
    assert (plan.start, plan.vertices, plan.total, plan.has_work) == (Start.NEW, 11, 11, True)
    assert plan.publishes == ("daily",) and plan.run == ""
    assert [stage.reason for stage in plan.stages] == ["not yet run"] * 3
    assert "No committed result is deleted" in str(plan)


def test_what_is_committed_is_reused_and_what_failed_is_named() -> None:
    run = begun()
    run.finish("orders")
    run.commit("clean", "0-2")
    run.fail("clean", "3")
    plan = planned(run)
    assert shown(plan) == "clean:3 daily:0-2"
    orders, clean, daily = plan.stages
    assert (orders.action, orders.numbers, orders.reason) == (Action.REUSE, "4/4", "unchanged")
    assert (clean.numbers, clean.reason, str(clean.kept)) == ("1/4", "3: failed", "0-2")
    assert daily.reason == "not yet run"
    assert plan.headline.startswith("resume of run run")


def test_a_run_that_gave_up_still_tells_what_failed() -> None:
    run = begun()
    run.finish("orders")
    run.commit("clean", "0-2")
    for _ in range(3):
        run.fail("clean", "3")
        run.give(st.Tick())
    assert run.is_now(Phase.FAILED)
    plan = planned(run)
    assert plan.stages[1].reason == "3: failed"
    assert "failed 3 times in the same way" in plan.before


def test_a_changed_step_starts_over_and_the_plan_says_what_is_deleted() -> None:
    run = Driven(SHOP, fingerprints={"clean": {"clean.code": "#1"}})
    run.finish("orders")
    run.finish("clean")
    told = PlanInputs(changes={"clean": ["the code of clean changed"]})
    plan = planned(run, told, clean={"clean.code": "#2"})
    assert shown(plan) == "clean:0-3 daily:0-2"
    assert plan.stages[1].reason == "the code of clean changed · its code changed"
    gone = [(one.step, str(one.partitions)) for one in plan.deletions if not one.is_after]
    assert gone == [("clean", "0-3"), ("daily", "")], "of daily only what its dead driver left unfinished"
    assert "Deleted after being replaced: 4 partitions of clean." in str(plan)


def test_what_a_dead_driver_finished_unrecorded_is_looked_at() -> None:
    run = begun()
    run.finish("orders")
    run.commit("clean", "0")

    def look(attempt: AttemptId) -> st.AttemptSealed:
        return st.AttemptSealed(attempt=attempt, partitions=Partitions.parse("0-2"), manifest=b"files")

    plan = planned(run, look=look)
    assert shown(plan) == "clean:3 daily:0-2"
    assert str(plan.stages[1].kept) == "0-2"
    assert plan.uncertain == (
        "clean: adopts 2 partitions that the previous driver finished, "
        "and up to 1 more if its Spark tasks still write.",
    )


def test_files_that_are_gone_are_made_again_with_those_that_must_read_them() -> None:
    run = begun("orders[4]@run_end =blocking=> clean[4] =blocking all=> daily[3]")
    run.finish("orders")
    run.commit("clean", "0-2")
    first = st.TakeOver(application="new", owner="me", spec=RunSpec(graph=GraphSpec.of(run.graph)))
    lost = {"orders": Partitions.parse("1,3"), "clean": Partitions.parse("2")}
    plan = plan_of(run.state, play(run.state, first, run.now, nothing_left, lost), PlanInputs())
    assert shown(plan) == "orders:3 clean:2-3 daily:0-2"
    assert str(plan.stages[0].kept) == "0,2", "1 is lost, and nobody needs it"
    assert plan.stages[0].reason == "3: needed by clean and not available"
    assert "2: needed by daily and not available" in plan.stages[1].reason


def test_a_lost_file_that_nobody_reads_is_never_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run does not look for it. If it did, the result would start over with whoever read it: it is not determinate,
    and another application makes its exchange again."""
    drawing = "a[3]?@run_end@constants@unordered =blocking=> b[3]@run_end =blocking all=> c[2]"
    run = Driven(drawing, config=structs.replace(AT_ONCE, poison_tries_max=1))
    run.commit("a", "0-1", checksum="same")
    run.fail("a", "2")
    run.finish("b")
    assert run.is_now(Phase.FAILED) and str(run.state.steps["b"].committed) == "0-1", "beside poison"
    first = st.TakeOver(application="new", owner="me", spec=RunSpec(graph=GraphSpec.of(run.graph)))

    def computed() -> str:
        lost = {"a": Partitions.parse("1")}
        return shown(plan_of(run.state, play(run.state, first, run.now, nothing_left, lost), PlanInputs()))

    assert computed() == "a:2 b:2 c:0-1"
    monkeypatch.setattr(plan_ahead, "_read", lambda walked: walked.end.layout.graph.whole)
    assert computed() == "a:1-2 b:1-2 c:0-1"


def test_a_fused_step_says_into_what_and_how_often() -> None:
    run = begun("a[2] ~> b[2] =blocking=> d[2]\n a ~> c[2]")
    plan = planned(run)
    assert plan.stages[0].action is Action.FUSED
    assert plan.stages[0].reason == "pipelined into b and c, computed 2 times"
    run.finish("b")
    run.finish("c")
    assert planned(run).stages[0].reason == "pipelined into b and c, which is reused"


def test_declared_steps_that_are_not_in_the_graph_have_a_stage() -> None:
    run = begun("counted[2]")
    told = PlanInputs(
        order=("orders", "clean", "counted", "daily", "spare"),
        members={"counted": ("orders", "clean", "counted")},
        published={"daily": "counted"},
        notes={"spare": "left out: nothing reads it"},
    )
    stages = planned(run, told).stages
    assert [stage.action.value for stage in stages] == ["fused", "fused", "compute", "publish", "left out"]
    assert [stages[3].reason, stages[4].reason] == ["publishes counted", "left out: nothing reads it"]


@pytest.mark.parametrize(
    ("drawing", "lost"),
    [
        pytest.param("a[4] =blocking all=> b[3]", 0, id="a determinate exchange is made again and carries what counts"),
        pytest.param("a[4] =blocking all!=> b[3]!", 2, id="an indeterminate step starts over in a new driver"),
        pytest.param("a[4]! =blocking=> b[4]!", 0, id="narrow: each partition is a function of committed inputs"),
    ],
)
def test_the_worst_loss_is_what_a_new_driver_would_make_again(drawing: str, lost: int) -> None:
    loss = planned(begun(drawing)).loss
    assert loss is not None and len(loss) == lost
    assert ("at the end of b), 2 partitions of b are recomputed" in str(loss)) == bool(lost)


def test_times_come_from_paces_and_unknown_stays_unknown() -> None:
    run = begun()
    run.finish("orders")
    run.commit("clean", "0-2")
    run.end("clean")
    paces = {"orders": StepRate(8_000, 4), "clean": StepRate(120_000, 4), "daily": StepRate(60_000, 3)}
    plan = planned(run, PlanInputs(paces=paces, cores=2))
    assert plan.span is not None
    assert (plan.span.low_ms, plan.span.high_ms) == (120_000, 120_000)
    assert [stage.saved_ms for stage in plan.stages] == [8_000, 90_000, 0]
    assert "3 kept, about 90 s saved" in plan.stages[1].stands.replace("2 min", "90 s")
    assert planned(run, PlanInputs(paces={"clean": StepRate(1, 1)})).span is None
    assert "estimated time ?" in str(planned(run))


def test_spark_tasks_are_counted_where_they_are_known() -> None:
    plan = planned(begun())
    assert plan.tasks is None and "at least 11 Spark tasks" in str(plan)
    told = PlanInputs(tasks=lambda command: len(command.partitions) + (7 if command.attempt.step == "daily" else 0))
    plan = planned(begun(), told)
    assert [stage.tasks for stage in plan.stages] == [4, 4, 10]
    assert "18 Spark tasks" in str(plan)


def test_a_run_that_poison_ends_says_so() -> None:
    run = begun()
    run.finish("orders")
    run.commit("clean", "0-2")
    for _ in range(2):
        run.fail("clean", "3")
        run.give(st.Tick())
    run.fail("clean", "3")
    assert planned(run).ends == "", "a resume tries it again"


def test_a_run_that_must_make_again_what_is_published_says_what_it_hangs_on() -> None:
    run = begun("a[2]?@run_end =blocking=> b[2]@run_end\na =blocking=> c[2]@run_end", ("b", "c"))
    for step in "abc":
        run.finish(step, digests=b"xy")
    assert run.state.publication is not None
    run.give(st.SinkDone("b", run.state.publication))
    run.lose("a", "0")
    run.lose("c", "0")
    plan = planned(run)
    assert shown(plan) == "a:0"
    equal = "a[0] must be recomputed as it was, because b and c may have been read"
    assert plan.ends == f"{equal}, unless you publish again"


def test_done_has_no_work() -> None:
    run = begun("a[2]", sinks=("a",))
    run.finish("a")
    run.publish()
    plan = done_plan(run.state, PlanInputs())
    assert not plan.has_work and plan.headline == "run run of pipeline is done: nothing to do"


def test_json_and_html_tell_the_same() -> None:
    run = begun()
    run.finish("orders")
    plan = planned(run)
    told = json.loads(plan.to_json())
    assert told["vertices"] == plan.vertices == 7
    assert told["stages"][1]["reasons"] == [{"why": "NotYetRun", "text": "not yet run", "partitions": "0-3"}]
    assert told["stages"][0]["kept"] == "0-3"
    html = plan._repr_html_()
    assert html.count("<tr>") == 4 and "not yet run" in html


DRAWINGS = (
    SHOP,
    "a[3] =blocking=> b[3]! =blocking=> c[3] =blocking all=> d[2]",
    "a[4]? =blocking all!=> b[3]? =blocking all=> c[2]@constants",
    "a[2] ~> b[2] =blocking=> c[2]@whole\n x[3]! =blocking all=> c",
    "a[3]! =caching=> b[3] =blocking=> c[3]\n a =caching all=> d[2]",
    "a[4]* =blocking interval=> b[2]! =blocking broadcast=> c[4]",
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(some.sampled_from(DRAWINGS), some.integers(0, 10**6), some.integers(0, 25))
def test_the_plan_is_what_then_runs(drawing: str, seed: int, moves: int) -> None:
    """A run goes on at random, with failures and losses, and its driver dies. The plan made then is what the next
    driver computes, in whatever order and pieces the engine works."""
    chance = Random(seed)
    run = begun(drawing)
    for _ in range(moves):
        _any_move(run, chance)
    if run.state.phase is Phase.SUCCEEDED:
        return
    left = {one.attempt: Partitions(p for p in one.partitions if chance.random() < 0.3) for one in _open(run)}
    plan = planned(
        run,
        look=lambda attempt: st.AttemptSealed(attempt=attempt, partitions=left.get(attempt, EMPTY), manifest=b"files"),
    )
    before = len(run.journal)
    run.take_over()
    _to_the_end(run, chance, left)
    ran: dict[str, Partitions] = {}
    for event in run.journal[before:]:
        if isinstance(event, AttemptOpened):
            ran[event.attempt.step] = ran.get(event.attempt.step, EMPTY) | event.partitions
    assert plan.ends == "" and run.is_now(Phase.SUCCEEDED)
    assert plan.computed() == {name: ran[name] for name in run.graph.steps if name in ran}


def _open(run: Driven) -> list[AttemptState]:
    return list(run.state.attempts.values())


def _any_move(run: Driven, chance: Random) -> None:
    attempts = [one for one in _open(run) if one.status is AttemptStatus.RUNNING]
    if not attempts:
        run.give(st.Tick(), after_ms=400_000)
        return
    one = chance.choice(attempts)
    some_of = Partitions(p for p in one.partitions if chance.random() < 0.6)
    step, roll = one.attempt.step, chance.random()
    if roll < 0.6 and some_of:
        run.commit(step, str(some_of), attempt=one.attempt)
    elif roll < 0.75 and one.partitions:
        failed = Partitions((one.partitions.lowest,))
        run.give(
            st.AttemptEnded(
                attempt=one.attempt, failures=(Failure(step, failed, Cause(FailureKind.EXECUTOR_LOST), "gone"),)
            )
        )
    elif roll < 0.85 and run.state.steps[step].committed:
        run.lose(step, str(run.state.steps[step].committed.lowest))
    else:
        run.give(
            st.CommitsSeen(
                attempt=one.attempt,
                partitions=one.partitions,
                manifest=b"files",
                digests=None,
                exchange_version=run.state.steps[step].exchange_version,
            )
        )
        run.give(st.AttemptEnded(attempt=one.attempt))


def _to_the_end(run: Driven, chance: Random, left: Mapping[AttemptId, Partitions]) -> None:
    sent: set[cmd.Key] = set()
    running: dict[AttemptId, cmd.StartAttempt] = {}
    while run.state.phase is Phase.RUNNING:
        fresh = [one for one in commands(run.state, sent) if not isinstance(one, cmd.Stop)]
        sent.update(one.key for one in fresh)
        for one in fresh:
            match one:
                case cmd.StartAttempt():
                    running[one.attempt] = one
                case cmd.SealAttempt(attempt):
                    run.give(st.AttemptSealed(attempt=attempt, partitions=left.get(attempt, EMPTY), manifest=b"files"))
                case cmd.CancelAttempt(attempt):
                    running.pop(attempt, None)
                    run.give(st.AttemptEnded(attempt=attempt, was_cancelled=True))
                case cmd.WakeAt():
                    run.give(st.Tick(), after_ms=400_000)
                case cmd.PublishSink(sink, fence):
                    run.give(st.SinkDone(sink, fence))
                case cmd.DeleteAttempt(attempt):
                    run.give(st.DeletionDone(attempt))
        if not running:
            continue
        attempt = chance.choice(list(running))
        command, state = running[attempt], run.state.attempts.get(attempt)
        if state is None or not state.partitions:
            del running[attempt]
            run.give(st.AttemptEnded(attempt=attempt))
            continue
        piece = Partitions(p for p in state.partitions if chance.random() < 0.5) or state.partitions
        run.give(
            st.CommitsSeen(
                attempt=attempt,
                partitions=piece,
                manifest=b"files",
                digests=None,
                exchange_version=command.exchange_version,
                exchange_checksum=command.exchange_checksum,
            )
        )
