"""`rekindle verify`: is what a run keeps and published still what was written, and would the same be made again?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import click

from rekindle.api import Pipeline, verify_files
from rekindle.cli.boundary import ExitCode
from rekindle.cli.catalog import Named, find_batch
from rekindle.cli.next_command import line_of, same
from rekindle.cli.options import Settings, with_settings
from rekindle.cli.run_options import Choices, with_spark
from rekindle.cli.run_session import LazySession, session_here
from rekindle.cli.text import say, styled
from rekindle.cli.typed import learn
from rekindle.config import Config
from rekindle.errors import NotFound, Refused
from rekindle.journal.keys import parameters_of
from rekindle.observe.verified import ComparisonBasis, ComparisonResult, RunVerification
from rekindle.remedies import CommandRemedy, Remedy, StartKind, StartRemedy, new_run
from rekindle.service.options import RunOptions
from rekindle.service.verifying import Sample, VerifiedRun
from rekindle.storage.stores import open_store

COLORS = {ComparisonResult.EQUAL: "green", ComparisonResult.NOT_COMPARABLE: "yellow", ComparisonResult.DIFFERENT: "red"}
FILES_ALONE = "Only files were compared. --pipeline FILE also recomputes partitions and reads what was published."


@click.command("verify")
@with_settings
@with_spark
@click.option(
    "--pipeline",
    metavar="PIPELINE",
    help="The pipeline file: also recompute partitions and read what was published, and compare them.",
)
@click.option(
    "--sample",
    metavar="N",
    help="Recompute N partitions of each step, or a share such as 0.1 or 10%; default: all.",
)
@click.argument("run", metavar="RUN")
@click.argument("step", metavar="[STEP]", required=False)
def command(
    run: str, step: str | None, settings: Settings, choices: Choices, pipeline: str | None, sample: str | None
) -> int:
    """Compare the files that a run keeps and published with what was written; exit 2 if any differ.

    Verify reads every stored file of the run, or of one STEP, and compares it with the name, length and digest in the
    journal. With --pipeline it also recomputes partitions from kept inputs, reads what sinks published, and compares
    both. It writes and deletes nothing, and does not disturb the run. RUN is a number, a name, or a pipeline's name for
    its newest run.
    """
    wanted = sample_of(sample)
    if wanted is not None and pipeline is None:
        raise Refused(
            "--sample works only with --pipeline, which recomputes partitions",
            f"name the file: {same(pipeline='PIPELINE')}",
        )
    with session_here(pipeline or "verify", choices) as session:
        loaded = session.load() if pipeline is not None else None
        config = settings.located(session.properties())
        store = open_store(config.location, config.storage)
        named = find_batch(store, run)
        parameters = parameters_of(store, named.pipeline).get(named.run, {})
        learn(run=str(named.number), parameters=parameters)
        asked = VerificationRequest(named, pipeline, config, parameters)
        if loaded is None:
            found = verify_files(VerifiedRun(named.pipeline, named.run, config.location, config.storage, session), step)
        else:
            found = _with_code(loaded.pipeline, session, asked, step, wanted)
    return tell(found, asked)


@dataclass(frozen=True, slots=True)
class VerificationRequest:
    """The run that was looked at, and how the user named its file, if they did."""

    named: Named
    pipeline: str | None
    config: Config
    parameters: Mapping[str, str]


def _with_code(
    pipeline: Pipeline, session: LazySession, asked: VerificationRequest, step: str | None, sample: Sample
) -> RunVerification:
    named, config = asked.named, asked.config
    if pipeline.name != named.pipeline:
        raise NotFound(f"run {named} is not a run of {pipeline.name}", "name the file of its pipeline")
    options = RunOptions(run=named.run, storage=config.storage)
    return pipeline.verify(session, config.location, step, sample=sample, options=options, **asked.parameters)


def sample_of(given: str | None) -> Sample:
    """`10` partitions, or `0.1` or `10%` of them."""
    if given is None:
        return None
    try:
        if given.endswith("%"):
            return float(given[:-1]) / 100
        return int(given) if given.isdecimal() else float(given)
    except ValueError:
        raise Refused(f"--sample {given} is not a number", "--sample 10, --sample 0.1 or --sample 10%") from None


def tell(found: RunVerification, asked: VerificationRequest) -> int:
    """Every answer, what to do about the bad ones, and the exit code."""
    say([f"run {asked.named}"])
    for one in found.judged:
        head, *details = one.lines()
        word = f": {one.answer.value}:"
        say([head.replace(word, f": {styled(one.answer.value, COLORS[one.answer])}:", 1), *details])
    *_, sums = found.lines()
    say([sums, *([] if asked.pipeline else [FILES_ALONE])])
    for remedy in remedies(found):
        say([f"next: {line_of(remedy)}"])
    return ExitCode.WORK if found.answer is ComparisonResult.DIFFERENT else ExitCode.DONE


def remedies(found: RunVerification) -> Iterator[Remedy]:
    """What to do about the bad ones."""
    if found.different(ComparisonBasis.FILES) and not found.is_over:
        to = "move the files that are named away, then make again what is missing"
        yield StartRemedy(to=to, kind=StartKind.RESUME)
    elif found.different(ComparisonBasis.FILES, ComparisonBasis.PUBLISHED):
        over = "the run is over; " if found.is_over else ""
        yield new_run(f"{over}a new one computes and publishes it again")
    for step, partitions in found.different(ComparisonBasis.AGAIN).items():
        yield CommandRemedy("reproduce", "see what is made now", vertex=f"{step}[{partitions.lowest}]")
