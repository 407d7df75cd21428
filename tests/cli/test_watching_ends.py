"""How `run --watch` ends: with the code that the run's own process ends with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.cli.boundary import ExitCode
from rekindle.cli.run_watch import ending_of
from rekindle.master.state.run_state import Phase


@pytest.mark.parametrize(
    ("phase", "for_good", "code", "told"),
    [
        pytest.param(Phase.SUCCEEDED, None, ExitCode.DONE, "done", id="it succeeds"),
        pytest.param(Phase.FAILED, None, ExitCode.RESUMABLE, "failed; ", id="it fails, a resume can help"),
        pytest.param(Phase.FAILED, "overtaken", ExitCode.FAILED, "failed, and cannot be", id="no resume can help"),
        pytest.param(Phase.RUNNING, None, ExitCode.RESUMABLE, "its driver is gone; ", id="its driver dies"),
    ],
)
def test_the_ending_of_a_watched_run(phase: Phase, for_good: str | None, code: ExitCode, told: str) -> None:
    state: Any = SimpleNamespace(phase=phase, gave_up_for_good=for_good)
    found, text = ending_of(state)
    assert found is code and text.startswith(told)


def test_a_run_of_which_nothing_was_seen() -> None:
    assert ending_of(None)[0] is ExitCode.RESUMABLE
