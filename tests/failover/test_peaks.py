"""The figure of `make orphans`: what a schedule took at the most, against the least it could have taken."""

from __future__ import annotations

from master.driving import Driven
from orphans.peaks import peaks
from rekindle.master.facts import stimuli as st
from rekindle.master.state.commands import DeleteAttempt
from rekindle.model.partitions import Partitions
from rekindle.results import manifest

CHAIN = "a[1] =blocking=> b[1] =blocking=> c[1]"
FILE = manifest.pack([manifest.Commit(partition=0, task=7, name="part-7_00000.c000.parquet", bytes=10)], "{}")


def made(run: Driven, step: str, *, deletes: bool) -> None:
    attempt = run.attempt(step)
    run.give(st.CommitsSeen(attempt=attempt, partitions=Partitions((0,)), manifest=FILE, digests=None, size_bytes=10))
    run.give(st.AttemptEnded(attempt=attempt))
    for command in run.out:
        if deletes and isinstance(command, DeleteAttempt):
            run.give(st.DeletionDone(command.attempt))


def test_what_goes_at_once_takes_the_least() -> None:
    run = Driven(CHAIN, sinks=("c",))
    for step in "abc":
        made(run, step, deletes=True)
    assert peaks(run.journal) == (20, 20)


def test_what_goes_late_takes_more() -> None:
    run = Driven(CHAIN, sinks=("c",))
    for step in "abc":
        made(run, step, deletes=False)
    assert peaks(run.journal) == (30, 20)


def test_what_is_kept_until_the_end_takes_more_though_nobody_needs_it() -> None:
    run = Driven("a[1]@run_end =blocking=> b[1] =blocking=> c[1]", sinks=("c",))
    for step in "abc":
        made(run, step, deletes=True)
    assert peaks(run.journal)[0] == 30
