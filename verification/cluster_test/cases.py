"""The cases. Each returns its figures or raises what was different from what it must be."""

from __future__ import annotations

import math
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cluster_test.damage import damage
from cluster_test.driver import Answer, Order
from cluster_test.play import (
    Figures,
    N,
    Ran,
    Session,
    Stage,
    again,
    bare,
    finals,
    finished,
    run_of,
    section,
    shown,
    whole,
)
from cluster_test.reader import reading
from rekindle.model.partitions import EMPTY, Partitions
from stage import same
from support.drivers import cont_driver, kill_driver, stop_driver
from support.signals import kill

POISONED = "cannot score order 4321"
# What finished this long before a driver is killed was told to its journal, and counts.
REPORTED_MS = 2500
ONE_FAILURE = {"spark.task.maxFailures": "1"}


def fixed(text: str) -> str:
    """The user's edit: what could not be scored gets a score."""
    broken = '        raise ValueError(f"cannot score order {order}")\n'
    assert broken in text
    return text.replace(broken, "        return -1\n")


def with_helper_changed(text: str) -> str:
    assert "order % 7" in text
    return text.replace("order % 7", "order % 5")


CHANGES = ("accepted", "started_over", "damaged", "helper", "input")


def changed_code(stage: Stage, names: Sequence[str] = CHANGES) -> Figures:
    """Poison, the code fixed in the file, resumed both ways; files that are gone, short or flipped; a helper that
    changed; an input that changed."""
    stage.uncure()
    first = stage.session("poison").start(ONE_FAILURE)
    for name in names:
        answer = first.do(Order(name, tries=2))
        same(f"{name}: the run stops", answer.phase, "RunFailed")
        assert POISONED in answer.error, answer.error
        (at,) = {int(number) for number in re.findall(r"scored\[(\d+)\]", answer.error)}
        rest = str(Partitions.first(N) - Partitions((at,)))
        expected = {"enriched": rest, "ledger": rest}
        same(f"{name}: tried beside poison", shown(finals(first, name)) | expected, shown(finals(first, name)))
    first.end()
    _resumed_with_fixed_code(stage, at, run_of(section(first.driver.text(), "damaged")), names)
    return {"poisoned": at, "runs": len(names)}


def _resumed_with_fixed_code(stage: Stage, at: int, damaged: str, names: Sequence[str]) -> None:
    second = stage.session("fixed")
    second.user_code.write_text(fixed(second.user_code.read_text()))
    second.start(ONE_FAILURE)
    plain = bare(stage, second)
    one = {"scored": str(at), "enriched": str(at), "ledger": str(at)}
    _resumes(second, Order("accepted", accepted=["scored"]), plain, one | whole("by_product", "report"))
    # All of the changed step runs again. Its digests show that only one partition is another, so that those who read
    # partition by partition start over there alone; behind an exchange everybody read it.
    over = whole("scored", "by_product", "report") | {"enriched": str(at), "ledger": str(at)}
    if "started_over" in names:
        _resumes(second, Order("started_over"), plain, over)
    gone = damage(stage, damaged, "enriched", {"missing": at + 1, "short": at + 2, "flipped": at + 3})
    answer = second.do(Order("damaged", accepted=["scored"]))
    same("damaged: output", (answer.phase, answer.digests), ("succeeded", plain))
    ran = finals(second, "damaged")
    again = {"scored": str(at), "enriched": str(Partitions((at,)) | gone), "ledger": str(at)}
    same("damaged: tasks", {step: shown(ran)[step] for step in again}, again)
    if "helper" in names:
        _resumed_with_changed_helper(stage)
    if "input" in names:
        _resumed_with_changed_input(stage, second, at)
    second.end()


def _resumed_with_changed_helper(stage: Stage) -> None:
    third = stage.session("helper")
    third.user_code.write_text(with_helper_changed(fixed(third.user_code.read_text())))
    third.start()
    plain = bare(stage, third)
    _resumes(third, Order("helper"), plain, whole("scored", "enriched", "by_product", "report", "ledger"))
    assert "bonus" in third.driver.text(), "the helper that changed is not named"
    third.end()


