"""Cases with two drivers: a run that failed or was killed goes on in a new process with other cores or settings."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from cases import driver as program
from cases.case import EQUAL_OR_REFUSED, Finding, Outcome, case
from cases.context import Context, same
from cases.driver import Said
from local_spark import QUIET
from support.drivers import Driver, kill_driver, start_driver

COMMITS_BEFORE_KILL = 4
# A driver of these cases takes about 20 s alone; the limit only ends one that hangs.
DRIVER_SECONDS_MAX = 600.0
OTHER_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "7",
    "spark.sql.ansi.enabled": "true",
}


def start(
    context: Context, name: str, *words: str, cores: int = 2, settings: Mapping[str, str] | None = None
) -> Driver:
    settings = {
        **QUIET,
        "spark.master": f"local[{cores}]",
        "spark.local.dir": context.path("spark"),
        "spark.sql.warehouse.dir": context.path("warehouse"),
        "spark.sql.shuffle.partitions": "4",
        **(settings or {}),
    }
    script = Path(program.__file__)
    return start_driver(script, name, str(context.folder), *words, folder=context.folder / "drivers", settings=settings)


def said(context: Context, name: str, *words: str, cores: int = 2, settings: Mapping[str, str] | None = None) -> Said:
    """What a driver said at its end."""
    return _answers(context, name, *words, cores=cores, settings=settings)[-1]


def _answers(
    context: Context, name: str, *words: str, cores: int = 2, settings: Mapping[str, str] | None = None
) -> list[Said]:
    """What a driver said after each of its starts."""
    driver = start(context, name, *words, cores=cores, settings=settings)
    try:
        driver.wait(DRIVER_SECONDS_MAX)
        lines = [line for line in driver.text().splitlines() if line.startswith("SAID ")]
        assert lines, f"the driver said nothing: {driver.text()[-2000:]}"
        return [msgspec.json.decode(line[5:], type=Said) for line in lines]
    finally:
        driver.end()


def judged(answer: Said, expected: list[list[int]], reused_min: int) -> Finding:
    """Equal rows with enough reused; equal rows with less is lost work."""
    if answer.kind:
        return Finding(Outcome(answer.kind), answer.error)
    counts = f"computed {answer.computed}, reused {answer.reused}"
    finding = same(expected, answer.rows, counts)
    if finding.outcome is Outcome.EQUAL and answer.reused < reused_min:
        return Finding(Outcome.LOST_WORK, f"{counts}, not at least {reused_min}")
    return finding


@case("24", is_quick=False)
def range_with_other_cores(context: Context) -> Finding:
    """A run over spark.range fails on two cores and is resumed on three: it goes on with what is kept."""
    return _resumed(context, "ranged", [[i, i + 1] for i in range(1000)], reused_min=1)


@case("25", is_quick=False)
def list_with_other_cores(context: Context) -> Finding:
    """A run over createDataFrame fails on two cores and is resumed on three: it goes on with what is kept."""
    return _resumed(context, "listed", [[i, i % 7, i + 1] for i in range(1000)], reused_min=3)


@case("29", is_quick=False)
def killed_and_other_settings(context: Context) -> Finding:
    """A driver is killed after four commits; the next has other cores and shuffle partitions, ANSI and no AQE."""
    return _killed(context, OTHER_SETTINGS)


@case("39", is_quick=False)
def killed_and_other_cores(context: Context) -> Finding:
    """A driver is killed after four commits, and the next has other cores."""
    return _killed(context, {})


@case("31", EQUAL_OR_REFUSED, is_quick=False)
def own_target_killed(context: Context) -> Finding:
    """A pipeline that reads its own target is killed after it published, and started again: counted once."""
    first = said(context, "own_target", "--day", "0")
    assert not first.kind, first.error
    driver = start(context, "own_target", "--day", "1", "--kill-after", "2")
    try:
        code = driver.wait(DRIVER_SECONDS_MAX)
        assert code == -signal.SIGKILL, f"it must be killed, and ended with {code}: {driver.text()[-2000:]}"
    finally:
        driver.end()
    starts = ("plain", "replace:before", "replace:out", "accept:out")
    answers = _answers(context, "own_target", "--day", "1", *(word for one in starts for word in ("--start", one)))
    refused = [one for one, answer in zip(starts, answers, strict=True) if answer.kind == "refused"]
    for answer in answers:
        finding = judged(answer, [[k, 2] for k in range(40)], 0)
        if finding.outcome not in EQUAL_OR_REFUSED:
            return finding
    if len(refused) == len(starts):
        return finding
    return Finding(Outcome.EQUAL, f"refused for the starts {', '.join(refused)}" if refused else "")


def _resumed(context: Context, name: str, expected: list[list[int]], reused_min: int) -> Finding:
    first = said(context, name)
    assert first.kind == "failed", f"the first driver must fail in the middle: {first}"
    (context.folder / "fixed").touch()
    return judged(said(context, name, cores=3), expected, reused_min)


def _killed(context: Context, settings: Mapping[str, str]) -> Finding:
    driver = start(context, "slow")
    try:
        while _commits(context) < COMMITS_BEFORE_KILL:
            assert driver.is_alive(), f"it ended before it could be killed: {driver.text()[-2000:]}"
            time.sleep(0.1)
        time.sleep(1.0)  # The commits are on disk; the journal is given a moment to name them.
        kill_driver(driver)
    finally:
        driver.end()
    ids = {k: range(k, 4000, 40) for k in range(40)}
    expected = [[k, len(of), 2 * sum(of), 2 * max(of)] for k, of in ids.items()]
    return judged(said(context, "slow", cores=3, settings=settings), expected, reused_min=1)


def _commits(context: Context) -> int:
    return sum(1 for folder in context.folder.glob("state/**/_committed") for _ in folder.iterdir())
