"""The faults. Each is given to every strategy: what the plan says is what Spark ran, and the rows are those of bare
Spark. A case returns its figures, or raises what was different from what it must be."""

from __future__ import annotations

from collections.abc import Callable

from cluster_test.cases import ONE_FAILURE, POISONED, strategies
from cluster_test.damage import damage
from cluster_test.driver import Answer, Order
from cluster_test.play import Figures, Session, Stage, again, bare, finals, finished, run_of, section, shown, whole
from rekindle.failover.restart import Strategy
from rekindle.model.partitions import EMPTY
from stage import same
from support.signals import kill

STRATEGIES = tuple(one.value for one in Strategy)
LOST = 11
# Of the journal: when this one is stored there are committed partitions of several steps, and others are running.
APPEND = 25


def poison(stage: Stage) -> Figures:
    """The run ends with a partition that always fails. Its cause is mended, and the run resumed."""
    return _stopped(stage, lambda run: None)


def lost_file(stage: Stage) -> Figures:
    """The same, and two files are gone by then: one that its readers still need, and one that they have read."""

    def happen(run: str) -> None:
        damage(stage, run, "enriched", {"missing": LOST})
        damage(stage, run, "scored", {"missing": LOST + 1})

    return _stopped(stage, happen)


def _stopped(stage: Stage, happen: Callable[[str], None]) -> Figures:
    session = stage.session("stopped").start(ONE_FAILURE)
    stage.cure()
    plain, figures = bare(stage, session), Figures()
    stage.uncure()
    for strategy in STRATEGIES:
        answer = session.do(Order(_order(stage, strategy), tries=2))
        assert answer.phase == "RunFailed" and POISONED in answer.error, answer
    done = {strategy: finished(session, _order(stage, strategy)) for strategy in STRATEGIES}
    for strategy in STRATEGIES:
        happen(run_of(section(session.driver.text(), _order(stage, strategy))))
    session.end()
    stage.cure()
    second = stage.session("mended").start(ONE_FAILURE)
    for strategy in STRATEGIES:
        answer = second.do(Order(_order(stage, strategy), strategy=strategy))
        same(f"{strategy}: output", (answer.phase, answer.digests), ("succeeded", plain))
        figures |= _as_planned(second, strategy, answer)
        if strategy == Strategy.FULL.value:
            ran = shown(finals(second, _order(stage, strategy)))
            same("full: all that started", {step: ran.get(step) for step in done[strategy]}, whole(*done[strategy]))
    second.end()
    return figures


def driver(stage: Stage) -> Figures:
    """kill -9 of the driver behind the same append of its journal; another one goes on."""
    stage.cure()
    figures = Figures()
    second = stage.session("second").start()
    plain = bare(stage, second)
    for strategy in STRATEGIES:
        first = stage.session(strategy).start()
        first.wait_for("\nready")
        first.ask(Order(_order(stage, strategy), strategy=strategy, die_at=APPEND, dies_after=True))
        first.wait()
        answer = second.do(Order(_order(stage, strategy), strategy=strategy, stale_seconds=8))
        same(f"{strategy}: output", (answer.phase, answer.digests), ("succeeded", plain))
        figures |= _as_planned(second, strategy, answer)
        done = finished(first, _order(stage, strategy))
        repeated = sum(len(finals(second, _order(stage, strategy)).get(step, EMPTY) & at) for step, at in done.items())
        figures[f"{strategy}_again"] = repeated
    second.end()
    return figures


def executor(stage: Stage) -> Figures:
    """kill -9 of an executor. Spark starts another one and tries its tasks again: no vertex failed, so nothing that
    was finished runs again, whatever the strategy."""
    stage.cure()
    session = stage.session("executor").start({"spark.task.maxFailures": "4"})
    plain, figures = bare(stage, session), Figures()
    for strategy in STRATEGIES:
        number = session.ask(Order(_order(stage, strategy), strategy=strategy))
        before = session.driver.text().count("\ncommitted scored")
        session.wait_for("\ncommitted scored", count=before + 1)
        kill(stage.cluster.executors()[0])
        answer = session.answer(number)
        same(f"{strategy}: output", (answer.phase, answer.digests), ("succeeded", plain))
        same(f"{strategy}: finished partitions run again", again(session, _order(stage, strategy)), {})
        figures[f"{strategy}_s"] = round(answer.seconds, 1)
    session.end()
    return figures


def _order(stage: Stage, strategy: str) -> str:
    """Cases share the location of the runs."""
    return f"{stage.folder.name}-{strategy}"


def _as_planned(session: Session, strategy: str, answer: Answer) -> Figures:
    """What the plan said before the run went on is what Spark ran."""
    ran = finals(session, answer.name)
    same(f"{strategy}: planned and run", answer.planned, shown(ran))
    return {f"{strategy}_vertices": sum(map(len, ran.values())), f"{strategy}_s": round(answer.seconds, 1)}


CASES: dict[str, Callable[[Stage], Figures]] = {
    "task-failure": strategies,
    "poison": poison,
    "lost-file": lost_file,
    "driver": driver,
    "executor": executor,
}