def _resumed_with_changed_input(stage: Stage, session: Session, at: int) -> None:
    file = sorted((stage.input / "customers").glob("*.parquet"))[0]
    shutil.copy(file, file.with_name("more.parquet"))
    try:
        answer = session.do(Order("input", accepted=["scored"]))
        same("changed input", answer.phase, "Refused")
        assert "replace=['people']" in answer.error, answer.error
        plain = bare(stage, session)
        order = Order("input", accepted=["scored"], replaced=["people"])
        over = whole("people", "enriched", "by_product", "report", "ledger")
        _resumes(session, order, plain, {"scored": str(at)} | over)
    finally:
        file.with_name("more.parquet").unlink()


def _resumes(session: Session, order: Order, digests: dict[str, str], expected: dict[str, str]) -> Answer:
    answer = session.do(order)
    same(f"{order.name}: phase", (answer.phase, answer.error), ("succeeded", ""))
    same(f"{order.name}: output", answer.digests, digests)
    same(f"{order.name}: tasks", shown(finals(session, order.name)), expected)
    return answer


def strategies(stage: Stage) -> Figures:
    """Each failover strategy against a partition that fails until its cause goes away."""
    session = stage.session("strategies").start(ONE_FAILURE)
    stage.cure()
    plain = bare(stage, session)
    figures: Figures = {}
    for strategy in ("region", "individual", "full"):
        stage.uncure()
        number = session.ask(Order(strategy, strategy=strategy, delay_ms=3000))
        before = session.driver.text().count("\nfailed ")
        session.wait_for("\nfailed ", count=before + 1)
        stage.cure()
        answer = session.answer(number)
        same(f"{strategy}: output", (answer.phase, answer.digests), ("succeeded", plain))
        figures[f"{strategy}_again"] = sum(again(session, strategy).values())
    same("region runs nothing again that was finished", figures["region_again"], 0)
    same("nor does individual", figures["individual_again"], 0)
    assert figures["full_again"], "restart all did not restart what was finished"
    session.end()
    return figures


def executors_and_workers(stage: Stage) -> Figures:
    """kill -9 of an executor, then of a worker with its executors, at random moments."""
    draw = random.Random(7)
    stage.cure()
    session = stage.session("executors").start({"spark.task.maxFailures": "2"})
    plain = bare(stage, session)
    figures: Figures = {"kills": 0}
    for name in ("executor-1", "executor-2", "worker-1"):
        number = session.ask(Order(name))
        session.wait_for("\nopened scored")
        time.sleep(draw.uniform(0.5, 6.0))
        if name.startswith("executor"):
            kill(draw.choice(stage.cluster.executors()))
        else:
            stage.cluster.kill_worker(1)
        answer = session.answer(number)
        same(f"{name}: output", (answer.phase, answer.digests), ("succeeded", plain))
        same(f"{name}: finished partitions that ran again", again(session, name), {})
        figures["kills"] = int(figures["kills"]) + 1
        if name.startswith("worker"):
            stage.cluster.restart_worker(1)
    session.end()
    return figures


def drivers(stage: Stage, kills: int) -> Figures:
    """kill -9 of the driver at random moments; the last one goes on with half of the cores."""
    draw = random.Random(11)
    stage.cure()
    current = stage.session("driver").start()
    plain = bare(stage, current)
    old, young = Done(), Done()
    for number in range(kills):
        is_last = number == kills - 1
        following = stage.session("driver").start({"spark.cores.max": "2"} if is_last else None)
        current.wait_for("\nready")
        current.ask(Order("killed"))
        current.wait_for("\nopened ")
        time.sleep(draw.uniform(1.0, 8.0))
        killed_ms = time.time() * 1000
        kill_driver(current.driver)
        old.take(current, killed_ms - REPORTED_MS)
        young.take(current)
        current = following
    answer = current.do(Order("killed", stale_seconds=8))
    same("output after kills", (answer.phase, answer.digests), ("succeeded", plain))
    old.take(current)
    young.take(current)
    same("partitions that an earlier driver had finished, in time to say so, and ran again", old.again, 0)
    current.end()
    return {"kills": kills, "again": old.again, "again_of_any_age": young.again}


