"""`rekindle results`: what is kept of runs, and why; keep it for ever, or give it up. Without Spark."""

from __future__ import annotations

import getpass
import os
import time

import click
import msgspec

from rekindle.cli.boundary import ExitCode
from rekindle.cli.catalog import Named, each, find_run, pipelines, runs_of
from rekindle.cli.gc import what_text
from rekindle.cli.next_command import line_of, same
from rekindle.cli.options import Settings, with_settings
from rekindle.cli.text import Cell, Column, say, say_json, table, width
from rekindle.config import Config
from rekindle.errors import Refused, RunClosed, StillOwned, StoreFailed
from rekindle.gc.close_stream import close_stream
from rekindle.gc.collect_run import GcReport, RunCollector
from rekindle.gc.holdings import StepHolding, holdings
from rekindle.gc.inspect_run import RunInspection, look_at
from rekindle.gc.policy import GcAction, RunCondition
from rekindle.gc.stream_holdings import stream_holdings
from rekindle.master.state.run_state import Phase
from rekindle.observe.words import bytes_text, count_text, time_text
from rekindle.remedies import CommandRemedy
from rekindle.runtime import pins
from rekindle.runtime.pins import RunPin
from rekindle.service import streaming
from rekindle.service.limits import rules_of
from rekindle.storage.one_clock import with_one_clock
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store

NEWEST = 50
HEAD = (
    Column("RUN"),
    Column("STEP"),
    Column("PARTITIONS", is_right=True),
    Column("SIZE", is_right=True),
    Column("KEPT FOR"),
    Column("WHY"),
)


class KeptResultLine(msgspec.Struct, frozen=True):
    """One line of the list."""

    pipeline: str
    run: str
    number: int
    holding: StepHolding


@click.group("results")
def command() -> None:
    """Manage the results that runs keep: list, pin, unpin or release them."""


@command.command("ls")
@click.argument("run", metavar="[RUN]", required=False)
@click.option("--all", "is_all", is_flag=True, help=f"All runs, not only the newest {NEWEST}.")
@click.option("--json", "is_json", is_flag=True, help="Machine-readable, one array.")
@with_settings
def ls(settings: Settings, run: str | None, is_all: bool, is_json: bool) -> None:
    """List the results that are kept, with their sizes and the reasons."""
    config, store = _opened(settings)
    named = [find_run(store, run)] if run else _newest(store)
    shown = named if is_all else named[:NEWEST]
    known = {name: pins.all_pins(store, name) for name in {one.pipeline for one in shown}}
    clocked = with_one_clock(store)

    def held(one: Named) -> list[KeptResultLine]:
        pin = known[one.pipeline].get(one.run)
        if one.is_stream:
            streams = stream_holdings(clocked, one.pipeline, one.run, pin)
            return [KeptResultLine(one.pipeline, one.run, one.number, holding) for holding in streams]
        look = _look(clocked, one, config, pin)
        found = holdings(look, rules_of(config).terms, pin)
        return [KeptResultLine(one.pipeline, one.run, one.number, holding) for holding in found]

    kept = [line for lines in each(store, held, shown) for line in lines]
    if is_json:
        say_json(msgspec.json.encode(kept))
        return
    if kept:
        say(table(HEAD, [_row(one) for one in kept], width()))
    sizes = [one.holding.bytes or 0 for one in kept]
    say([f"{count_text(len(kept), 'result')} of {count_text(len(shown), 'run')}, {bytes_text(sum(sizes))}"])
    if len(shown) < len(named):
        say([f"{len(named) - len(shown):,} older: {same(is_all=True)}"])


