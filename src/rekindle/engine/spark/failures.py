"""What Spark and Python raise, as values: one table from words in the error to failure kinds."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from rekindle.model.failures import Cause, FailureKind

# The first row that matches decides: telling words stand above general ones.
TABLE: tuple[tuple[str, FailureKind], ...] = (
    (r"AnalysisException|ParseException", FailureKind.USER_ERROR),
    (r"No space left on device|ENOSPC|DiskOutOfSpace", FailureKind.NO_SPACE),
    (r"OutOfMemoryError|GC overhead limit|UNABLE_TO_ACQUIRE_MEMORY|MemoryError", FailureKind.OUT_OF_MEMORY),
    (r"ExecutorLostFailure|Executor heartbeat timed out|Remote RPC client disassociated", FailureKind.EXECUTOR_LOST),
    (r"Python worker exited unexpectedly", FailureKind.WORKER_KILLED),
    (r"FileNotFoundException|FAILED_READ_FILE\.FILE_NOT_EXIST|NoSuchKey", FailureKind.RESULT_MISSING),
    (
        r"is not a Parquet file|ChecksumException|ParquetDecodingException|CANNOT_READ_FILE_FOOTER|"
        r"FAILED_READ_FILE",
        FailureKind.RESULT_CORRUPT,
    ),
    (r"SparkContext was shut down|Cannot call methods on a stopped SparkContext", FailureKind.APPLICATION_DIED),
    (r"cancelled (because|as part of)|Job \d+ cancelled|SPARK_JOB_CANCELLED", FailureKind.CANCELLED),
)
PYTHON_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Exit|Interrupt|Warning))\b.*$", re.MULTILINE)


def cause_of(error: str) -> Cause:
    """The cause that an error text tells of, with one line for a person to read."""
    for pattern, kind in TABLE:
        if re.search(pattern, error):
            return Cause(kind, one_line(error))
    return Cause(FailureKind.EXCEPTION, one_line(error))


def one_line(error: str) -> str:
    """The user's own exception if there is one, else the first line that says something."""
    lines = PYTHON_ERROR.findall(error) and [m.group(0) for m in PYTHON_ERROR.finditer(error)]
    if lines and "Python worker" in error:
        return str(lines[-1])[:300]
    return next((line.strip() for line in error.splitlines() if line.strip()), "no message")[:300]


def signature(cause: Cause) -> str:
    """Equal for failures that look alike, whatever numbers and addresses their text has."""
    text = re.sub(r"0x[0-9a-f]+|\d+", "#", cause.root.text)
    return hashlib.sha256(f"{cause.root.kind.value}:{text}".encode()).hexdigest()[:16]


def text_of(error: BaseException) -> str:
    """Everything Spark says about an error: the Java exception with its causes, or the Python one."""
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    said = [f"{type(error).__name__}: {error}"]
    while java is not None and len(said) < 8:
        said.append(f"{java.getClass().getName()}: {java.getMessage()}")
        java = java.getCause()
    return "\n".join(said)
