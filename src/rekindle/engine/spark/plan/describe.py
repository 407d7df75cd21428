"""Call a user's function so that it describes and does nothing else.

A step is built in every driver, and before it is known whether anything of it must run. One that starts a Spark job
while it is built is stopped before the job does anything: every job of this thread belongs to a group that Spark was
told to cancel in advance, and java/JobGuard stops what adaptive execution would start before there is a job. So the
error comes up through the user's own code and has its line. A job whose error the user's code swallowed is found by
counting. Spark may read schemas with jobs of its own (user_session.py), a source may look at its input, and an eager
step may do what it likes.

A step that changes a setting of its session is refused: the session ends with the step's group, so that steps after it
would not see the setting, as they do in a plain program.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.failures import first_line, text_of
from rekindle.engine.spark.jvm import driver_calls, plan_calls
from rekindle.engine.spark.jvm.access import CallFailed
from rekindle.engine.spark.session import NO_JOBS, is_connect, same_active_session
from rekindle.errors import GraphRefused, RekindleError, StepStartsJob, StreamFound
from rekindle.pipeline.constants import TimeAndSeed, known
from rekindle.pipeline.declared import Declared, Role
from rekindle.pipeline.signature import line_of
from rekindle.remedies import StartRemedy, TextRemedy

# Iceberg's source sets these catalogs in each session that it is first used in (format("iceberg")), for itself alone.
SET_BY_SOURCES = tuple(f"spark.sql.catalog.default_{name}" for name in ("iceberg", "cache_iceberg", "rewrite_catalog"))
JOB_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
EVENTS_MS_MAX = 5000
UNKNOWN_SECONDS_MAX = 10.0


def describe(
    one: Declared,
    session: SparkSession,
    frames: Mapping[str, DataFrame],
    given: Mapping[str, Any],
    constants: TimeAndSeed,
    *,
    is_stream: bool = False,
) -> DataFrame:
    """The DataFrame that a step's function returns for these inputs. A sink may return nothing: it is its input.
    Raises `StreamFound` for a streaming one, unless `is_stream`."""
    may_start_jobs = one.is_eager or one.role is Role.SOURCE
    before = plan_calls.all_settings(session)
    jobs = contextlib.nullcontext() if may_start_jobs else _no_jobs(one, session)
    with known(constants), same_active_session(session), jobs:
        made = one.call(frames, session, given)
    _refuse_settings(one, before, plan_calls.all_settings(session))
    if made is None and one.role is Role.SINK and len(one.inputs) == 1:
        return frames[one.inputs[0]]
    if not isinstance(made, DataFrame) or is_connect(made):
        raise _not_a_frame(one, made)
    if made.isStreaming and not is_stream:
        found = StreamFound(
            f"{one.place}: {one.name} returned a streaming DataFrame, and this is a batch pipeline",
            hint="read it as a batch: spark.read in place of spark.readStream",
        )
        found.source = one.name
        raise found
    return made


@contextlib.contextmanager
def or_refused(step: str, function: Any, hint: str) -> Iterator[None]:
    """While user code builds a step: what it raises is a refusal of the step, with the user's line where there is a
    function of the user. Refusals of our own stay as they are."""
    try:
        yield
    except RekindleError:
        raise
    except Exception as error:
        line = line_of(error, function) if function else step
        raise GraphRefused(f"{line}: {step} could not be built: {first_line(error)}", hint) from error


def _refuse_settings(one: Declared, before: set[str], after: set[str]) -> None:
    names = {line.partition("=")[0] for line in before ^ after}
    changed = sorted(name for name in names if not name.startswith(SET_BY_SOURCES))
    if changed:
        raise GraphRefused(
            f"{one.place}: {one.name} changes the Spark setting {', '.join(changed)} while it is built; later steps do "
            "not see the change",
            hint=(
                TextRemedy("change it before the run starts: spark.conf.set(…) before pipeline.run"),
                StartRemedy(to="or when the session starts", conf=tuple((name, "VALUE") for name in changed)),
            ),
        )


def _not_a_frame(one: Declared, made: object) -> GraphRefused:
    if made is None and one.role is Role.SINK:
        return GraphRefused(
            f"{one.place}: sink {one.name} reads {', '.join(one.inputs)} and returns None instead of one of them",
            hint="return the DataFrame to publish",
        )
    if is_connect(made):
        return GraphRefused(
            f"{one.place}: {one.name} returned a DataFrame of Spark Connect, but the session is a classic one",
            hint="make it from the session that the step is given, or from its inputs",
        )
    what = "nothing" if made is None else f"a {type(made).__name__}"
    return GraphRefused(f"{one.place}: {one.name} returned {what}, not a DataFrame", hint="return a DataFrame")


@contextlib.contextmanager
def _no_jobs(one: Declared, session: SparkSession) -> Iterator[None]:
    context = session.sparkContext
    before = driver_calls.jobs_so_far(context)
    tag = f"{NO_JOBS}-{uuid.uuid4().hex[:12]}"
    try:
        with _in_refused_group(session, tag):
            yield
    except StepStartsJob:
        raise
    except Exception as error:
        if NO_JOBS in text_of(error):
            raise _starts_a_job(one, line_of(error, one.function)) from error
        raise
    finally:
        is_stopped = driver_calls.has_stopped_stages(session, tag)
    if is_stopped or _has_started_jobs(context, tag, before):
        raise _starts_a_job(one, one.place)


def _starts_a_job(one: Declared, line: str) -> StepStartsJob:
    return StepStartsJob(
        f"{line}: {one.name} starts a Spark job while it is built; a step must only describe a DataFrame",
        hint="return the DataFrame without an action (count, collect, write, …), or declare the step with eager=True. "
        "If it only reads files: use the `spark` that the step is given as a parameter",
    )


@contextlib.contextmanager
def _in_refused_group(session: SparkSession, tag: str) -> Iterator[None]:
    context = session.sparkContext
    saved = {name: context.getLocalProperty(name) for name in JOB_GROUP}
    driver_calls.refuse_jobs(session, NO_JOBS)
    context.setLocalProperty(JOB_GROUP[0], NO_JOBS)
    context.addJobTag(tag)
    try:
        yield
    finally:
        context.removeJobTag(tag)
        for name, value in saved.items():
            context.setLocalProperty(name, value)


def _has_started_jobs(context: SparkContext, tag: str, before: int) -> bool:
    """Jobs of other threads are known to Spark's status store under other tags, sooner or later: one has its number
    before it is told of. One of ours is known by its tag, or never known, because it was cancelled before it began."""
    after = driver_calls.jobs_so_far(context)
    if after == before:
        return False
    try:
        driver_calls.wait_for_events(context, EVENTS_MS_MAX)
    except CallFailed:
        return driver_calls.has_jobs_of(context, tag)
    unknown, until = list(range(before, after)), time.monotonic() + UNKNOWN_SECONDS_MAX
    while unknown := [job for job in unknown if not driver_calls.is_known_job(context, job)]:
        if time.monotonic() > until:
            return True
        time.sleep(0.05)
    return driver_calls.has_jobs_of(context, tag)
