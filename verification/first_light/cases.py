"""What first light must show, each case on one place. A case returns figures, or raises with what differed."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from first_light.driver import Answer, Order
from first_light.play import Session, Stage
from rekindle.local_cluster.processes import Process
from stage import Ran, attempt_tasks, opened, same, tagged, total
from support.drivers import cont_driver, kill_driver, stop_driver
from support.eventlog import Kind
from support.signals import cont, kill, stop

SMALL, WIDE = 8, 16
OLD_MS = 10_000
VARIANTS = ("broadcast", "subquery", "timestamp", "task_context", "barrier")
# The first failure of a Spark task aborts its job; for cases in which nothing is killed while tasks run.
ONE_FAILURE = {"spark.task.maxFailures": "1"}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}
Figures = dict[str, int | float]


def fixed(text: str) -> str:
    """The user's edit: what could not be scored gets a score."""
    broken = '        raise ValueError(f"cannot score {k}")\n'
    assert broken in text
    return text.replace(broken, "        return -1\n")


def fail_then_cure(stage: Stage, session: Session, order: Order) -> Answer:
    """Give an order that fails, remove the cause while the application lives, and wait for what comes of it."""
    stage.uncure()
    before = session.driver.text().count("\nfailed ")
    number = session.ask(order)
    session.wait_for("\nfailed ", count=before + 1)
    stage.cure()
    return session.answer(number)


def aborts_and_changes(stage: Stage) -> Figures:
    """Cases 1, 6 and 7: poison, code that changed, plans that are another each time, and a join without exchange."""
    figures: Figures = {}
    first = stage.session("first").start(ONE_FAILURE)
    same_application(stage, first, figures)
    stage.uncure()
    for run in ("accepted", "not-accepted"):
        same(f"{run} fails", first.do(Order("totals", run, tries=2, delay_ms=200)).phase, "failed")
    for pipeline in ("joined", *VARIANTS):
        same(f"{pipeline} fails", first.do(Order(pipeline, "new", tries=2, delay_ms=200)).phase, "failed")
    bare = str(stage.folder / "bare")
    same("bare Spark fails", first.do(Order("totals", "", is_bare=True, write_bare_to=f"file:{bare}")).phase, "failed")
    figures["bare_partitions_kept"] = len(list(Path(bare).glob("part-*"))) if Path(bare).exists() else 0
    first.end()
    stage.cure()
    second = stage.session("second")
    second.user_code.write_text(fixed(second.user_code.read_text()))
    new_application(second.start(ONE_FAILURE), figures)
    return figures


def same_application(stage: Stage, session: Session, figures: Figures) -> None:
    answer = fail_then_cure(stage, session, Order("totals", "cured"))
    same("phase", answer.phase, "succeeded")
    plain = session.do(Order("totals", "", is_bare=True))
    same("output", answer.digest, plain.digest)
    ran = list(attempt_tasks(session.log(), "totals").values())
    same("tasks of the retry", ran[-1], Ran(maps=0, finals=1))
    same("tasks of the input", total(attempt_tasks(session.log(), "clean").values()), Ran(SMALL, SMALL))
    figures["retry_maps"], figures["retry_finals"] = ran[-1].maps, ran[-1].finals
    for pipeline in VARIANTS:
        answer = fail_then_cure(stage, session, Order(pipeline, "same"))
        same(f"{pipeline}: phase", answer.phase, "succeeded")
        check_variant(pipeline, answer)
        last = list(attempt_tasks(session.log(), f"with_{pipeline}").values())[-1]
        whole = pipeline in ("task_context", "barrier")
        same(f"{pipeline}: final tasks of the retry", last.finals, WIDE if whole else 1)


def check_variant(pipeline: str, answer: Answer) -> None:
    if pipeline in ("broadcast", "subquery", "timestamp"):
        same(f"{pipeline}: versions in the output", answer.versions, 1)
    same(f"{pipeline}: rows that saw a pruned partition number", answer.misplaced, 0)


