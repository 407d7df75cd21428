"""What machines are told of a run: in order, once each, and by a command that cannot harm the run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from master.driving import Driven
from rekindle.master.state.apply import fold
from rekindle.observe.notices import NoticeKind, Notices, RunNotice, already_done
from rekindle.service import hooks
from rekindle.service.hooks import NoticeHook


def notices_of(run: Driven) -> list[RunNotice]:
    """All that is told of a run, event by event."""
    found: list[RunNotice] = []
    notices, state = Notices(found.append), None
    for event in run.journal:
        state = fold(state, (event,))
        assert state is not None
        notices((event,), state)
    return found


def told(run: Driven) -> list[tuple[str, str]]:
    return [(one.event.value, one.set or one.sink or one.text) for one in notices_of(run)]


def test_a_run_that_fails_and_recovers() -> None:
    run = Driven("a[2] =blocking=> b[2]", sinks=("b",), targets={"b": "out: files /gold"})
    run.commit("a", "0")
    run.fail("a", "1")
    run.finish("a")
    run.finish("b")
    run.publish()
    assert told(run) == [
        ("started", ""),
        ("failed", "a[1]"),
        ("recovered", "a[1]"),
        ("published", "b"),
        ("succeeded", ""),
    ]


def test_the_words_of_a_notice() -> None:
    run = Driven("a[1]", sinks=("a",), targets={"a": "gold: files /gold"})
    run.fail("a", "0")
    run.finish("a")
    run.publish()
    found = notices_of(run)
    recovered, published = json.loads(found[2].json()), json.loads(found[3].json())
    assert recovered == {
        "event": "recovered",
        "pipeline": "pipeline",
        "run": "run",
        "number": 7,
        "at_ms": found[2].at_ms,
        "step": "a",
        "set": "a[0]",
        "seconds": recovered["seconds"],
    }
    assert (published["sink"], published["target"]) == ("a", "gold: files /gold")


def test_a_run_that_gives_up_says_whether_a_resume_can_help() -> None:
    run = Driven("a[1]", sinks=("a",))
    for _ in range(20):
        if not run.state.attempts:
            break
        run.fail("a", "0", signature=f"boom {run.now}")
    run.take_over()
    found = notices_of(run)
    gave_up = next(one for one in found if one.event is NoticeKind.GAVE_UP)
    assert gave_up.is_resumable and gave_up.text
    assert found[-1].event is NoticeKind.STARTED and found[-1].is_resumed


def notice(number: int) -> RunNotice:
    return RunNotice(event=NoticeKind.STARTED, pipeline="daily", run="r", number=number, at_ms=1)


def test_a_hook_is_told_in_order(tmp_path: Path) -> None:
    file = tmp_path / "told"
    code = f"import sys; open({str(file)!r}, 'a').write(sys.stdin.read())"
    with NoticeHook(f'{sys.executable} -c "{code}"') as hook:
        for number in range(3):
            hook.tell(notice(number))
    assert [json.loads(line)["number"] for line in file.read_text().splitlines()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (f"{sys.executable} -c 'raise SystemExit(3)'", "it ended with 3"),
        ("/no/such/command", "No such file"),
        (f"{sys.executable} -c 'import time; time.sleep(60)'", "it did not end within"),
    ],
)
def test_a_hook_that_fails_is_said_once(
    command: str, why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "SECONDS_MAX", 1.0)
    with NoticeHook(command) as hook:
        hook.tell(notice(1))
        hook.tell(notice(2))
    said = capsys.readouterr().err
    assert said.count("the run goes on") == 1 and why in said


def test_without_a_command_nothing_is_started() -> None:
    with NoticeHook("") as hook:
        hook.tell(notice(1))
    assert json.loads(already_done("daily", "r").json())["event"] == "already done"
