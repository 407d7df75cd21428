"""P1, P3, P4, P5: each measured, told in a line or two, and judged by its target.

P1  recovery of one failed partition / bare Spark computing that partition alone from its file of the intermediate
P3  time to finish after kill -9 of the driver at 80 % of the tasks / bare Spark from scratch; both in a new driver.
    The ideal is the part of the scratch run's time that was not finished at the kill: done work weighted by the time
    that bare Spark's tasks of the same stage took
P4  two kept results without a fault / bare Spark writing the same
P5  only pipelined results into a sink / the same without Rekindle; p5_join: with a broadcast join on the way

Own driver time is the time in which no Spark job ran, less the same of bare Spark. The jobs and tasks that write must
be equal on both sides; those that only read a schema or publish are printed beside them.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench_batch.driver import Answer
from bench_batch.figures import Pair, estimate, is_write, pairs, window
from bench_batch.machine import Machine
from bench_batch.sampling import shown
from support.eventlog import EventLog, Kind, SparkTask

P1_MAX, P3_MIN, P4_CPU_MAX, P4_OWN_MAX, P5_OWN_MAX = 1.05, 0.9, 1.05, 0.01, 0.005
KILLED_AT = 0.8
SCHEMA_TASKS = 3
P1_PARTITIONS_PER_GB, P1_EFFORT = 8, 24
P3_PARTITIONS, P3_EFFORT = 32, 10


@dataclass
class Verdict:
    """Figures for the RESULT line, and the targets that were missed."""

    figures: dict[str, str] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)

    def judge(self, name: str, is_held: bool) -> None:
        if not is_held:
            self.missed.append(name)


Case = Callable[[Machine, int], Verdict]


def partitions_of(machine: Machine, per_gb: int = 8) -> int:
    """As many as the input has files: at a gigabyte each partition is one file that Spark reads in one task."""
    return max(2, machine.files * per_gb // 8)


def p1(machine: Machine, rounds: int) -> Verdict:
    count = partitions_of(machine, P1_PARTITIONS_PER_GB)
    settings = {"spark.task.maxFailures": "1"}
    answer, log = machine.drive("recover", settings, partitions=count, rounds=rounds, effort=P1_EFFORT)
    found = _pairs("P1", answer, log)
    wall = estimate([pair.ours.wall_s / pair.bare.wall_s for pair in found])
    cpu = estimate([pair.ours.cpu_s / pair.bare.cpu_s for pair in found])
    more = statistics.median(pair.ours.wall_s - pair.bare.wall_s for pair in found)
    verdict = Verdict({"p1_wall": f"{wall.median:.3f}", "p1_cpu": f"{cpu.median:.3f}", "p1_more_s": f"{more:.2f}"})
    verdict.judge("p1_wall", wall.median <= P1_MAX)
    verdict.judge("p1_cpu", cpu.median <= P1_MAX)
    print(f"P1  wall {wall}, CPU {cpu}; {more:.2f} s more than {_wall(found, 'bare'):.2f} s", flush=True)
    return verdict


def p3(machine: Machine, rounds: int) -> Verdict:
    ratios, shares = zip(*(_killed(machine) for _ in range(rounds)), strict=True)
    ratio, share = statistics.median(ratios), statistics.median(shares)
    verdict = Verdict({"p3_ratio": f"{ratio:.3f}", "p3_share_of_ideal": f"{share:.3f}"})
    verdict.judge("p3_share_of_ideal", share >= P3_MIN)
    return verdict


def _killed(machine: Machine) -> tuple[float, float]:
    """One round: (ratio to scratch, share of the ideal gain)."""
    asked: dict[str, Any] = {"partitions": P3_PARTITIONS, "effort": P3_EFFORT}
    scratch, scratch_log = machine.drive("scratch", **asked)
    lake = machine.folder / f"p3-{machine.count}"
    total = machine.files + 2 * P3_PARTITIONS
    dies = round(KILLED_AT * total) + SCHEMA_TASKS
    victim, victim_log = machine.drive("resume", folder=lake, die_after_tasks=dies, **asked)
    resumed, resumed_log = machine.drive("resume", folder=lake, **asked)
    assert scratch and resumed and victim is None
    kept = P3_PARTITIONS - resumed.computed["scored"]
    done, tasks = _done(scratch_log, victim_log, machine.files, kept)
    before, rest = scratch.sides[0], resumed.sides[0].wall_s
    ideal = before.wall_s * (1 - done)
    share = (before.wall_s - rest) / (before.wall_s - ideal)
    print(
        f"P3  scratch {before.wall_s:.2f} s, killed at {tasks} of {total} tasks ({done:.0%} of the work), computed "
        f"again {resumed.computed}, resume {rest:.2f} s, ideal {ideal:.2f} s, share of the ideal gain {share:.3f}\n"
        f"    bare Spark's driver had no job running for {window(scratch_log, before).idle_s:.2f} s of its time, "
        f"Rekindle's for {window(resumed_log, resumed.sides[0]).idle_s:.2f} s",
        flush=True,
    )
    _tell_profile("P3 resume", resumed, 1)
    shutil.rmtree(lake)
    return rest / before.wall_s, share


def _done(scratch: EventLog, victim: EventLog, files: int, kept: int) -> tuple[float, int]:
    """The share of the work that was finished at the kill, and the number of tasks. Tasks that ended in the last half
    second may be missing in the log of a killed driver: what turned out to be kept was finished."""
    stages = sorted({task.stage for task in _written(scratch, "")})
    weights = [sum(_ms(task) for task in _written(scratch, "") if task.stage == stage) for stage in stages]
    maps = sum(task.kind is Kind.MAP for task in _written(victim, "clean") if task.is_success)
    finals = sum(task.kind is Kind.RESULT for task in _written(victim, "clean") if task.is_success)
    scores = max(kept, sum(task.is_success for task in _written(victim, "scored")))
    shares = (maps / files, finals / P3_PARTITIONS, scores / P3_PARTITIONS)
    done = sum(weight * share for weight, share in zip(weights, shares, strict=True)) / sum(weights)
    return done, maps + finals + scores


def _written(log: EventLog, step: str) -> list[SparkTask]:
    """Tasks of the jobs that write, of one step of Rekindle's, or all."""
    jobs = [job for job in log.jobs if is_write(job) and any(f"-{step}-" in tag or not step for tag in job.tags)]
    return log.launched(stages=log.stage_ids(jobs))


