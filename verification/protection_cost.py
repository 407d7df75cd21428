"""`make protection-cost`: one night of the shop's ETL as a plain script and as a pipeline, without a fault, in turn.

Every side is a process of its own, started as a scheduler would. CPU seconds are those of it and of all that it
started (JVM and Python workers), told by the system when they ended; `plain` runs twice in each round, as the control.
Then each result that is kept and not published is switched off for itself (`result="pipelined"`), and the difference
of CPU seconds is what keeping it costs: below zero it pays for itself, because more than one step reads it. Exit code 0
only if the pipeline takes at most 1.15 of the CPU seconds of the plain script.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds

from nightly.lake import DAYS, Lake
from nightly.shop import COMMAND, HERE, SETTINGS
from rekindle.cli.boundary import ExitCode

CPU_RATIO_MAX = 1.15
PR_SET_CHILD_SUBREAPER = 36
BLOCK = 512
# As bare Spark has it: a night of this size is long enough for the whole compiler.
JIT = "spark.driver.extraJavaOptions"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one process and all that it started took."""

    cpu_s: float
    wall_s: float
    written_mb: float


@dataclass(frozen=True, slots=True)
class Night:
    """One day of a big lake, in a folder."""

    folder: Path
    day: str = DAYS[0]

    def begin(self, scale: int) -> None:
        lake = Lake(self.folder / "lake", 19, scale)
        lake.begin()
        lake.add_day(self.day)
        Lake(self.folder / "lake", 19).add_day(DAYS[1])
        conf = self.folder / "conf"
        conf.mkdir()
        settings = {key: value for key, value in SETTINGS.items() if key != JIT}
        (conf / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))

    def plain(self) -> Cost:
        gold = self._fresh("bare")
        return self._measured([sys.executable, str(HERE / "plain.py"), str(self.folder / "lake"), str(gold), self.day])

    def pipeline(self, pipelined: Sequence[str] = ()) -> Cost:
        self._fresh("gold")
        place = ["--location", str(self._fresh("runs"))]
        return self._measured([str(COMMAND), "run", str(self._script(pipelined)), "-p", f"day={self.day}", *place])

    def plan(self) -> dict[str, object]:
        """As the next night sees it, which is a small one."""
        command = [str(COMMAND), "plan", str(self._script(())), "-p", f"day={DAYS[1]}", "--json"]
        command += ["--location", str(self.folder / "runs")]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=False)
        assert done.returncode == ExitCode.WORK, done.stderr[-3000:]
        return dict(json.loads(done.stdout))

    def rows(self, folder: str) -> tuple[int, int]:
        """How many rows the fact has, and the sum of their cents."""
        found = ds.dataset(self.folder / folder, partitioning="hive").to_table(columns=["cents"])
        return found.num_rows, sum(found["cents"].to_pylist())

    def _script(self, pipelined: Sequence[str]) -> Path:
        text = (HERE / "pipeline.py").read_text()
        for step in pipelined:
            text = with_option(text, step)
        path = self.folder / "pipeline.py"
        path.write_text(text)
        return path

    def _fresh(self, name: str) -> Path:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return self.folder / name

    @property
    def _env(self) -> dict[str, str]:
        places = {"LAKE": str(self.folder / "lake"), "GOLD": str(self.folder / "gold")}
        conf = {"SPARK_CONF_DIR": str(self.folder / "conf"), "PYSPARK_PYTHON": sys.executable}
        return {**os.environ, **places, **conf}

    def _measured(self, command: list[str]) -> Cost:
        os.sync()
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        with (self.folder / "output.txt").open("wb") as output:
            code = subprocess.Popen(command, env=self._env, stdout=output, stderr=output).wait()
        wall = time.monotonic() - began
        reap()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert code == 0, f"{command} ended with {code}:\n{(self.folder / 'output.txt').read_text()[-3000:]}"
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Cost(cpu, wall, (after.ru_oublock - before.ru_oublock) * BLOCK / 1e6)


def with_option(text: str, step: str) -> str:
    """The pipeline with one step that is not kept, and so has no layout of its own."""
    made, count = re.subn(
        rf"@pipeline\.step(?:\([^\n]*\))?\ndef {step}\(", f'@pipeline.step(result="pipelined")\ndef {step}(', text
    )
    assert count == 1, f"{step} is declared otherwise"
    return made


def reap() -> None:
    """Wait for whatever outlived its parent: it is a child of this process then."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def told(name: str, cost: Cost) -> None:
    print(
        f"{name:32} CPU {cost.cpu_s:7.1f} s  wall {cost.wall_s:6.1f} s  written {cost.written_mb:8.1f} MB", flush=True
    )


def kept_steps(plan: dict[str, object]) -> dict[str, int]:
    """Steps whose results are written although nobody publishes them, with their bytes."""
    stages, protects = plan["stages"], plan["protects"]
    assert isinstance(stages, list) and isinstance(protects, list)
    return {one["step"]: one["bytes_written"] for one in stages if one["step"] in protects}


def main() -> int:
    parser = argparse.ArgumentParser(prog="protection_cost")
    parser.add_argument("--scale", type=int, default=150, help="150: about 40 MB for one day")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--step-rounds", type=int, default=2, help="0: no step is switched off")
    asked = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folder = Path(tempfile.mkdtemp(prefix="protection-"))
    night, began = Night(folder), time.monotonic()
    try:
        night.begin(asked.scale)
        pairs: list[tuple[Cost, Cost, Cost]] = []
        for number in range(asked.rounds):
            found = night.plain(), night.pipeline(), night.plain()
            for name, cost in zip(("plain", "pipeline", "plain, the control"), found, strict=True):
                told(f"round {number + 1}: {name}", cost)
            pairs.append(found)
        is_right = night.rows("bare/fact") == night.rows("gold/fact/current")
        steps = kept_steps(night.plan())
        dear = []
        for step, size in steps.items() if asked.step_rounds else ():
            rounds = [(night.pipeline().cpu_s, night.pipeline([step]).cpu_s) for _ in range(asked.step_rounds)]
            more = statistics.median(kept - without for kept, without in rounds)
            dear += [step] if more > 0 else []
            print(f"kept {step:12} {size / 1e6:8.1f} MB, {more:+6.1f} s of CPU against not keeping it", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    cpu = statistics.median(2 * b.cpu_s / (a.cpu_s + c.cpu_s) for a, b, c in pairs)
    wall = statistics.median(2 * b.wall_s / (a.wall_s + c.wall_s) for a, b, c in pairs)
    control = statistics.median(c.cpu_s / a.cpu_s for a, _, c in pairs)
    written = statistics.median(2 * b.written_mb / (a.written_mb + c.written_mb) for a, b, c in pairs)
    holds = is_right and cpu <= CPU_RATIO_MAX
    print(
        f"RESULT protection-cost scale={asked.scale} rounds={asked.rounds} cpu={cpu:.3f} cpu_max={CPU_RATIO_MAX} "
        f"wall={wall:.3f} written={written:.3f} control_cpu={control:.3f} kept_mb={sum(steps.values()) / 1e6:.1f} "
        f"dear={','.join(dear) or 'none'} right={is_right} minutes={(time.monotonic() - began) / 60:.1f} holds={holds}"
    )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
