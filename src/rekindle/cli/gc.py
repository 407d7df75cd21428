"""`rekindle gc`: remove what nobody can need any more. Without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import click
import msgspec

from rekindle.cli.boundary import ExitCode
from rekindle.cli.catalog import Named, pipelines, runs_of
from rekindle.cli.next_command import same
from rekindle.cli.options import Settings, with_settings
from rekindle.cli.text import Cell, Column, say, say_json, table, width
from rekindle.errors import NotFound, StoreFailed
from rekindle.gc.collect_location import tend_all, tend_targets, tidy_location
from rekindle.gc.collect_results import tend_streams
from rekindle.gc.collect_run import CLOSED_FOR_GOOD, FILES, JOURNAL, RELEASED, GcItem, GcReport
from rekindle.gc.collect_stream import STREAM
from rekindle.gc.policy import GcAction, RunCondition
from rekindle.observe.words import bytes_text, count_text, time_text
from rekindle.pipeline.did_you_mean import did_you_mean
from rekindle.remedies import StartRemedy
from rekindle.service.limits import rules_of
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store, open_target

LINES_MAX = 50
HEAD = (
    Column("RUN"),
    Column("WHAT"),
    Column("FILES", is_right=True),
    Column("SIZE", is_right=True),
    Column("SINCE"),
    Column("WHY"),
)


@click.command("gc")
@click.argument("pipeline", required=False)
@click.option("--dry-run", "is_dry", is_flag=True, help="Show what would be deleted, and delete nothing.")
@click.option("--all", "is_all", is_flag=True, help=f"List everything, not only the first {LINES_MAX} lines.")
@click.option("--json", "is_json", is_flag=True, help="Machine-readable, one array with an item for each run.")
@with_settings
def command(settings: Settings, pipeline: str | None, is_dry: bool, is_all: bool, is_json: bool) -> int:
    """Delete files that no run needs, and the results of runs that were not resumed in time.

    A file is waste if no journal refers to it: files of tasks that died or committed too late, and of abandoned
    attempts. gc closes a run that did not finish after gc.retention_hours plus gc.grace_hours; until then it can be
    resumed. gc never closes a run that succeeded, is pinned, or has a living driver; of a run that succeeded it deletes
    the results after results.keep_hours.

    Of what was published the newest version of each target stays. A version that was replaced can be read for
    gc.versions_hours more, plus gc.grace_hours; then gc deletes the files that only it has.

    Of a stream gc deletes files in its targets that tries left whose batch another try committed, and batches of its
    results that every reader has passed. Its journal, its checkpoints and its fences stay.
    """
    config = settings.located()
    store = open_store(config.location, config.storage)
    rules = rules_of(config, is_dry=is_dry)
    now_ms = round(store.now() * 1000)
    names = named_pipelines(store, pipeline)
    named = [one for name in names for one in runs_of(store, name)]
    tended = tend_all(store, [(one.pipeline, one.run, one.number) for one in named], rules)
    reports = [report for one, report in zip(named, tended, strict=True) if not _is_only_stream(one, report)]
    for name in names:
        reports += tend_targets(store, name, rules, partial(open_target, storage=config.storage))
        streams = [(one.run, one.number) for one in named if one.is_stream and one.pipeline == name]
        reports += tend_streams(store, name, streams, rules)
    if not is_dry:
        tidy_location(store, rules.terms)
    if is_json:
        say_json(msgspec.json.encode(reports))
    else:
        say(_lines(reports, now_ms, is_dry=is_dry, is_all=is_all))
    return _ended(store, reports)


def named_pipelines(store: Store, pipeline: str | None) -> list[str]:
    """All pipelines of a location, or the one that was named."""
    known = pipelines(store)
    if pipeline is None:
        return known
    if pipeline not in known:
        hint = did_you_mean(pipeline, known) or f"the pipelines are {', '.join(known) or 'none yet'}"
        raise NotFound(f"there is no pipeline {pipeline} at {store.name}", hint)
    return [pipeline]


def _is_only_stream(named: Named, report: GcReport) -> bool:
    """A stream has nothing where the runs of batches are; it is told of apart."""
    return named.is_stream and report.because == RunCondition.NEVER_BEGAN.value


def _lines(reports: list[GcReport], now_ms: int, *, is_dry: bool, is_all: bool) -> Iterator[str]:
    rows = [_row(report, finding, now_ms) for report in reports for finding in report.findings]
    shown = rows if is_all else rows[:LINES_MAX]
    if shown:
        yield from table(HEAD, shown, width())
    if len(shown) < len(rows):
        yield f"{len(rows) - len(shown):,} more: {same(is_dry=True, is_all=True)}"
    for report in reports:
        if report.trouble:
            yield f"{_name(report)} not changed: {report.because} ({report.trouble})"
    yield _total(reports, same(leaves=("is_dry", "is_all")) if is_dry else "")
    yield from _kept(reports)


def _row(report: GcReport, finding: GcItem, now_ms: int) -> tuple[Cell | str, ...]:
    return (
        _name(report),
        what_text(finding),
        f"{finding.files:,}",
        bytes_text(finding.bytes),
        "" if finding.oldest_ms is None else f"{time_text(max(0, now_ms - finding.oldest_ms))} ago",
        finding.why,
    )


def _name(report: GcReport) -> str:
    return report.target or f"{report.pipeline}/{report.number}"


def what_text(finding: GcItem) -> str:
    if finding.what == CLOSED_FOR_GOOD:
        return "the whole run"
    if finding.what == RELEASED:
        return "all its results"
    if finding.what == JOURNAL:
        return "the rest of its journal"
    if finding.what == FILES:
        return "single files"
    return count_text(finding.folders, "directory", "directories")


def _total(reports: Iterable[GcReport], again: str) -> str:
    """All together. `again` is the command that would delete it, where nothing was deleted."""
    findings = [finding for report in reports for finding in report.findings]
    files, size = sum(one.files for one in findings), sum(one.bytes for one in findings)
    closed = sum(one.what == CLOSED_FOR_GOOD for one in findings)
    if not findings:
        return "nothing to delete"
    runs = f"; {count_text(closed, 'run')} closed" if closed else ""
    told = f"{count_text(files, 'file')}, {bytes_text(size)}{runs}"
    return f"would delete: {told}. Nothing was deleted. To delete it: {again}" if again else f"deleted: {told}"


def _kept(reports: Sequence[GcReport]) -> Iterator[str]:
    """Why the other runs stay, and what is waste that is too young."""
    reasons: Counter[str] = Counter()
    young = 0
    for report in reports:
        young += report.young
        if report.act is not GcAction.CLOSE and not report.target and report.kind != STREAM:
            reasons[report.because] += 1
    if reasons:
        told = " · ".join(f"{count:,} ({because})" for because, count in reasons.most_common())
        yield f"runs kept: {told}"
    streams = [report for report in reports if report.kind == STREAM]
    if streams:
        own, targets = ([one for one in streams if bool(one.target) is is_target] for is_target in (False, True))
        yield (
            f"streams kept: {len(own):,} (journals, checkpoints and fences: {_size(own)}; "
            f"in their targets: {_size(targets)})"
        )
    if young:
        yield f"waste younger than gc.grace_hours, kept for now: {count_text(young, 'file')}"


def _size(reports: Iterable[GcReport]) -> str:
    found = [(one.kept_files, one.kept_bytes) for one in reports]
    return f"{count_text(sum(files for files, _ in found), 'file')}, {bytes_text(sum(size for _, size in found))}"


def _ended(store: Store, reports: Iterable[GcReport]) -> int:
    failed = sum(report.is_failed for report in reports)
    if failed:
        raise StoreFailed(
            f"{store.name} failed for {count_text(failed, 'run')}; gc can be repeated safely",
            StartRemedy(to="go on with them"),
        )
    return ExitCode.DONE