def _ms(task: SparkTask) -> int:
    return (task.finished_ms or task.launched_ms) - task.launched_ms


def p4(machine: Machine, rounds: int) -> Verdict:
    answer, log = machine.drive("kept", partitions=partitions_of(machine), rounds=rounds)
    found = _pairs("P4", answer, log)
    verdict = _no_fault("p4", found)
    cpu = estimate([pair.ours.cpu_s / pair.bare.cpu_s for pair in found])
    verdict.judge("p4_cpu_high", cpu.high <= P4_CPU_MAX)
    verdict.judge("p4_own", _own_share(found) <= P4_OWN_MAX)
    return verdict


def p5(machine: Machine, rounds: int) -> Verdict:
    return _fused(machine, rounds, "p5", has_join=False)


def p5_join(machine: Machine, rounds: int) -> Verdict:
    return _fused(machine, rounds, "p5_join", has_join=True)


def _fused(machine: Machine, rounds: int, name: str, *, has_join: bool) -> Verdict:
    answer, log = machine.drive("fused", partitions=partitions_of(machine), rounds=rounds, has_join=has_join)
    found = _pairs(name.upper(), answer, log)
    verdict = _no_fault(name, found)
    verdict.judge(f"{name}_own", _own_share(found) <= P5_OWN_MAX)
    return verdict


def _no_fault(name: str, found: list[Pair]) -> Verdict:
    cpu = estimate([pair.ours.cpu_s / pair.bare.cpu_s for pair in found])
    wall = estimate([pair.ours.wall_s / pair.bare.wall_s for pair in found])
    own = estimate([pair.own_s for pair in found])
    more = statistics.median(pair.more_jobs_s for pair in found)
    bare, ours = found[-1].bare_window, found[-1].ours_window
    print(
        f"{name.upper()}  CPU {cpu}, wall {wall}; own driver time {own} s of {_wall(found, 'ours'):.2f} s wall, "
        f"{more:.2f} s more in other Spark jobs\n"
        f"    writing jobs/tasks: bare {bare.write_jobs}/{bare.write_tasks}, rekindle {ours.write_jobs}/"
        f"{ours.write_tasks}; other jobs/tasks: bare {bare.other_jobs}/{bare.other_tasks}, rekindle "
        f"{ours.other_jobs}/{ours.other_tasks}",
        flush=True,
    )
    verdict = Verdict(
        {
            f"{name}_cpu": f"{cpu.median:.3f}",
            f"{name}_cpu_low": f"{cpu.low:.3f}",
            f"{name}_cpu_high": f"{cpu.high:.3f}",
            f"{name}_wall": f"{wall.median:.3f}",
            f"{name}_own_share": f"{_own_share(found):.4f}",
            f"{name}_own_s": f"{own.median:.3f}",
            f"{name}_wall_s": f"{_wall(found, 'ours'):.1f}",
            f"{name}_write_tasks": f"{ours.write_tasks}/{bare.write_tasks}",
            f"{name}_other_tasks": f"{ours.other_tasks}/{bare.other_tasks}",
            f"{name}_jobs": f"{ours.write_jobs + ours.other_jobs}/{bare.write_jobs + bare.other_jobs}",
        }
    )
    verdict.judge(f"{name}_tasks", (ours.write_jobs, ours.write_tasks) == (bare.write_jobs, bare.write_tasks))
    return verdict


def _own_share(found: list[Pair]) -> float:
    return statistics.median(pair.own_s / pair.ours.wall_s for pair in found)


def _wall(found: list[Pair], side: str) -> float:
    return statistics.median((pair.ours if side == "ours" else pair.bare).wall_s for pair in found)


def _pairs(name: str, answer: Answer | None, log: EventLog) -> list[Pair]:
    assert answer is not None, f"{name}: no answer"
    found = pairs(answer.sides, log)
    for pair in found:
        for result, written in pair.bare.outputs.items():
            assert pair.ours.outputs[result].rows == written.rows, f"{name}: {result}: {pair.ours} {pair.bare}"
        tell(name, pair)
    _tell_profile(name, answer, len(found))
    return found


def tell(name: str, pair: Pair) -> None:
    bytes_of = {side.side: sum(one.bytes for one in side.outputs.values()) for side in (pair.bare, pair.ours)}
    print(
        f"    {name} round {pair.bare.number}: "
        + ", ".join(
            f"{side.side} {side.wall_s:.2f} s, CPU {side.driver_cpu_s:.2f} + {side.executor_cpu_s:.2f} s, "
            f"idle {window.idle_s:.2f} s, {bytes_of[side.side] / 1e6:.1f} MB"
            for side, window in ((pair.bare, pair.bare_window), (pair.ours, pair.ours_window))
        ),
        flush=True,
    )


def _tell_profile(name: str, answer: Answer, rounds: int) -> None:
    if answer.profile is not None:
        print(f"{name}: where the driver's own time goes, per run\n{shown(answer.profile, rounds)}", flush=True)


CASES: dict[str, Case] = {"p1": p1, "p3": p3, "p4": p4, "p5": p5, "p5_join": p5_join}
