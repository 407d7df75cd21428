"""What a person sees: a failure and its resume typed into a real terminal, narrow and wide; and a run without one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.terminal import MAIN, Screen, Terminal
from rekindle.cli.boundary import ExitCode

SOURCES = Path(__file__).parent.parent.parent / "src"
ENVIRON = {
    "PYTHONPATH": str(SOURCES),
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "REKINDLE_BACKOFF_INITIAL_MS": "10",
}
HAS_TMUX = shutil.which("tmux") is not None
START = "rekindle run shop_pipeline.py --master 'local[2]' --conf spark.ui.enabled=false"
PIPELINE = """
import rekindle as rk
from pyspark.sql import functions as f

pipeline = rk.Pipeline("shop")


@pipeline.source
def orders(spark):
    return spark.range(40).withColumn("customer", f.col("id") % 8)


@pipeline.step(partition_by="customer", partitions=4)
def priced(orders):
    wrong = f.raise_error(f.lit("order 33 cannot be priced, because its amount is neither a number nor empty"))
    return orders.withColumn("price", f.when(f.col("id") == {poison}, wrong).otherwise(f.col("id") * 2))


@pipeline.sink(rk.files("{folder}/gold"))
def daily(priced): ...
"""


LOUD = """
@f.udf(LongType())
def doubled(order):
    print("a worker was here", file=sys.stderr, flush=True)
    return order * 2
"""


def write(folder: Path, poison: int, *, is_loud: bool = False) -> None:
    """`is_loud` if Python workers write to their stderr."""
    text = PIPELINE.format(folder=folder, poison=poison)
    if is_loud:
        head, _, steps = text.replace('f.col("id") * 2', 'doubled("id")').partition("@pipeline.source")
        text = f"import sys\nfrom pyspark.sql.types import LongType\n{head}{LOUD}@pipeline.source{steps}"
    (folder / "shop_pipeline.py").write_text(text)
    (folder / "rekindle.toml").write_text(f'location = "{folder}/state"\n')


def broken_by_the_terminal(screen: Screen, columns: int) -> list[str]:
    """Lines that are longer than the terminal is wide, without what is to be copied: commands, and paths."""
    return [
        line for line in screen.lines if len(line) > columns and ": rekindle " not in line and len(line.split()) > 1
    ]


@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not HAS_TMUX and not os.environ.get("CI"), reason="tmux is not installed: .ci/run installs it")
@pytest.mark.parametrize("columns", [60, 200])
def test_a_failure_and_its_resume_in_a_terminal(columns: int, tmp_path: Path) -> None:
    assert HAS_TMUX, "CI installs tmux: without it nobody sees what a terminal shows"
    write(tmp_path, poison=33)
    with Terminal(tmp_path, columns, ENVIRON) as terminal:
        failed = terminal.types(START)
        assert failed.code == ExitCode.RESUMABLE, failed.lines
        assert broken_by_the_terminal(failed, columns) == []
        assert [line for line in failed.lines if line.startswith("new run of shop")]
        told = "\n".join(failed.lines)
        assert "error RK400: " in told and "Traceback" not in told
        assert "order 33 cannot be priced" in " ".join(told.split())
        head, _, command = failed.lines[-1].partition(": rekindle resume ")
        assert head == "next: correct it, then"
        _drawn_once(failed)

        write(tmp_path, poison=-1)
        done = terminal.types(f"rekindle resume {command}")
        assert done.code == ExitCode.DONE, done.lines
        assert broken_by_the_terminal(done, columns) == []
        said = " ".join(" ".join(done.lines).split())
        assert "resuming run shop/1: named on the command line" in said
        assert "of shop is done (resumed); it took" in said and "computed 4 partitions, reused 0" in said
        assert said.endswith(f" daily is in files {tmp_path}/gold")
        _drawn_once(done)

        for looked in (
            "rekindle runs",
            "rekindle show",
            "rekindle explain 'priced[0]'",
            "rekindle graph",
            "rekindle graph shop_pipeline.py --if 'priced[0]' --master 'local[2]' --conf spark.ui.enabled=false",
        ):
            screen = terminal.types(looked)
            assert screen.code == ExitCode.DONE and screen.lines
            assert broken_by_the_terminal(screen, columns) == [], looked


def _drawn_once(screen: Screen) -> None:
    """What changes in place leaves nothing behind but its last state."""
    assert sum(line.startswith("priced ") and "━" in line for line in screen.lines) == 1, screen.lines


@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_run_without_a_terminal_prints_plain_lines(tmp_path: Path) -> None:
    write(tmp_path, poison=-1, is_loud=True)
    words = ["run", "shop_pipeline.py", "--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")}
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *words],
        cwd=tmp_path,
        env={**environ, **ENVIRON},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == ExitCode.DONE, done.stderr
    assert done.stderr == "", "what workers and their JVM say goes into Spark's log"
    assert "\x1b" not in done.stdout + done.stderr and "━" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0] == "new run of shop"
    assert [line for line in lines if line.endswith("priced: 4/4 done")]
    assert lines[-1] == f"  daily is in files {tmp_path}/gold"
