"""`rekindle check`: each step twice over a sample, before production does it."""

from __future__ import annotations

import click

from rekindle.cli.boundary import ExitCode
from rekindle.cli.next_command import same
from rekindle.cli.options import pipeline_argument, with_parameters
from rekindle.cli.run_options import Choices, with_spark
from rekindle.cli.run_session import session_here
from rekindle.cli.text import say, styled
from rekindle.observe.words import count_text
from rekindle.pipeline.step_trial import Trial

ROWS = 1000


@click.command("check")
@with_parameters
@with_spark
@click.option(
    "--rows", metavar="N", type=click.IntRange(1), default=ROWS, help=f"Rows to read of each source; default: {ROWS}."
)
@pipeline_argument
def command(pipeline: str, parameters: dict[str, str], choices: Choices, rows: int) -> int:
    """Run each step twice on a sample and list the steps whose rows differ; exit 2 if there are any.

    The second time the input has another order and other partitions. Nothing is written. A step with equal rows may
    still differ on other input; `rekindle plan -v` shows what is proved.
    """
    with session_here(pipeline, choices) as session:
        loaded = session.load()
        trials = []
        for trial in loaded.pipeline.try_steps(session, rows=rows, **parameters):
            trials.append(trial)
            say([f"{styled(trial.step, bold=True)}  {said_of(trial)}"])
    return tell(trials, rows)


def said_of(trial: Trial) -> str:
    """One line for each step."""
    if trial.failure:
        return styled(f"could not be tried: {trial.failure}", "red")
    if trial.is_empty:
        return f"{styled('nothing to compare', 'yellow')}: the sample gives no rows, {trial.trust}"
    if trial.is_same:
        return f"{styled('equal', 'green')}: {count_text(trial.rows, 'row')}, {trial.trust}"
    what = f"{trial.different:,} of {count_text(trial.rows, 'row')} differ the second time"
    return f"{styled(what, 'yellow')}, {trial.trust}, such as {trial.example}"


def tell(trials: list[Trial], rows: int = ROWS) -> int:
    """What follows from it."""
    broken = [trial for trial in trials if trial.is_word_broken]
    differing = [trial.step for trial in trials if trial.different]
    failed = [trial.step for trial in trials if trial.failure]
    for trial in broken:
        say([f"{trial.place}: {trial.step} is declared deterministic but is not: remove deterministic=True"])
    if differing:
        say([f"not determinate: {', '.join(differing)}. If a partition is lost, its consumers are recomputed too."])
        say(["Sort the rows, take time and randomness from rk.run_time() and rk.seed(), or keep the step."])
    if empty := [trial.step for trial in trials if trial.is_empty]:
        say([f"not tried: {', '.join(empty)}. A larger sample may help: {same(rows=rows * 10)}"])
    if failed:
        return ExitCode.FAILED
    return ExitCode.WORK if differing else ExitCode.DONE
