"""`rekindle demo`: what it refuses, what it writes, what it judges, and once all of it, on real processes."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from cli.calling import call
from first_five_minutes import ROOT, read_page
from rekindle.cli import demo_driver, own_cluster
from rekindle.cli.boundary import ExitCode
from rekindle.cli.demo_acts import saved
from rekindle.cli.demo_driver import Terminal, wait_until
from rekindle.cli.demo_judge import Comparison, RunWork, compare
from rekindle.cli.demo_scene import COMPARE_FILE, ORDERS, PIPELINE_FILE, PIPELINE_NAME, lay_out
from rekindle.cli.load import load
from rekindle.errors import RunFailed
from rekindle.local_cluster.cluster import LocalCluster
from rekindle.local_cluster.processes import Process
from rekindle.model.partitions import Partitions
from rekindle.observe.plan_times import StepRate

SLEEPER = "import time; print('here', flush=True); time.sleep(600)"


def test_without_pyspark_it_is_refused_with_what_to_type(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said = call(capsys, "demo")
    assert said.code == ExitCode.REFUSED
    assert "pyspark, which is not installed" in said.err
    assert "next: pip install 'rekindle[spark]'" in said.err


def test_without_java_it_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    said = call(capsys, "demo")
    assert said.code == ExitCode.REFUSED
    assert "Java 17" in said.err


def test_a_folder_with_something_in_it_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    said = call(capsys, "demo", "--keep", str(tmp_path))
    assert said.code == ExitCode.REFUSED
    assert [one.name for one in tmp_path.iterdir()] == ["mine"]


def test_the_scene_is_a_pipeline_that_fits_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded = load(str(tmp_path / PIPELINE_FILE))
    monkeypatch.delitem(sys.modules, loaded.module.__name__)
    assert loaded.pipeline.name == PIPELINE_NAME
    assert loaded.pipeline.check() == ("orders", "priced", "totals", "result")
    lines = [line for file in (tmp_path / "orders").iterdir() for line in file.read_text().splitlines()]
    assert len(set(lines)) == ORDERS
    compile((tmp_path / COMPARE_FILE).read_text(), COMPARE_FILE, "exec")


def test_other_clusters_and_locations_of_the_environment_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REKINDLE_LOCATION", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.setenv(name, "elsewhere")
    monkeypatch.setenv("JAVA_HOME", "kept")
    cluster = LocalCluster(folder=tmp_path / "cluster")
    found = own_cluster.environment(tmp_path, cluster, 80)
    assert "elsewhere" not in found.values()
    assert found["JAVA_HOME"] == "kept"
    assert (Path(found["SPARK_CONF_DIR"]) / "spark-defaults.conf").is_file()


@pytest.mark.parametrize(
    ("plain", "published", "is_equal", "different"),
    [
        pytest.param(["a", "a", "b"], ["b", "a", "a"], True, 0, id="order does not count"),
        pytest.param(["a", "a", "b"], ["a", "b"], False, 1, id="a row that is there once too seldom"),
        pytest.param(["a"], ["a", "c"], False, 1, id="a row too many"),
        pytest.param(["a"], ["b"], False, 2, id="another row"),
        pytest.param([], [], False, 0, id="nothing proves nothing"),
    ],
)
def test_rows_are_compared_as_multisets(
    plain: list[str], published: list[str], is_equal: bool, different: int, tmp_path: Path
) -> None:
    (tmp_path / "plain.jsonl").write_text("\n".join(plain))
    (tmp_path / "published.jsonl").write_text("\n".join(published))
    found = compare(tmp_path)
    assert found == Comparison(Counter(plain), Counter(published))
    assert (found.is_equal, found.different) == (is_equal, different)


def test_what_was_saved_is_told_by_partitions_and_time() -> None:
    first, last = {"priced": Partitions.parse("0-9")}, {"priced": Partitions.parse("9-15")}
    work = RunWork(16, 2, first, last, {"priced": StepRate(20_000, 10)})
    assert (work.computed_last, work.reused, work.twice, work.saved_ms) == (7, 9, 1, 20_000)
    assert saved(work).startswith(
        "Of 16 result partitions the new driver reused 9 and computed 7, 1 of them for the second time."
    )


def test_a_command_is_shown_as_it_goes_on_and_killed_by_its_pid(tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    typed: list[str] = []
    shown: list[str] = []
    with Terminal(tmp_path, {}, typed.append, shown.append) as terminal:
        command = terminal.types_python("sleeper.py")
        assert wait_until(lambda: shown == ["here"], command)
        command.kill()
        assert not command.is_alive()
        assert command.wait() == -9
        assert not wait_until(lambda: False, command)
    assert typed == ["python sleeper.py"]


@pytest.mark.slow
def test_a_command_is_waited_for_while_anything_moves_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times as long as the limit, and then a file and a line that never come."""
    monkeypatch.setattr(demo_driver, "STALLED_SECONDS", 3.0)
    grows = "import time\nfor n in range(18):\n    time.sleep(0.5)\n    open('journal', 'a').write('x' * 10)\n"
    (tmp_path / "grows.py").write_text(grows)
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    with Terminal(tmp_path, {}, lambda line: None, lambda line: None) as terminal:
        assert terminal.types_python("grows.py").wait() == 0
        hangs = terminal.types_python("sleeper.py")
        assert not wait_until(lambda: False, hangs) and hangs.is_alive()
        with pytest.raises(RunFailed, match=r"sleeper.py` printed and wrote nothing for 3 s") as stalled:
            hangs.wait()
    assert "rekindle demo --keep" in stalled.value.hint