def new_application(session: Session, figures: Figures) -> None:
    plain = session.do(Order("totals", "", is_bare=True))
    tasks: dict[str, Ran] = {}
    for run, accepted in (("accepted", ["totals"]), ("not-accepted", [])):
        before = total(attempt_tasks(session.log(), "totals").values())
        answer = session.do(Order("totals", run, accepted=accepted))
        same(f"{run}: phase", answer.phase, "succeeded")
        same(f"{run}: output", answer.digest, plain.digest)
        after = total(attempt_tasks(session.log(), "totals").values())
        tasks[run] = Ran(after.maps - before.maps, after.finals - before.finals)
    same("accepted change: tasks", tasks["accepted"], Ran(maps=SMALL, finals=1))
    same("change not accepted: tasks", tasks["not-accepted"], Ran(maps=SMALL, finals=WIDE))
    figures["accepted_maps"], figures["accepted_finals"] = tasks["accepted"].maps, tasks["accepted"].finals
    figures["started_over_finals"] = tasks["not-accepted"].finals
    answer = session.do(Order("joined", "new"))
    same("joined: output", answer.digest, session.do(Order("joined", "", is_bare=True)).digest)
    same("joined: exchanges in its plan", answer.exchanges_of_last, 0)
    same("joined: tasks", total(attempt_tasks(session.log(), "joined").values()), Ran(maps=0, finals=1))
    for side in ("left", "right"):
        same(f"{side}: tasks", total(attempt_tasks(session.log(), side).values()), Ran())
    figures["join_finals"] = 1
    for pipeline in VARIANTS:
        answer = session.do(Order(pipeline, "new"))
        same(f"{pipeline}: phase", answer.phase, "succeeded")
        check_variant(pipeline, answer)
        finals = total(attempt_tasks(session.log(), f"with_{pipeline}").values()).finals
        same(f"{pipeline}: final tasks in a new application", finals, WIDE)
    same("input of all: tasks", total(attempt_tasks(session.log(), "clean").values()), Ran())


def driver_kills(stage: Stage, kills: int, seed: int) -> Figures:
    """Case 2: kill -9 of the driver at random moments; the next one is warm and goes on with the same run."""
    draw = random.Random(seed)
    variables = {"FIRST_LIGHT_WIDE": "200", "FIRST_LIGHT_BURN": "300000"}
    current = stage.session("kill", **variables).start()
    plain = current.do(Order("slow", "", is_bare=True))
    finished: dict[str, dict[int, int]] = {}
    figures: Figures = {"kills": 0, "old_rerun": 0, "rerun": 0, "maps_rerun": 0, "maps_smallest": 0, "completed": 0}
    run = 0
    while figures["kills"] < kills:
        following = stage.session("kill", **variables).start()
        current.wait_for("\nready")
        number = current.ask(Order("slow", f"kill-{run}"))
        if draw.random() < 0.75:  # Most kills fall into the final stage, however slow the machine is today.
            current.wait_for("\nopened slow_totals", or_answer=number)
        was_killed = wait_or_answer(current, number, draw.uniform(0.0, 13.0))
        if was_killed:
            killed_ms = kill_driver(current.driver)
            figures["kills"] += 1
        else:
            same("output after kills", current.answer(number).digest, plain.digest)
            figures["completed"] += 1
            killed_ms = 0
        judge_rerun(current, finished, f"kill-{run}", killed_ms, figures)
        if not was_killed:
            run += 1
            current.end()
        current = following
    answer = current.do(Order("slow", f"kill-{run}"))
    judge_rerun(current, finished, f"kill-{run}", 0, figures)
    same("output after the last kill", answer.digest, plain.digest)
    figures["completed"] += 1
    same("final tasks finished more than 10 s before a kill and run again", figures["old_rerun"], 0)
    return figures


