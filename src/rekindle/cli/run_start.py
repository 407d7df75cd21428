"""What `run` and `resume` have in common: print the plan, execute it, tell how it ended."""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rekindle.cli import hidden
from rekindle.cli.load import Loaded
from rekindle.cli.options import Settings
from rekindle.cli.plan import console, show, tell
from rekindle.cli.progress import Display
from rekindle.cli.run_options import STRATEGY, Choices, options_of
from rekindle.cli.run_session import LazySession
from rekindle.config import HIDDEN, Config
from rekindle.errors import PublishedDiffers, Refused, RekindleError, RowsNotConserved, RunFailed
from rekindle.master.facts.events import Event, FailureHandled
from rekindle.master.rules.holes import refuse_holes
from rekindle.master.state.run_state import RunState
from rekindle.model.failures import Failure
from rekindle.model.partitions import Partitions
from rekindle.observe.plan import Plan
from rekindle.observe.summary import RunSummary
from rekindle.service.running import NEW_RUN


class SparkDied(RunFailed):
    """The process under this one that is Spark's driver is gone. A new one can go on with the run."""


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


def execute(starting: Starting, *, is_new: bool = False, run: str = "") -> RunSummary:
    """Until everything is published. A failure names the exact next command."""
    config, to = starting.config, console()
    ended: RunState | None = None

    def show_plan(plan: Plan) -> None:
        show(plan, to)

    def watch(events: tuple[Event, ...], state: RunState) -> None:
        nonlocal ended
        ended = state
        display(events, state)
        if any(isinstance(event, FailureHandled) for event in events) and not starting.session.is_alive():
            raise ConnectionError("the Spark application is gone, and this process cannot start another one")

    with Display(to) as display:
        options = replace(options_of(config, starting.choices), new=is_new, run=run, watcher=watch, on_plan=show_plan)
        try:
            summary = starting.loaded.pipeline.run(
                starting.session, config.location, options=options, **starting.parameters
            )
        except RunFailed as error:
            looks = list(_looks(ended, starting, display.number)) if ended is not None else []
            raise _with_command(error, starting, display.number, looks) from error
        except RekindleError:
            raise
        except Exception as error:
            if starting.session.is_alive():
                raise
            died = SparkDied("the driver JVM of Spark died; committed results are kept")
            raise _with_command(died, starting, display.number) from error
    for line in summary.lines():
        tell(to, line)
    return summary


def _looks(state: RunState, starting: Starting, number: str) -> Iterator[str]:
    """What else can be done about the first failure of somebody's own code or data: see it again, or leave it out."""
    for failure in state.failing.failures if state.failing else ():
        if not failure.cause.root.kind.blames_partition:
            continue
        vertex = f"{failure.step}[{failure.partitions.lowest}]" if failure.partitions else failure.step
        found = [*starting.settings.words(without=(STRATEGY,)), *hidden.property_words(starting.choices.conf)]
        again = ["rekindle", "reproduce", *found, "--run", number, starting.named, vertex]
        yield f"see it fail here: {shlex.join(again)}"
        if _may_be_left_out(state, failure):
            words = [*_words(starting, without=(STRATEGY,)), starting.named, number, "--without", vertex]
            without = ["rekindle", "resume", *words]
            yield f"publish without it: {shlex.join(without)}"
        return


def _may_be_left_out(state: RunState, failure: Failure) -> bool:
    if not failure.partitions:
        return False
    try:
        refuse_holes(state, {failure.step: Partitions((failure.partitions.lowest,))}, ())
    except Refused:
        return False
    return True


def _with_command(error: RunFailed, starting: Starting, number: str, looks: Sequence[str] = ()) -> RunFailed:
    """The same, with where the full trace is and what to type next."""
    log = starting.session.keep_log()
    message = "\n".join((error.message, *([f"full trace: {log}"] if log else []), *looks))
    if error.is_resumable:
        first = "" if isinstance(error, SparkDied | PublishedDiffers) else "correct it, then: "
        word = ["--republish"] if isinstance(error, PublishedDiffers) else []
        words = _words(starting, without=(STRATEGY,))
        hint = f"{first}{shlex.join(['rekindle', 'resume', *words, *word, starting.named, number])}"
    else:
        key = [word for name, value in starting.parameters.items() for word in ("--param", f"{name}={value}")]
        words = [*_words(starting), *key, starting.named]
        if isinstance(error, RowsNotConserved):
            hint = shlex.join(["rekindle", "run", "--new", "--conf", "spark.sql.adaptive.enabled=false", *words])
        else:
            hint = error.hint.replace(NEW_RUN, shlex.join(["rekindle", "run", "--new", *words]))
    if HIDDEN in hint:
        message = f"{message}\n{hidden.GIVE_AGAIN}"
    return type(error)(message, hint, is_resumable=error.is_resumable)


def _words(starting: Starting, *, without: Container[str] = ()) -> list[str]:
    """The flags of this start that the next one needs too."""
    choices = starting.choices
    found = starting.settings.words(without=without)
    found += [word for sink in choices.take_target for word in ("--take-target", sink)]
    found += ["--master", choices.master] if choices.master else []
    return found + hidden.property_words(choices.conf)
