"""Words in an error, and the kind of failure they tell of.

`failure_texts.json` has what Spark 4.3.0 really said when each thing was made to happen: in local mode, on a standalone
cluster (executor killed, out of memory, shuffle files removed), on a full disk and against an S3 server. Stack frames
are cut short and paths renamed, nothing else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from rekindle import errors
from rekindle.engine.spark.failures import (
    cause_in_run,
    cause_of,
    cause_of_ours,
    files_in,
    first_line,
    raised_in,
    signature,
    text_of,
    while_reading,
)
from rekindle.engine.spark.plan import kept_frames
from rekindle.model.failures import FailureKind

RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "failure_texts.json").read_text())
UNREAD = "org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file f.\n"
PYTHON = (
    "org.apache.spark.api.python.PythonException: An exception was thrown from the Python worker:\n"
    'Traceback (most recent call last):\n  File "/jobs/orders.py", line {}, in parse\n    raise\n{}: bad row {}\n'
)


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in RECORDED])
def test_what_spark_really_said(row: dict[str, Any]) -> None:
    cause = cause_of(row["text"])
    assert (cause.kind.name, cause.text, list(files_in(row["text"]))) == (row["kind"], row["shown"], row["files"])


@pytest.mark.parametrize(
    ("name", "root", "kind"),
    [
        ("file_missing", "file:///lake/shop/r1", FailureKind.INPUT_MISSING),
        ("file_missing", "file:/data/in_missing", FailureKind.RESULT_MISSING),
        ("file_missing", "file:/data/in_miss", FailureKind.INPUT_MISSING),
        ("file_truncated", "s3a://lake/shop/r1", FailureKind.INPUT_CORRUPT),
        ("s3_gone", "s3a://rekindle-test", FailureKind.RESULT_MISSING),
        ("s3_short", "s3a://rekindle-test/out", FailureKind.INPUT_CORRUPT),
        ("s3_denied", "s3a://rekindle-test/out", FailureKind.DENIED),
    ],
)
def test_a_file_that_is_not_of_the_run_is_the_users_input(name: str, root: str, kind: FailureKind) -> None:
    (text,) = (row["text"] for row in RECORDED if row["name"] == name)
    assert cause_in_run(text, root).kind is kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        # Said by Spark's source, or by clusters of a kind that is not here.
        ("ExecutorLostFailure (executor 1 exited) Reason: Command exited with code 52", FailureKind.OUT_OF_MEMORY),
        ("Container killed by YARN for exceeding physical memory limits. 5.5 GB of 5.5 GB", FailureKind.OUT_OF_MEMORY),
        (
            "The executor with id 3 exited with exit code 137 (SIGKILL): OOMKilled",
            FailureKind.OUT_OF_MEMORY,
        ),
        (
            "ExecutorLostFailure (executor 2) Reason: Executor heartbeat timed out",
            FailureKind.EXECUTOR_LOST,
        ),
        (
            "FetchFailed(null, shuffleId=0): Missing an output location for shuffle 0",
            FailureKind.EXECUTOR_LOST,
        ),
        ("java.io.IOException: Failed to get broadcast_5_piece0 of broadcast_5", FailureKind.EVICTED),
        ("java.util.concurrent.TimeoutException: Futures timed out after [300 seconds]", FailureKind.TIMED_OUT),
        ("AWSServiceThrottledException: Please reduce your request rate. (Status Code: 503)", FailureKind.READ_ERROR),
        ("java.io.IOException: Input/output error", FailureKind.READ_ERROR),
        ("org.apache.hadoop.security.AccessControlException: Permission denied: user=a", FailureKind.DENIED),
        ("py4j.protocol.Py4JNetworkError: Answer from Java side is empty", FailureKind.APPLICATION_DIED),
        ("something nobody has seen before", FailureKind.EXCEPTION),
        (PYTHON.format(3, "ValueError", "AnalysisException No space left on device"), FailureKind.EXCEPTION),
        # Nothing is wrong with a file that could only not be read in time: it must not be given up.
        (UNREAD + "Caused by: java.net.SocketTimeoutException: Read timed out", FailureKind.TIMED_OUT),
        (UNREAD + "Caused by: java.io.IOException: Stale file handle", FailureKind.READ_ERROR),
        (
            UNREAD + "Caused by: org.apache.http.ConnectionClosedException: Premature end of Content-Length",
            FailureKind.READ_ERROR,
        ),
        (UNREAD + "Caused by: java.io.EOFException", FailureKind.RESULT_CORRUPT),
    ],
)
def test_what_others_say(text: str, kind: FailureKind) -> None:
    assert cause_of(text).kind is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.InputChanged("the input of a changed", "read it again"), FailureKind.INPUT_CHANGED),
        (errors.StepStartsJob("a starts a job: TaskKilled"), FailureKind.USER_ERROR),
        (errors.GraphRefused("a returned nothing\nand more"), FailureKind.USER_ERROR),
        (errors.ParameterRefused("day is a list"), FailureKind.USER_ERROR),
    ],
)
def test_an_error_of_ours_is_judged_by_its_class(error: errors.RekindleError, kind: FailureKind) -> None:
    cause = cause_of_ours(error)
    assert cause is not None and cause.kind is kind
    assert cause.text == f"{type(error).__name__}: {error.message.splitlines()[0]}", "as it was journaled before"


def test_an_error_of_the_user_is_not_taken_for_one_of_ours() -> None:
    """By its text alone it was: a run stopped for good, and was told to read a source again that had not changed."""

    class InputChanged(Exception):
        pass

    assert cause_of_ours(InputChanged("the price")) is None
    assert cause_of(text_of(InputChanged("the price"))).kind is FailureKind.EXCEPTION


def test_an_error_of_analysis_is_never_tried_again() -> None:
    for row in RECORDED:
        if row["name"].startswith("an_"):
            assert not cause_of(row["text"]).is_recoverable


def test_the_users_own_exception_is_shown_with_its_line() -> None:
    raised = raised_in(PYTHON.format(3, "orders.BadRow", 7))
    assert raised is not None
    assert (raised.line, raised.place) == ("orders.BadRow: bad row 7", "orders.py:3 in parse")


ROOT = "file:/runs/daily/20261113T000000Z-aa"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ([f"{ROOT}/results/clean/g1/e1-a3/part-10_00002.c000.snappy.parquet"], "kept result clean[2]"),
        (["file:/lake/day 1/orders.csv"], "/lake/day 1/orders.csv"),
        (["s3a://lake/a.csv", "s3a://lake/b.csv"], "s3a://lake/a.csv, s3a://lake/b.csv"),
        ([f"s3a://lake/{n}" for n in "abcd"], "s3a://lake/a, s3a://lake/b, s3a://lake/c …"),
    ],
)
def test_a_file_of_ours_is_told_as_a_partition_and_any_other_by_its_path(files: list[str], told: str) -> None:
    plain = cause_of(PYTHON.format(3, "ValueError", 7))
    cause = while_reading(plain, files, ROOT)
    assert cause.text == f"{plain.text} (reading {told})"
    assert cause.at == "orders.py:3 in parse" and cause.files == tuple(files[:3])
    assert signature(cause) == signature(cause_of(PYTHON.format(3, "ValueError", 8)))
    assert while_reading(plain, [], ROOT) is plain


def test_paths_may_have_spaces() -> None:
    line = "file:/lake/a b.csv 0+640 file:/lake/c.csv 640+3 "
    assert kept_frames.paths_in(line) == ["file:/lake/a b.csv", "file:/lake/c.csv"]


def test_failures_look_alike_by_exception_and_line_and_not_by_row() -> None:
    def seen(*told: object) -> str:
        return signature(cause_of(PYTHON.format(*told)))

    assert seen(3, "ValueError", "7") == seen(3, "ValueError", "x")
    assert seen(3, "ValueError", 7) != seen(4, "ValueError", 7)
    assert seen(3, "ValueError", 7) != seen(3, "KeyError", 7)
    one, two = (signature(cause_of(f"java.lang.Exception: task {n} at 0x{n}f")) for n in (1, 2))
    assert one == two


def test_a_living_spark_is_read_as_it_was_recorded(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(9).coalesce(1).write.parquet(f"{tmp_path}/a b")
    frame = spark.read.parquet(f"{tmp_path}/a b")
    file = next((tmp_path / "a b").glob("*.parquet"))
    file.unlink()
    with pytest.raises(Exception) as missing:
        frame.collect()
    assert cause_of(text_of(missing.value)).kind is FailureKind.RESULT_MISSING
    assert f"file:{file}" in files_in(text_of(missing.value))
    with pytest.raises(Exception) as raised:
        spark.range(3).select(F.udf(lambda x: 1 // 0, LongType())("id")).collect()
    cause = cause_of(text_of(raised.value))
    assert cause.kind is FailureKind.EXCEPTION
    assert cause.text.startswith("ZeroDivisionError") and "test_failure_kinds.py:" in cause.text


def test_a_sentence_of_ours_has_the_kind_and_the_first_line_that_says_something() -> None:
    assert first_line(ValueError("\n  \nbad row 7\nand a stack")) == "ValueError: bad row 7"
    assert first_line(TimeoutError()) == "TimeoutError: "
