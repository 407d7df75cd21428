"""Words in an error, and the kind of failure they tell of."""

from __future__ import annotations

import pytest

from rekindle.engine.spark.failures import cause_of, signature
from rekindle.model.failures import FailureKind

PYTHON = (
    "org.apache.spark.api.python.PythonException: An exception was thrown from the Python worker:\n"
    "Traceback (most recent call last):\n  File 'x.py', line 3, in f\nValueError: bad row {}\n"
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (PYTHON.format(7), FailureKind.EXCEPTION),
        ("org.apache.spark.sql.AnalysisException: [UNRESOLVED_COLUMN]", FailureKind.USER_ERROR),
        ("java.io.IOException: No space left on device", FailureKind.NO_SPACE),
        ("java.lang.OutOfMemoryError: Java heap space", FailureKind.OUT_OF_MEMORY),
        ("ExecutorLostFailure (executor 1 exited)", FailureKind.EXECUTOR_LOST),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", FailureKind.WORKER_KILLED),
        ("java.io.FileNotFoundException: no such file", FailureKind.RESULT_MISSING),
        ("java.lang.RuntimeException: x.parquet is not a Parquet file", FailureKind.RESULT_CORRUPT),
        ("org.apache.spark.SparkException: Job 3 cancelled as part of tag", FailureKind.CANCELLED),
        ("java.lang.IllegalStateException: SparkContext was shut down", FailureKind.APPLICATION_DIED),
        ("something nobody has seen before", FailureKind.EXCEPTION),
    ],
)
def test_kinds(text: str, kind: FailureKind) -> None:
    assert cause_of(text).kind is kind


def test_the_users_own_exception_is_what_is_shown() -> None:
    assert cause_of(PYTHON.format(7)).text == "ValueError: bad row 7"


def test_failures_that_differ_in_numbers_look_alike() -> None:
    one, two = (signature(cause_of(PYTHON.format(row))) for row in (7, 8))
    assert one == two != signature(cause_of("java.lang.OutOfMemoryError"))
