"""`rekindle runs`: all runs of a location, newest first."""

from __future__ import annotations

import time

import click
import msgspec

from rekindle.cli.catalog import Named, each, pipelines, runs_of
from rekindle.cli.next_command import line_of, same
from rekindle.cli.options import Settings, with_settings
from rekindle.cli.run_list import RunList
from rekindle.cli.text import Cell, Column, colored_phase, say, say_json, table, width
from rekindle.errors import NotFound
from rekindle.journal.keys import parameters_of
from rekindle.observe.runs import RunLine
from rekindle.observe.stream_view import StreamLine
from rekindle.observe.words import bytes_text, time_text
from rekindle.pipeline.did_you_mean import did_you_mean
from rekindle.remedies import CommandRemedy
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store

NEWEST = 50
HEAD = (
    Column("RUN"),
    Column("PHASE"),
    Column("STARTED"),
    Column("TOOK", is_right=True),
    Column("PUBLISHED", is_right=True),
    Column("ROWS", is_right=True),
    Column("SIZE", is_right=True),
    Column("KEPT", is_right=True),
    Column("CHANGED"),
    Column("PARAMETERS"),
    Column("NAME"),
    Column("DRIVER"),
)
STREAMS_HEAD = (
    Column("STREAM"),
    Column("PHASE"),
    Column("SINCE"),
    Column("REGIONS", is_right=True),
    Column("GAVE UP", is_right=True),
    Column("RESTARTS", is_right=True),
    Column("LAST FAILURE"),
    Column("PARAMETERS"),
    Column("NAME"),
    Column("DRIVER"),
)
FAILURE_LETTERS_MAX = 80


@click.command("runs")
@click.argument("pipeline", required=False)
@click.option("--all", "is_all", is_flag=True, help=f"All runs, not only the newest {NEWEST}.")
@click.option("--json", "is_json", is_flag=True, help="Machine-readable, one array.")
@with_settings
def command(settings: Settings, pipeline: str | None, is_all: bool, is_json: bool) -> None:
    """List the runs of a location, newest first.

    RUN is pipeline/number, the form that other commands accept. TOOK is the time from the start to the success,
    PUBLISHED the number of sinks that are published, ROWS and SIZE what they have together. KEPT is the number of
    result partitions that are stored: a run that succeeds deletes them, unless results.keep_hours says otherwise. The
    driver of an interrupted run is dead: `rekindle resume` resumes the run.

    Streams are listed below the other runs. SINCE is the time since the last driver took the stream, or since it ended,
    REGIONS how many of its regions have a query.
    """
    config = settings.located()
    store = open_store(config.location, config.storage)
    named = _named(store, pipeline)
    shown = named if is_all else named[:NEWEST]
    keys = {name: parameters_of(store, name) for name in {one.pipeline for one in shown}}
    reader = RunList(store, config.stale_seconds)
    briefs = list(each(store, lambda one: reader.any_of(one, keys[one.pipeline].get(one.run)), shown))
    if is_json:
        say_json(msgspec.json.encode(briefs))
        return
    if not briefs:
        say([f"no run at {store.name} yet", f"next: {line_of(CommandRemedy('run'))}"])
        return
    now_ms = time.time_ns() // 1_000_000
    batches = [_row(brief, now_ms) for brief in briefs if isinstance(brief, RunLine)]
    streams = [_stream(brief, now_ms) for brief in briefs if isinstance(brief, StreamLine)]
    if batches:
        say(table(HEAD, batches, width()))
    if streams:
        say([*([""] if batches else []), *table(STREAMS_HEAD, streams, width())])
    if len(shown) < len(named):
        say([f"{len(named) - len(shown):,} older: {same(is_all=True)}"])


def _named(store: Store, pipeline: str | None) -> list[Named]:
    known = pipelines(store)
    if pipeline is not None and pipeline not in known:
        hint = did_you_mean(pipeline, known) or f"the pipelines are {', '.join(known) or 'none yet'}"
        raise NotFound(f"there is no pipeline {pipeline} at {store.name}", hint)
    found = [one for name in ([pipeline] if pipeline else known) for one in runs_of(store, name)]
    return sorted(found, key=lambda one: (one.run, one.number), reverse=True)


def _row(brief: RunLine, now_ms: int) -> tuple[Cell | str, ...]:
    changed = "" if brief.changed_ms is None else f"{time_text(max(0, now_ms - brief.changed_ms))} ago"
    return (
        f"{brief.pipeline}/{brief.number}",
        colored_phase(brief.phase),
        "" if brief.started_ms is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(brief.started_ms / 1000)),
        _took(brief),
        f"{brief.published}/{brief.sinks}" if brief.sinks else "",
        "" if brief.rows is None else f"{brief.rows:,}",
        "" if brief.bytes is None else bytes_text(brief.bytes),
        f"{brief.kept:,}/{brief.wanted:,}{f', {brief.left_out:,} left out' if brief.left_out else ''}",
        changed,
        parameters_text(brief.parameters),
        brief.run,
        brief.driver,
    )


def _stream(line: StreamLine, now_ms: int) -> tuple[Cell | str, ...]:
    failure = line.failure
    if len(failure) > FAILURE_LETTERS_MAX:
        failure = f"{failure[:FAILURE_LETTERS_MAX]}…"
    ago = "" if line.failed_ms is None else f"{time_text(max(0, now_ms - line.failed_ms))} ago: "
    return (
        f"{line.pipeline}/{line.number}",
        colored_phase(line.phase),
        "" if line.since_ms is None else time_text(max(0, now_ms - line.since_ms)),
        f"{line.running:,}/{line.regions:,}",
        Cell(f"{line.gave_up:,}", "red" if line.gave_up else None),
        f"{line.restarts:,}",
        f"{ago}{failure}" if failure else "",
        parameters_text(line.parameters),
        line.run,
        line.driver,
    )


def _took(brief: RunLine) -> str:
    """Of a run that succeeded, with all the time in which no driver ran."""
    if brief.started_ms is None or brief.ended_ms is None:
        return ""
    return time_text(max(0, brief.ended_ms - brief.started_ms))


def parameters_text(parameters: dict[str, str] | None) -> str:
    return " ".join(f"{name}={value}" for name, value in (parameters or {}).items())
