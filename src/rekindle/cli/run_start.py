"""What `run` and `resume` have in common: print the plan, execute it, tell how it ended."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from rekindle.cli.limits import master_config
from rekindle.cli.load import Loaded
from rekindle.cli.plan import console, show
from rekindle.cli.progress import Display
from rekindle.cli.run_options import Choices
from rekindle.cli.run_session import LazySession
from rekindle.config import Config
from rekindle.errors import RunFailed
from rekindle.observe.plan import Plan
from rekindle.observe.summary import RunSummary
from rekindle.runtime.options import RunOptions


@dataclass(frozen=True, slots=True)
class Starting:
    """A start as the user asked for it. `named` is the pipeline as they named it."""

    named: str
    loaded: Loaded
    session: LazySession
    config: Config
    parameters: Mapping[str, str]
    choices: Choices


def execute(starting: Starting, *, is_new: bool = False, run: str = "") -> RunSummary:
    """Until everything is published. A failure names the exact next command."""
    config, choices, to = starting.config, starting.choices, console()

    def tell(plan: Plan) -> None:
        show(plan, to)

    with Display(to) as display:
        options = RunOptions(
            new=is_new,
            run=run,
            accept_change=choices.accept_change,
            replace=choices.replace,
            force=choices.force,
            storage=config.storage,
            config=master_config(config),
            stale_seconds=config.stale_seconds,
            watcher=display,
            on_plan=tell,
        )
        try:
            summary = starting.loaded.pipeline.run(
                starting.session, config.location, options=options, **starting.parameters
            )
        except RunFailed as error:
            number = str(display.state.order) if display.state else ""
            raise _with_command(error, starting, number) from error
    for line in summary.lines():
        to.print(line, markup=False, soft_wrap=True)
    return summary


def _with_command(error: RunFailed, starting: Starting, number: str) -> RunFailed:
    """The same, with where the full trace is and what to type next."""
    log = starting.session.keep_log()
    message = f"{error.message}\nfull trace: {log}" if log else error.message
    if error.is_resumable:
        hint = f"correct it, then: {shlex.join(['rekindle', 'resume', *_words(starting), starting.named, number])}"
    else:
        key = [word for name, value in starting.parameters.items() for word in ("--param", f"{name}={value}")]
        hint = shlex.join(["rekindle", "run", "--new", *_words(starting), *key, starting.named])
    return RunFailed(message, hint, is_resumable=error.is_resumable)


def _words(starting: Starting) -> list[str]:
    """The flags of this start that the next one needs too."""
    config, choices = starting.config, starting.choices
    found = ["--location", config.location] if config.origins.get("location") == "flag" else []
    found += ["--master", choices.master] if choices.master else []
    return found + [word for key, value in choices.conf for word in ("--conf", f"{key}={value}")]
