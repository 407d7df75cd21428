"""What `run` and `resume` have in common: print the plan, execute it, tell how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from rekindle.cli.boundary import ExitCode, Interrupted
from rekindle.cli.load import Loaded
from rekindle.cli.next_command import line_of, lines_of
from rekindle.cli.options import Settings
from rekindle.cli.plan import console, show, tell
from rekindle.cli.progress import Display
from rekindle.cli.run_options import Choices, options_of
from rekindle.cli.run_session import LazySession
from rekindle.cli.text import say_line
from rekindle.cli.typed import learn
from rekindle.config import Config
from rekindle.errors import Refused, RekindleError, RunFailed, SparkDied
from rekindle.master.facts.events import Event, FailureHandled
from rekindle.master.rules.holes import refuse_holes
from rekindle.master.state.run_state import RunState
from rekindle.model.failures import Failure
from rekindle.model.partitions import Partitions
from rekindle.observe.notices import Notices, already_done
from rekindle.observe.plan import Plan
from rekindle.observe.progress import kept_text
from rekindle.observe.summary import RunSummary
from rekindle.observe.words import is_stale
from rekindle.remedies import ONCE, CommandRemedy, Remedy, StartKind, StartRemedy
from rekindle.service.stop_signal import StopSignal

GO_ON = StartRemedy(kind=StartKind.RESUME)
STREAM_KEPT = "each region of the stream goes on after its last batch, with the next start"


class StreamLines:
    """What a stream says, on the console. `is_used` once there is a stream."""

    def __init__(self, to: Console) -> None:
        self._to = to
        self.is_used = False

    def __call__(self, line: str) -> None:
        self.is_used = True
        tell(self._to, line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """A start as the user asked for it. `named` is the pipeline as they named it."""

    named: str
    loaded: Loaded
    session: LazySession
    settings: Settings
    config: Config
    parameters: Mapping[str, str]
    choices: Choices


def execute(
    starting: Starting,
    *,
    is_new: bool = False,
    run: str = "",
    as_lines: bool = False,
    available_now: bool = False,
    on_begun: Callable[[], None] = lambda: None,
) -> RunSummary:
    """Until everything is published. A failure names the exact next command. As JSON, only what happens is printed to
    stdout: one notice in a line, as a hook gets them."""
    config, to = starting.config, console(is_quiet=as_lines)
    notices = Notices(lambda notice: say_line(notice.json()) if as_lines else None)
    ended: RunState | None = None
    lines = StreamLines(to)

    def show_plan(plan: Plan) -> None:
        show(plan, to)

    def watch(events: tuple[Event, ...], state: RunState) -> None:
        nonlocal ended
        ended = state
        notices(events, state)
        display(events, state)
        if any(isinstance(event, FailureHandled) for event in events) and not starting.session.is_alive():
            raise ConnectionError("the Spark application is gone, and this process cannot start another one")

    with Display(to) as display:
        options = replace(
            options_of(config, starting.choices),
            new=is_new,
            run=run,
            watcher=watch,
            on_plan=show_plan,
            on_begun=on_begun,
            compare_done=True,
            quiet=True,
            available_now=available_now,
            is_asked_to_stop=StopSignal(),
            say=lines,
        )
        try:
            summary = starting.loaded.pipeline.run(
                starting.session, config.location, options=options, **starting.parameters
            )
        except RunFailed as error:
            learn(run=display.number, parameters=starting.parameters)
            looks = list(_looks(ended)) if ended is not None and not isinstance(error, SparkDied) else []
            raise _with_trace(error, starting, looks) from error
        except KeyboardInterrupt:
            learn(run=display.number, parameters=starting.parameters)
            if lines.is_used:
                raise Interrupted(STREAM_KEPT, StartRemedy(to="go on", leaves=ONCE)) from None
            raise Interrupted(kept_text(ended), GO_ON) from None
        except RekindleError:
            learn(run=display.number, parameters=starting.parameters)
            raise
        except Exception as error:
            if starting.session.is_alive():
                raise
            learn(run=display.number, parameters=starting.parameters)
            raise _with_trace(SparkDied(SparkDied.told), starting) from error
    if as_lines and summary.was_done:
        say_line(already_done(summary.pipeline, summary.run).json())
    for line in summary.lines(line_of):
        tell(to, line)
    return summary


def ended(summary: RunSummary) -> ExitCode:
    """A run that is done is no success of this start, if it was done with other code or other inputs."""
    return ExitCode.STALE if summary.was_done and is_stale(summary.differs) else ExitCode.DONE


def _looks(state: RunState) -> Iterator[Remedy]:
    """What else can be done about the first failure of somebody's own code or data: see it again, or leave it out."""
    for failure in state.failing.failures if state.failing else ():
        if not failure.cause.root.kind.blames_partition:
            continue
        vertex = f"{failure.step}[{failure.partitions.lowest}]" if failure.partitions else failure.step
        yield CommandRemedy("reproduce", "see it fail here", vertex=vertex)
        if _may_be_left_out(state, failure):
            yield StartRemedy(to="publish without it", kind=StartKind.RESUME, without=(vertex,))
        return


def _may_be_left_out(state: RunState, failure: Failure) -> bool:
    if not failure.partitions:
        return False
    try:
        refuse_holes(state, {failure.step: Partitions((failure.partitions.lowest,))}, ())
    except Refused:
        return False
    return True


def _with_trace(error: RunFailed, starting: Starting, looks: Sequence[Remedy] = ()) -> RunFailed:
    """The same, with where the full trace is, and with what else can be done."""
    log = starting.session.keep_log()
    message = "\n".join((error.message, *([f"full trace: {log}"] if log else []), *lines_of(looks)))
    return type(error)(message, error.remedies, is_resumable=error.is_resumable)
