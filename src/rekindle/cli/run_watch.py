"""Watch the run of these parameters that another process has, to its end."""

from __future__ import annotations

from rekindle.cli.boundary import ExitCode
from rekindle.cli.next_command import line_of
from rekindle.cli.plan import console, tell
from rekindle.cli.progress import Display
from rekindle.cli.run_start import Starting
from rekindle.cli.typed import learn
from rekindle.journal.keys import find_claim
from rekindle.master.state.run_state import Phase, RunState
from rekindle.remedies import StartKind, StartRemedy, new_run
from rekindle.service.watching import watch
from rekindle.storage.stores import open_store

GO_ON = StartRemedy(to="go on with it", kind=StartKind.RESUME)


def watch_living(starting: Starting) -> int:
    """The exit code that the run's own process ends with, as far as the journal tells."""
    config, pipeline, to = starting.config, starting.loaded.pipeline.name, console()
    store = open_store(config.location, config.storage)
    held = find_claim(store, pipeline, starting.parameters)
    assert held is not None, "a living run holds its key"
    learn(run=held.run)
    tell(to, f"watching run {held.run}, which another process is executing")
    with Display(to) as display:
        for events, state in watch(store, pipeline, held.run, stale_seconds=config.stale_seconds):
            display(events, state)
    code, told = ending_of(display.state)
    tell(to, f"run {held.run}: {told}")
    return code


def ending_of(state: RunState | None) -> tuple[ExitCode, str]:
    if state is None:
        return ExitCode.RESUMABLE, f"its driver is gone; {line_of(GO_ON)}"
    match state.phase:
        case Phase.SUCCEEDED:
            return ExitCode.DONE, "done"
        case _ if state.gave_up_for_good is not None:
            return ExitCode.FAILED, f"failed, and cannot be resumed; {line_of(new_run())}"
        case Phase.FAILED | Phase.FAILING:
            return ExitCode.RESUMABLE, f"failed; {line_of(GO_ON)}"
        case _:
            return ExitCode.RESUMABLE, f"its driver is gone; {line_of(GO_ON)}"