@command.command("pin")
@click.argument("run", metavar="RUN")
@click.option("--why", default="", metavar="TEXT", help="A note for other users: why it is pinned.")
@with_settings
def pin(settings: Settings, run: str, why: str) -> int:
    """Pin a run: its results are kept until it is unpinned. Of a stream these are the results between its regions."""
    config, store = _opened(settings)
    named = find_run(store, run)
    wanted = RunPin(_user(), time.time_ns() // 1_000_000, why)
    _refuse_gone(store, named, config)
    found = pins.put_pin(store, named.pipeline, named.run, wanted)
    try:
        # gc takes its sign away when the journal says that the run is closed: so the sign first.
        pins.refuse_closing(store, named.pipeline, named.run)
        _refuse_gone(store, named, config)
    except Refused:
        if found == wanted:
            pins.remove_pin(store, named.pipeline, named.run)
        raise
    say([f"{'stream' if named.is_stream else 'run'} {named} is {found}"])
    return ExitCode.DONE


@command.command("unpin")
@click.argument("run", metavar="RUN")
@with_settings
def unpin(settings: Settings, run: str) -> int:
    """Unpin a run: gc may delete its results again."""
    config, store = _opened(settings)
    named = find_run(store, run)
    found = pins.find_pin(store, named.pipeline, named.run)
    pins.remove_pin(store, named.pipeline, named.run)
    say([f"run {named} is no longer pinned" if found else f"run {named} was not pinned"])
    if found and not named.is_stream and _look(store, named, config).facts.found is RunCondition.SUCCEEDED:
        release = line_of(CommandRemedy("results release", run=str(named)))
        say([f"its results are kept until you release them: {release}"])
    return ExitCode.DONE


@command.command("release")
@click.argument("run", metavar="RUN")
@click.option("--dry-run", "is_dry", is_flag=True, help="Show what would be deleted, and delete nothing.")
@with_settings
def release(settings: Settings, run: str, is_dry: bool) -> int:
    """Close a run now, and delete its results.

    A closed run cannot be resumed. gc closes a run in the same way after the retention time. A run that is pinned or
    has a living driver is refused. What the run published is not deleted.

    Of a stream these are its checkpoints, and the results between its regions. gc never closes a stream by itself.
    """
    config, store = _opened(settings)
    named = find_run(store, run)
    if named.is_stream:
        rules = rules_of(config, is_dry=is_dry)
        _say_deleted(named, close_stream(store, named.pipeline, named.run, named.number, rules), is_dry=is_dry)
        return ExitCode.DONE
    held = pins.find_pin(store, named.pipeline, named.run)
    if held is not None:
        raise Refused(f"run {named} is {held}", CommandRemedy("results unpin", run=str(named)))
    look = _look(store, named, config)
    _refuse_closed(named, look)
    if look.facts.found is RunCondition.LIVING:
        raise StillOwned(f"run {named} has a living driver", "stop it, or wait for its end")
    report = RunCollector(store, named.pipeline, rules_of(config, is_dry=is_dry)).tend(
        named.run, named.number, is_asked=True
    )
    if report.act is not GcAction.CLOSE:
        kind = StoreFailed if report.is_failed else Refused
        raise kind(
            f"run {named} was not closed: {report.because} ({report.trouble})", CommandRemedy("show", run=str(named))
        )
    _say_deleted(named, report, is_dry=is_dry)
    return ExitCode.DONE


def _say_deleted(named: Named, report: GcReport, *, is_dry: bool) -> None:
    if not report.findings:
        say([f"nothing to delete: {report.because}"])
    for finding in report.findings:
        verb = "would delete" if is_dry else "deleted"
        size = f"{count_text(finding.files, 'file')}, {bytes_text(finding.bytes)}"
        say([f"{verb}: {what_text(finding)} {named}, {size}"])


def _user() -> str:
    """By name; a container may run as a number that has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _opened(settings: Settings) -> tuple[Config, Store]:
    config = settings.located()
    return config, open_store(config.location, config.storage)


def _newest(store: Store) -> list[Named]:
    found = [one for name in pipelines(store) for one in runs_of(store, name)]
    return sorted(found, key=lambda one: (one.run, one.number), reverse=True)


def _look(store: Store, named: Named, config: Config, pin: RunPin | None = None) -> RunInspection:
    return look_at(store, named.folder, store.now(), config.stale_seconds, is_pinned=pin is not None)


def _refuse_gone(store: Store, named: Named, config: Config) -> None:
    if named.is_stream:
        streaming.look(store, named.pipeline, named.run)
    else:
        _refuse_closed(named, _look(store, named, config))


def _refuse_closed(named: Named, look: RunInspection) -> None:
    """Also where the living master is a gc that deletes."""
    is_closing = look.state is not None and look.state.phase is Phase.CLOSING
    if is_closing or look.facts.found in (RunCondition.CLOSING, RunCondition.CLOSED):
        found = RunCondition.CLOSING if is_closing else look.facts.found
        raise RunClosed(f"run {named} has no results: {found.value}", CommandRemedy("runs"))


def _row(one: KeptResultLine) -> tuple[Cell | str, ...]:
    holding = one.holding
    return (
        f"{one.pipeline}/{one.number}",
        holding.step,
        f"{holding.partitions:,}/{holding.of:,}",
        bytes_text(holding.bytes),
        "" if holding.left_ms is None else time_text(max(0, holding.left_ms)),
        holding.why,
    )
