"""`rekindle doctor`: what would go wrong, and what to type against it. Starts no Spark.

A check is a line: fine, a warning that stops nothing, or a problem with what to type. The exit code is 3 if there is a
problem.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

import rekindle
from rekindle.cli.boundary import ExitCode
from rekindle.cli.checks import Check, CheckStatus
from rekindle.cli.local_dirs import looked_at
from rekindle.cli.next_command import lines_of, same
from rekindle.cli.options import Settings, with_settings
from rekindle.cli.text import Cell, Column, folded, say, say_json, styled, table, width, wrapped
from rekindle.config import Config, java_home, spark_defaults
from rekindle.engine.executor_settings import executor_notes, settings_in
from rekindle.engine.spark_lines import LINES, SparkLine, line_of
from rekindle.errors import Refused, RekindleError
from rekindle.storage.probe import probe
from rekindle.storage.stores import open_store

JAVA_LEAST = 17
JAVA_SECONDS = 20


COLORS = {CheckStatus.FINE: "green", CheckStatus.WARNING: "yellow", CheckStatus.PROBLEM: "red"}


@click.command("doctor")
@click.option("--json", "is_json", is_flag=True, help="Machine-readable.")
@click.option(
    "--local-dir",
    "local_dirs",
    multiple=True,
    metavar="FOLDER",
    help="A local directory of Spark on this host (SPARK_LOCAL_DIRS, spark.local.dir): report what applications use "
    "there and what killed processes left behind. Can be repeated.",
)
@click.option(
    "--remove-dead",
    "removes",
    is_flag=True,
    help="Delete from these directories what Rekindle created and whose process is gone.",
)
@with_settings
def command(settings: Settings, is_json: bool, local_dirs: tuple[str, ...], removes: bool) -> ExitCode:
    """Check the environment: versions, storage, jar, settings, local folders.

    Doctor starts no Spark. It writes and deletes three small objects at the location, to test that only one of two
    concurrent writers wins.
    """
    config = settings.config()
    own = [*_packages(), _java(), _jar(), _location(config)]
    checks = [*own, *_executors(), *looked_at(local_dirs, removes=removes)]
    if is_json:
        rows = [{"setting": key, "value": value, "from": origin} for key, value, origin in config.rows()]
        made = {"checks": [{**one._asdict(), "verdict": one.verdict.value} for one in checks], "settings": rows}
        say_json(msgspec.json.encode(made))
    else:
        say(_lines(checks, config, width()))
    has_problem = any(one.verdict is CheckStatus.PROBLEM for one in checks)
    return ExitCode.REFUSED if has_problem else ExitCode.DONE


def _lines(checks: list[Check], config: Config, wide: int | None) -> Iterator[str]:
    for one in checks:
        mark = styled(f"{one.verdict.value:<4}", COLORS[one.verdict], bold=True)
        first, *more = wrapped(f"{one.name}: {one.found}", None if wide is None else wide - 5)
        yield f"{mark} {first}"
        yield from (f"     {line}" for line in more)
        if one.next:
            first, *more = one.next.split("\n")
            for line in (f"     next: {first}", *(f"           {line}" for line in more)):
                yield from folded(line, wide)
    yield ""
    above = ", found above the current folder" if config.is_file_above else ""
    yield f"settings{f' (file {config.file}{above})' if config.file else ' (no rekindle.toml)'}"
    head = (Column("SETTING"), Column("VALUE"), Column("FROM"))
    rows = [(key, value, Cell(origin, None if origin == "default" else "cyan")) for key, value, origin in config.rows()]
    yield from table(head, rows, wide)


def _packages() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("Python", CheckStatus.FINE, f"{version}, {sys.executable}")
    yield _rekindle()
    yield _pyspark()


def _rekindle() -> Check:
    try:
        importlib.metadata.version("rekindle")
    except importlib.metadata.PackageNotFoundError:
        told = f"{rekindle.__version__}, run from its sources, not installed"
        return Check("Rekindle", CheckStatus.WARNING, told, "pip install rekindle")
    return Check("Rekindle", CheckStatus.FINE, rekindle.__version__)


def _pyspark() -> Check:
    if importlib.util.find_spec("pyspark") is None:
        return Check(
            "PySpark", CheckStatus.PROBLEM, "not installed: pipelines cannot run here", "pip install 'rekindle[spark]'"
        )
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return Check("PySpark", CheckStatus.WARNING, "installed, but its version is unknown")
    try:
        line_of(version)
    except Refused as refused:
        return Check(
            "PySpark", CheckStatus.PROBLEM, f"{version}: {refused.message}", "\n".join(lines_of(refused.remedies))
        )
    return Check("PySpark", CheckStatus.FINE, version)


def _java() -> Check:
    home = java_home()
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, which has no Java" if home else "none found on PATH"
        return Check("Java", CheckStatus.PROBLEM, where, f"install Java {JAVA_LEAST}, or set JAVA_HOME to it")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("Java", CheckStatus.PROBLEM, f"{java} does not answer: {error}", "set JAVA_HOME to another Java")
    line = next(iter((done.stderr or done.stdout).splitlines()), "")
    major = _major(line)
    if major is None:
        return Check("Java", CheckStatus.WARNING, f"{java} printed {line!r}, which has no version")
    if major < JAVA_LEAST:
        return Check(
            "Java",
            CheckStatus.PROBLEM,
            f"{line} is too old for Rekindle's jar",
            f"set JAVA_HOME to Java {JAVA_LEAST} or newer",
        )
    return Check("Java", CheckStatus.FINE, f"{line}, {java}")


def _major(line: str) -> int | None:
    """17 of `openjdk version "17.0.9" …`, 8 of `java version "1.8.0_292"`."""
    quoted = line.split('"')[1:2]
    numbers = quoted[0].replace("_", ".").split(".") if quoted else []
    if numbers[:1] == ["1"]:
        numbers = numbers[1:]
    digits = "".join(character for character in numbers[0] if character.isdecimal()) if numbers else ""
    return int(digits) if digits else None


def _jar() -> Check:
    spec = importlib.util.find_spec("rekindle")
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent / "engine" / "spark" / "jars"
    found = [path for line in _installed_lines() if (path := folder / line.jar).is_file()]
    if not found:
        names = " or ".join(line.jar for line in _installed_lines())
        told = f"{names} is missing in {folder}"
        return Check("jar", CheckStatus.PROBLEM, told, "pip install --force-reinstall rekindle")
    return Check("jar", CheckStatus.FINE, f"{found[0]}, {found[0].stat().st_size:,} bytes")


def _installed_lines() -> tuple[SparkLine, ...]:
    """The Spark line of the PySpark that is installed; all of them where that is not known."""
    try:
        return (line_of(importlib.metadata.version("pyspark")),)
    except (importlib.metadata.PackageNotFoundError, Refused):
        return LINES


def _executors() -> Iterator[Check]:
    """What Spark's settings for every application change about executors and exchanges."""
    file = spark_defaults()
    if file is not None:
        notes = executor_notes(settings_in(file.read_text(errors="replace")))
        yield from (Check("executors", CheckStatus.WARNING, f"{one}, as {file} says") for one in notes)


def _location(config: Config) -> Check:
    if not config.location:
        return Check(
            "location",
            CheckStatus.WARNING,
            "none is set",
            f"name it: {same(location='s3a://bucket/rekindle')}\nor write `location = …` into rekindle.toml",
        )
    try:
        probe(open_store(config.location, config.storage))
    except RekindleError as error:
        return Check(
            "location", CheckStatus.PROBLEM, f"{error.code} {error.message}", "\n".join(lines_of(error.remedies))
        )
    except Exception as error:
        text = next(iter(str(error).splitlines()), "")
        return Check(
            "location",
            CheckStatus.PROBLEM,
            f"{config.location} cannot be opened: {type(error).__name__}: {text}",
            "look at the location, and at how the store is reached",
        )
    return Check("location", CheckStatus.FINE, f"{config.location}: reachable, and conditional writes work")