def test_leaving_the_terminal_ends_what_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    with Terminal(tmp_path, {}, lambda line: None, lambda line: None) as terminal:
        process = terminal.types_python("sleeper.py").process
        assert process.is_alive()
    assert not process.is_alive()


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_all_of_it_on_real_processes(tmp_path: Path) -> None:
    """In a process of its own, as a user starts it. What it started is gone afterwards, also its folder. The demo
    itself notices when nothing moves any more."""
    main = "from rekindle.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", main, "demo"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == ExitCode.DONE, done.stdout[-3000:] + done.stderr[-3000:]
    for words in ("$ kill -9 ", "$ rekindle plan shop.py", "$ rekindle resume shop.py", "Equal: 500 rows of 500."):
        assert words in done.stdout
    killed = [int(pid) for line in re.findall(r"\$ kill -9 (.*)", done.stdout) for pid in line.split()]
    workers = [int(pid) for pid in re.findall(r"process(?:es)? (\d+)", done.stdout)]
    assert killed and workers
    assert not any((found := Process.of(pid)) and found.is_alive() for pid in killed + workers)
    assert _living_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == [], "nothing is left"


def _living_in(folder: Path) -> list[str]:
    """The processes whose current folder is in this one, removed or not."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if str(link.readlink()).startswith(str(folder)):
                found.append(link.parent.name)
    return found


def test_the_first_five_minutes_are_read_as_they_are_typed() -> None:
    page = read_page(
        "## First five minutes\nNow `a.py`:\n```python\nx = 1\n```\n```console\n$ go a.py\nerror …: no\n"
        "next: …\n$ go on\n```\n## Next\n```console\n$ not this\n```\n"
    )
    assert page.files == {"a.py": "x = 1\n"}
    failing, healing = page.steps
    assert (failing.command, failing.code, healing.command, healing.code) == ("go a.py", 4, "go on", 0)
    assert failing.is_shown_in("planned\nerror RK1: no\nnext: go on\n")
    assert not failing.is_shown_in("error RK1: yes\nnext: go on\n")
    assert healing.is_shown_in("")


def test_the_first_five_minutes_of_the_readme_end_healed() -> None:
    page = read_page((ROOT / "README.md").read_text())
    for name, text in page.files.items():
        compile(text, name, "exec")
    assert [step.command for step in page.steps if step.code] == ["rekindle run shop.py"]
    assert page.steps[-1].command == "rekindle resume shop.py"