def wait_or_answer(session: Session, number: int, seconds: float) -> bool:
    """Wait that long. False if the run was over before."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if len(session.answers()) > number:
            return False
        time.sleep(0.05)
    return True


def judge_rerun(
    session: Session, finished: dict[str, dict[int, int]], run: str, killed_ms: int, figures: Figures
) -> None:
    """Count the final tasks of this application that an earlier one of the same run had finished, by age."""
    earlier = finished.setdefault(run, {})
    asked = opened(session.driver.text())
    maps = 0
    fresh: dict[int, int] = {}
    for tag, tasks in tagged(session.log(), "rekindle-slow_totals-g").items():
        maps += sum(task.kind is Kind.MAP for task in tasks)
        for task in tasks:
            if task.kind is not Kind.RESULT:
                continue
            partition = asked[tag][task.partition]
            if partition in earlier:
                figures["rerun"] += 1
                figures["old_rerun"] += earlier[partition] >= OLD_MS
            if task.is_success and task.finished_ms is not None:
                fresh[partition] = task.finished_ms
    if earlier and maps:
        figures["maps_rerun"] += maps
        figures["maps_smallest"] += SMALL
    # The age at the moment of the kill is what counts for the applications that follow.
    for partition, done_ms in fresh.items():
        earlier[partition] = killed_ms - done_ms


def exchange_recomputed(stage: Stage, runs: int, controls: int) -> Figures:
    """Case 3: an opaque shuffle key, an abort, kill -9 of an executor, a retry on the held plan."""
    session = stage.session("exchange").start(ONE_FAILURE)
    rows = session.do(Order("keyed", "", is_bare=True)).rows if stage_cured(stage) else 0
    figures: Figures = {"runs": runs, "lost": 0, "doubled": 0, "control_wrong": 0}
    for number in range(runs + controls):
        is_control = number >= runs
        answer = abort_kill_retry(stage, session, f"x{number}", not is_control)
        same("phase", answer.phase, "succeeded")
        if is_control:
            figures["control_wrong"] += (rows - answer.ids) + (answer.rows - answer.ids)
        else:
            figures["lost"] += rows - answer.ids
            figures["doubled"] += answer.rows - answer.ids
    session.end()
    same("rows lost", figures["lost"], 0)
    same("rows doubled", figures["doubled"], 0)
    if controls and not figures["control_wrong"]:
        raise AssertionError("the control, without our check, lost and doubled nothing: the case proves nothing")
    return figures


def stage_cured(stage: Stage) -> bool:
    stage.cure()
    return True


def abort_kill_retry(stage: Stage, session: Session, run: str, is_checked: bool) -> Answer:
    stage.uncure()
    before = session.driver.text().count("\nfailed ")
    number = session.ask(Order("keyed", run, tries=6, delay_ms=1500, is_exchange_checked=is_checked))
    session.wait_for("\nfailed ", count=before + 1)
    kill(random.choice(stage.cluster.executors()))
    stage.cure()
    return session.answer(number)


def delayed_commit(stage: Stage) -> Figures:
    """Case 4: a task attempt held at the door of its commit, deaf to being killed, and let go after the next one has
    committed and the run is over. Its process is stopped and woken on the way: only for a moment, because the next one
    reads map outputs of it, and a worker kills what Spark has given up."""
    gate = stage.folder / "gate"
    shutil.rmtree(gate, ignore_errors=True)
    gate.mkdir()
    stage.cure()
    session = stage.session("gate").start({**SPECULATION, "spark.executorEnv.REKINDLE_GATE": str(gate)})
    number = session.ask(Order("totals", "gated", protocol="rekindle.test.GatedCommitProtocol"))
    session.until(lambda: (gate / "waiting").exists() and (gate / "waiting").read_text())
    executor = Process.of(int((gate / "waiting").read_text()))
    assert executor is not None and executor.pid in stage.cluster.executor_pids()
    session.until(lambda: len(gated_markers(stage)) == 1)
    answer = session.answer(number)
    same("phase", answer.phase, "succeeded")
    stop(executor)
    try:
        same("commits of the partition while one is stopped", len(gated_markers(stage)), 1)
        (gate / "open").touch()
    finally:
        cont(executor)
    session.until(lambda: len(gated_markers(stage)) == 2)
    again = session.do(Order("totals", "gated", is_reread=True))
    same("output after the late commit", again.digest, answer.digest)
    same("output", answer.digest, session.do(Order("totals", "", is_bare=True)).digest)
    session.end()
    return {"late_commits": 1, "bytes_changed": 0}


def gated_markers(stage: Stage) -> list[str]:
    """The commit markers of the gated partition, over all Spark task attempts."""
    names = stage.listing("totals/gated/results/totals/")
    return [name for name in names if "/_committed/00003-" in name and not name.endswith(".crc")]


def zombie_driver(stage: Stage) -> Figures:
    """Case 5: the old driver is stopped, taken over, and woken."""
    variables = {"FIRST_LIGHT_WIDE": "200", "FIRST_LIGHT_BURN": "300000"}
    old, new = (stage.session(name, **variables).start() for name in ("zombie", "successor"))
    number = old.ask(Order("slow", "taken", is_last=True))
    old.wait_for("committed slow_totals", count=3)
    stop_driver(old.driver)
    answer = take_when_silent(new)
    same("phase", answer.phase, "succeeded")
    woken_ms = time.time_ns() // 1_000_000
    cont_driver(old.driver)
    late = old.answer(number)
    same("the zombie's end", late.phase, "fenced")
    same("its exit code", old.wait(), 5)
    if "taken over" not in late.error:
        raise AssertionError(f"the zombie should say what happened: {late.error}")
    log = old.log()
    jobs = [job for job in log.jobs if any(tag.startswith("rekindle-slow_totals") for tag in job.tags)]
    same("Spark jobs of the zombie that succeeded after it woke up", jobs[-1].has_succeeded, False)
    finished = [t for t in log.tasks if t.is_success and t.finished_ms is not None and t.finished_ms > woken_ms]
    same("output", new.do(Order("slow", "taken", is_reread=True)).digest, answer.digest)
    same("output", answer.digest, new.do(Order("slow", "", is_bare=True)).digest)
    new.end()
    return {"zombie_tasks_after_waking": len(finished)}


def take_when_silent(session: Session) -> Answer:
    """As a scheduler would: again and again, until the old master has been silent for long enough."""
    for _ in range(60):
        answer = session.do(Order("slow", "taken", stale_seconds=8))
        if answer.phase != "refused":
            return answer
        time.sleep(1)
    raise AssertionError(f"never taken over: {answer.error}")


CASES: dict[str, Callable[[Stage], Figures]] = {
    "aborts-and-changes": aborts_and_changes,
    "driver-kills": lambda stage: driver_kills(stage, 20, seed=1),
    "exchange-recomputed": lambda stage: exchange_recomputed(stage, 20, 3),
    "delayed-commit": delayed_commit,
    "zombie-driver": zombie_driver,
}