@dataclass
class Done:
    """What earlier drivers finished, and how many final tasks were launched for it again."""

    ran: Ran = field(default_factory=dict)
    again: int = 0

    def take(self, session: Session, until_ms: float = math.inf) -> None:
        for step, partitions in finals(session, "killed").items():
            self.again += len(partitions & self.ran.get(step, EMPTY))
        for step, partitions in finished(session, "killed", until_ms).items():
            self.ran[step] = self.ran.get(step, EMPTY) | partitions


def zombie(stage: Stage) -> Figures:
    """The driver is stopped, taken over, and woken: it ends with a sentence, and nothing it did counts."""
    stage.cure()
    old, new = (stage.session(name).start() for name in ("zombie", "successor"))
    old.wait_for("\nready")
    number = old.ask(Order("taken", is_last=True))
    old.wait_for("\ncommitted scored")
    stop_driver(old.driver)
    answer = _take_when_silent(new)
    cont_driver(old.driver)
    late = old.answer(number)
    same("the zombie's end", (late.phase, "taken over" in late.error), ("fenced", True))
    same("its exit code", old.wait(), 5)
    plain = bare(stage, new)
    same("output", (answer.phase, answer.digests), ("succeeded", plain))
    again = new.do(Order("taken"))
    same("output after it woke", (again.phase, again.digests), ("done", plain))
    new.end()
    return {"zombies": 1}


def _take_when_silent(session: Session) -> Answer:
    for _ in range(60):
        answer = session.do(Order("taken", stale_seconds=8))
        if answer.phase != "StillOwned":
            return answer
        time.sleep(1)
    raise AssertionError(f"never taken over: {answer.error}")


def disk_full(stage: Stage) -> Figures:
    """The run's storage is full, then it is not. Only on disk: a small file system of its own."""
    if stage.place.name != "disk":
        return {}
    stage.cure()
    figures: Figures = {}
    folder = Path(stage.place.location)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=True)
    try:
        first = stage.session("full").start(ONE_FAILURE)
        plain = bare(stage, first)
        answer = first.do(Order("full", tries=2))
        assert answer.phase in ("RunFailed", "StoreFailed"), answer
        done = finished(first, "full")
        first.end()
        subprocess.run(["mount", "-o", "remount,size=256m", str(folder)], check=True)
        second = stage.session("roomy").start()
        with reading(stage, figures):
            answer = second.do(Order("full", stale_seconds=8))
        same("output when there is room", (answer.phase, answer.digests), ("succeeded", plain))
        ran = sum(len(finals(second, "full").get(step, EMPTY) & done[step]) for step in done)
        same("finished partitions that ran again", ran, 0)
        second.end()
    finally:
        for session in stage.drivers:
            session.end()
        subprocess.run(["umount", str(folder)], check=True)
    return {"kept": sum(map(len, done.values()))} | figures


def read_meanwhile(case: Callable[[Stage], Figures]) -> Callable[[Stage], Figures]:
    """The case, with a reader of both sinks beside it from its beginning to its end."""

    def watched(stage: Stage) -> Figures:
        seen: Figures = {}
        with reading(stage, seen):
            figures = case(stage)
        return figures | seen

    return watched


CASES: dict[str, Callable[[Stage], Figures]] = {
    "changed-code": read_meanwhile(changed_code),
    "strategies": read_meanwhile(strategies),
    "executors-and-workers": read_meanwhile(executors_and_workers),
    "drivers": read_meanwhile(lambda stage: drivers(stage, 4)),
    "zombie": read_meanwhile(zombie),
    "disk-full": disk_full,
}
