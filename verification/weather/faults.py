"""The faults of a batch in one weather: four drivers, one after the other, on one stage.

What is compared is the output of both sinks with that of bare Spark, and which final Spark tasks ran again although
their partition counted, by Spark's event logs. One step has a caching result, which goes with its executors: of that
one, tasks may run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from cluster_test.cases import ONE_FAILURE, POISONED, REPORTED_MS
from cluster_test.driver import Answer, Order
from cluster_test.play import Figures, Ran, Session, Stage, again, bare, finals, finished
from rekindle.model.partitions import EMPTY
from stage import same
from support.drivers import cont_driver, kill_driver, stop_driver
from support.signals import kill
from weather.seen import Seen, seen_in
from weather.weathers import Weather

PARTITIONS = "16"
CACHED = "people"
# Of the answers of a successor, until the frozen one counts as silent.
TRIES = 120


def _session(stage: Stage, name: str, settings: dict[str, str] | None = None) -> Session:
    session = stage.session(name, SHOP_PARTITIONS=PARTITIONS)
    code = session.user_code.read_text()
    head, step, rest = code.partition(f"\ndef {CACHED}(")
    before, blocking, after = head.rpartition('result="blocking"')
    assert step and blocking, f"the shop has no step {CACHED} with a blocking result"
    session.user_code.write_text(f'{before}result="caching"{after}{step}{rest}')
    return session.start(settings)


def _right(what: str, answer: Answer, plain: dict[str, str]) -> None:
    same(f"{what}: phase", (answer.phase, answer.error), ("succeeded", ""))
    same(f"{what}: rows as bare Spark makes them", answer.digests, plain)


def _overlap(done: Ran, ran: Ran) -> int:
    return sum(len(partitions & done.get(step, EMPTY)) for step, partitions in ran.items() if step != CACHED)


def _again(session: Session, order: str) -> dict[str, int]:
    return {step: count for step, count in again(session, order).items() if step != CACHED}


def poison_and_executor(stage: Stage, weather: Weather) -> tuple[Session, dict[str, str], Figures]:
    """A partition that fails, resumed in a new driver; there an executor is killed. The driver that is left."""
    first = _session(stage, "poison", ONE_FAILURE)
    stage.cure()
    plain = bare(stage, first)
    stage.uncure()
    answer = first.do(Order("poison", tries=2))
    same("poison: the run stops", (answer.phase, POISONED in answer.error), ("RunFailed", True))
    stood = finished(first, "poison")
    first.end()
    stage.cure()
    second = _session(stage, "executor")
    _right("poison, resumed", second.do(Order("poison")), plain)
    same("poison: kept partitions computed again", _overlap(stood, finals(second, "poison")), 0)
    _killed_executor(stage, weather, second, plain)
    return second, plain, {"stood": sum(map(len, stood.values()))}


def executor_alone(stage: Stage, weather: Weather) -> None:
    """An executor of a driver is killed, and nothing else happens."""
    only = _session(stage, "executor")
    stage.cure()
    _killed_executor(stage, weather, only, bare(stage, only))


def _killed_executor(stage: Stage, weather: Weather, session: Session, plain: dict[str, str]) -> None:
    number = session.ask(Order("executor"))
    session.wait_for("\ncommitted scored")
    session.until(stage.cluster.executors)
    kill(stage.cluster.executors()[-1])
    _right("an executor killed", session.answer(number), plain)
    same("an executor killed: finished partitions that ran again", _again(session, "executor"), {})
    if weather.keeps_maps:
        same("an executor killed: map tasks that ran again", _maps_again(session), 0)


def _maps_again(session: Session) -> int:
    """Successful map tasks of one stage that there were before, whatever the attempt of the stage."""
    tasks = [one for one in session.log().tasks if one.kind is not None and one.kind.name == "MAP" and one.is_success]
    return len(tasks) - len({(one.stage, one.partition) for one in tasks})


def all_faults(stage: Stage, weather: Weather) -> Figures:
    second, plain, figures = poison_and_executor(stage, weather)
    if weather.stirs.__name__ != "nothing":
        number = second.ask(Order("stirred"))
        second.wait_for("\nopened scored")
        weather.stirs(stage.cluster, lambda is_so: _until(second, number, is_so))
        _right("stirred", second.answer(number), plain)
        same("stirred: finished partitions that ran again", _again(second, "stirred"), {})
    second.ask(Order("killed"))
    second.wait_for("\norder killed")
    second.wait_for("\ncommitted ", count=second.driver.text().count("\ncommitted ") + 1)
    killed_ms = kill_driver(second.driver)
    stood = finished(second, "killed", killed_ms - REPORTED_MS)
    third = _session(stage, "successor")
    _right("a driver killed", _taken(third, "killed"), plain)
    same("a driver killed: partitions it had reported, computed again", _overlap(stood, finals(third, "killed")), 0)
    figures |= _woken(stage, third, plain)
    seen = seen_in(one.events for one in stage.drivers)
    assert weather.is_seen(seen), f"the event logs do not show this weather: {seen}"
    third.end()
    return {**figures, "executors": seen.added, "gone": len(seen.gone), "speculative": seen.speculative}


def _woken(stage: Stage, third: Session, plain: dict[str, str]) -> Figures:
    """A driver is frozen, taken over, and woken."""
    fourth = _session(stage, "zombie")
    fourth.wait_for("\nready")
    number = fourth.ask(Order("taken", is_last=True))
    fourth.wait_for("\ncommitted scored")
    stop_driver(fourth.driver)
    _right("a frozen driver, taken over", _taken(third, "taken"), plain)
    cont_driver(fourth.driver)
    late = fourth.answer(number)
    same("the woken driver's end", (late.phase, "taken over" in late.error), ("fenced", True))
    done = third.do(Order("taken"))
    same("the output after it woke", (done.phase, done.digests), ("done", plain))
    return {"zombies": 1}


def _taken(session: Session, name: str) -> Answer:
    for _ in range(TRIES):
        answer = session.do(Order(name, stale_seconds=8))
        if answer.phase != "StillOwned":
            return answer
        time.sleep(1)
    raise AssertionError(f"{name} was never taken over: {answer.error}")


def _until(session: Session, number: int, is_so: Callable[[Seen], bool]) -> None:
    """Until the driver's event log shows it, or its order is answered."""
    folders: list[Path] = [session.events]
    session.until(lambda: len(session.answers()) > number or is_so(seen_in(folders)))
