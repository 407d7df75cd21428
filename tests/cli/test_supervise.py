"""A parent that restarts a dead driver: its exit code decides, the backoff bounds it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rekindle.cli import supervise
from rekindle.cli.boundary import ExitCode
from rekindle.cli.main import group
from rekindle.cli.next_command import lines_of
from rekindle.cli.typed import begin
from rekindle.config import load_config
from rekindle.errors import Refused, RunFailed
from rekindle.failover.backoff import FixedDelay


def going(codes: list[int], attempts_max: int = 3) -> tuple[int, list[float]]:
    """The answer for drivers that end with these codes, one after the other, and the pauses between them."""
    pauses: list[float] = []
    clock = iter(range(0, 10**9, 5_000))
    answer = supervise.keep_going(
        lambda: codes.pop(0),
        FixedDelay(attempts_max, 2_000),
        now_ms=lambda: next(clock),
        pause=pauses.append,
        jitter=lambda: 0.0,
    )
    return answer, pauses


@pytest.mark.parametrize("code", [ExitCode.DONE, ExitCode.REFUSED, ExitCode.RESUMABLE, ExitCode.FAILED])
def test_what_a_driver_ends_with_by_itself_is_the_answer(code: ExitCode) -> None:
    assert going([int(code)]) == (code, [])


def test_a_driver_that_was_killed_is_restarted() -> None:
    answer, pauses = going([-signal.SIGKILL, 137, -signal.SIGSEGV, 0])
    assert (answer, len(pauses)) == (0, 3)


def test_restarts_are_bounded_and_the_end_can_be_resumed() -> None:
    with pytest.raises(RunFailed, match=r"signal SIGKILL.*the limit of restarts is reached \(3\)") as caught:
        going([-9] * 5)
    begin(group, ["run", "--supervise", "--new", "--force", "daily.py"])
    assert caught.value.is_resumable
    assert list(lines_of(caught.value.remedies)) == ["rekindle run --supervise daily.py"]


def test_the_child_is_the_same_command_without_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    is_same = "sys.argv[1:3] == ['run', '--supervised'] and sys.argv[3].isdigit() and sys.argv[4:] == ['daily.py']"
    monkeypatch.setattr(supervise, "CHILD", f"import sys; sys.exit(0 if {is_same} else 9)")
    assert supervise.supervise(["run", "--supervise", "daily.py"], load_config()) == 0


def test_a_restarted_child_goes_on_with_the_run_that_new_started() -> None:
    first, again = supervise.words_of(["run", "--supervise", "--new", "--force", "daily.py"])
    assert first[:3] == ["run", "--supervised", "--as"] and first[4:] == ["--new", "--force", "daily.py"]
    assert again == [word for word in first if word != "--force"], "the same name, and no word about a living master"


def test_a_checkpoint_and_an_input_are_replaced_by_the_first_child_alone() -> None:
    said = [
        "run",
        "--supervise",
        "--replace",
        "names",
        "--new-checkpoint",
        "a",
        "--new-checkpoint=b",
        "--from",
        "earliest",
        "live.py",
    ]
    first, again = supervise.words_of(said)
    assert first == ["run", "--supervised", *said[2:]], "the user's word, once"
    assert again == ["run", "--supervised", "live.py"], "a second time would read and add everything again"


def test_under_spark_submit_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(Refused, match="spark-submit"):
        supervise.supervise(["run"], load_config())


def test_a_real_child_that_kills_itself_is_seen_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "CHILD", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert supervise._drive([]) == (-signal.SIGKILL, False)


CHILD_OF_THREE = """
import os, signal, sys
from rekindle.cli.supervise import tell_begun
with open({notes!r}, "a+") as notes:
    notes.write(" ".join(sys.argv[4:]) + "\\n")
    notes.flush()
    notes.seek(0)
    number = len(notes.readlines())
if {tells} and number == 2:
    tell_begun(int(sys.argv[3]))
if number < 4:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("tells", [True, False])
def test_what_is_said_once_is_said_until_a_child_has_begun(
    tells: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first child dies before its start is in the journal, the second one after it."""
    notes = tmp_path / "notes"
    monkeypatch.setattr(supervise, "CHILD", CHILD_OF_THREE.format(notes=str(notes), tells=tells))
    monkeypatch.setattr(
        supervise, "keep_going", lambda drive, backoff: next(code for code in iter(drive, None) if code == 0)
    )
    assert (
        supervise.supervise(["run", "--supervise", "--new-checkpoint", "a", "--force", "live.py"], load_config()) == 0
    )
    said, gone_on = "--new-checkpoint a --force live.py", "live.py"
    assert notes.read_text().splitlines() == [said, said, *([gone_on, gone_on] if tells else [said, said])]


@pytest.mark.slow
def test_the_child_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """A folder that somebody else may write into holds a module with the name of a dependency of ours. The parent has
    the path of the installed script, which leaves that folder out."""
    for name in ("msgspec", "click", "rich", "rekindle"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'was_here')!r}, 'w').close()\n")
    words = [sys.executable, "-P", "-c", supervise.CHILD, "run", "--supervise", "nowhere.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == ExitCode.REFUSED and "there is no file nowhere.py" in done.stderr, done.stderr
    assert not (tmp_path / "was_here").exists()


@pytest.mark.slow
def test_the_child_is_isolated_as_its_parent_is() -> None:
    code = "from rekindle.cli.supervise import interpreter; print(*interpreter()[1:])"
    for flags in ([], ["-E"], ["-s"], ["-I"]):
        done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=True)
        told = done.stdout.split()
        assert told[0] == "-P" and set(flags) <= set(told)
