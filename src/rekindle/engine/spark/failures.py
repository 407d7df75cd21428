"""What Spark and Python raise, as values: one table from words in an error to failure kinds.

Rules
- An error of ours is judged by its class (`cause_of_ours`), everything else by its text.
- The user's own exception in a Python worker is judged by its last line alone: whatever else stands in the text is
  Spark's. On the JVM the first row of the table that matches decides, so telling words stand above general ones.
- An error of analysis, of parsing and of what cannot be sent to a worker comes back however often it is tried.
- Arithmetic and casts under ANSI, and a record that cannot be parsed, are exceptions like those of the user's code.
- What the table does not know is an exception: it is tried again within the limits.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

import msgspec

from rekindle.errors import GraphRefused, InputChanged, ParameterRefused, RekindleError
from rekindle.model.failures import Cause, FailureKind
from rekindle.pipeline.identity.packages import is_users_file
from rekindle.results.manifest import DATA
from rekindle.results.result_paths import attempt_of
from rekindle.storage.schemes import is_local, plain_path

JVM: tuple[tuple[str, FailureKind], ...] = (
    (r"\bLawViolated: ", FailureKind.INVARIANT),
    (r"\b(?:PinnedInputChanged|ResultBatchGone): ", FailureKind.INPUT_CHANGED),
    (r"\bResultBatchesLost: ", FailureKind.RESULT_MISSING),
    (
        r"SparkContext was shut down|stopped SparkContext|SparkContext has been shutdown|Py4JNetworkError|"
        r"Answer from Java side is empty|Error while sending or receiving|Master removed our application|"
        r'SparkContext\.dagScheduler\(\)" is null',
        FailureKind.APPLICATION_DIED,
    ),
    (r"SPARK_JOB_CANCELLED|Job \d+ cancelled|cancelled (?:because|as part of)|TaskKilled", FailureKind.CANCELLED),
    (
        r"\b(?:AnalysisException|ParseException)\b|PYTHON_VERSION_MISMATCH|Task not serializable|"
        r"NotSerializableException|PicklingError|CONTEXT_ONLY_VALID_ON_DRIVER|cannot pickle",
        FailureKind.USER_ERROR,
    ),
    (r"No space left on device|ENOSPC|DiskOutOfSpace|Disk quota exceeded", FailureKind.NO_SPACE),
    (
        r"OutOfMemoryError|GC overhead limit|UNABLE_TO_ACQUIRE_MEMORY|exceeding (?:memory|physical memory) limits|"
        r"OOMKilled|exited with code 52\b|Requested array size exceeds|SparkOutOfMemory",
        FailureKind.OUT_OF_MEMORY,
    ),
    (
        r"ExecutorLostFailure|Executor heartbeat timed out|RPC client disassociated|FetchFailed|"
        r"Missing an output location for shuffle|Worker lost|Executor \S+ (?:was )?(?:lost|decommission)",
        FailureKind.EXECUTOR_LOST,
    ),
    (
        r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block \S+ not found|BlockNotFoundException|"
        r"Could not get block|Could not find block|Failed to get broadcast_|Block \S+ (?:was )?not found",
        FailureKind.EVICTED,
    ),
    (r"Python worker (?:exited unexpectedly|failed to connect|process terminated)", FailureKind.WORKER_KILLED),
    (r"MALFORMED_RECORD_IN_PARSING|Malformed (?:CSV|JSON) record", FailureKind.EXCEPTION),
    (
        r"AccessDeniedException|AccessControlException|Permission denied|Access Denied|Status Code: 40[13]\b|"
        r"InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|NoAuthWithAWSException",
        FailureKind.DENIED,
    ),
    (
        r"PARQUET_COLUMN_DATA_TYPE_MISMATCH|NoSuchBucket|UnknownStoreException|No FileSystem for scheme",
        FailureKind.USER_ERROR,
    ),
    (
        r"SlowDown|Slow Down|reduce your request rate|Throttl|Status Code: 50[0234]\b|Connection refused|"
        r"Connection reset|UnknownHostException|NoHttpResponseException|No route to host|ConnectTimeout|"
        r"Premature end of (?:Content-Length|chunk)|ConnectionClosedException|SSLException|Stale file handle|"
        r"Input/output error|EIO\b|AWSClientIOException",
        FailureKind.READ_ERROR,
    ),
    (
        r"FileNotFoundException|FILE_NOT_EXIST|NoSuchKey|NoSuchFileException|PATH_NOT_FOUND|File does not exist|"
        r"RemoteFileChangedException",
        FailureKind.RESULT_MISSING,
    ),
    # Above what is damaged: Spark says FAILED_READ_FILE of a read that took too long, too.
    (r"TimeoutException|timed out|BROADCAST_TIMEOUT|Could not execute broadcast in", FailureKind.TIMED_OUT),
    (
        r"is not a Parquet file|ChecksumException|ParquetDecodingException|CANNOT_READ_FILE_FOOTER|"
        r"ZipException|invalid (?:stored block|code lengths)|not in gzip format|Malformed ORC|FAILED_READ_FILE|"
        r"Could not read footer|CorruptStatistics|can not read class org\.apache\.parquet",
        FailureKind.RESULT_CORRUPT,
    ),
    (r"Mkdirs failed to create|Premature EOF|EOFException", FailureKind.READ_ERROR),
)
# Classes of ours that stand in front of a sentence for people.
OF_JAVA = re.compile(r"\b(?:LawViolated|PinnedInputChanged|ResultBatchGone|ResultBatchesLost): ")
PYTHON: tuple[tuple[str, FailureKind], ...] = (
    (r"^(?:\S+\.)?(?:MemoryError|ArrowMemoryError)\b", FailureKind.OUT_OF_MEMORY),
    (r"^(?:\S+\.)?(?:OSError|ArrowException): .*(?:Errno 28\b|No space left)", FailureKind.NO_SPACE),
    (r"^(?:\S+\.)?PicklingError\b|cannot pickle|PYTHON_VERSION_MISMATCH", FailureKind.USER_ERROR),
)
# Errors of ours that are raised in the driver: their class says what they are, and no text is searched.
OURS: tuple[tuple[type[RekindleError], FailureKind], ...] = (
    (InputChanged, FailureKind.INPUT_CHANGED),
    (GraphRefused, FailureKind.USER_ERROR),
    (ParameterRefused, FailureKind.USER_ERROR),
)
OF_INPUT = {
    FailureKind.RESULT_MISSING: FailureKind.INPUT_MISSING,
    FailureKind.RESULT_CORRUPT: FailureKind.INPUT_CORRUPT,
}
# A topic that no longer has what the checkpoint of a stream is to read next: which, and where, stands at the end.
# The class of the error is not always in front of it.
KAFKA_LOST = re.compile(
    r"data may\s+have been lost because they are not available in Kafka.*?\bReason:\s*([^\n]+)", re.DOTALL
)
TRACEBACK = "Traceback (most recent call last):"
FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>.+)$')
# Of a worker on another host, whose Python may lie elsewhere.
LIBRARY = re.compile(r"/pyspark(?:\.zip)?/|/lib(?:64)?/python3\.\d+/|\.p(?:xi|yx)$")
STACK = re.compile(r"^\s+at .*$", re.MULTILINE)
LOST_TASK = re.compile(r"^.*(?:Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): |Most recent failure reason: )")
PY4J = re.compile(r"^Py4JJavaError: An error occurred while calling \S+\s*:?\s*")
NUMBERS = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+")
TEXT_CHARACTERS_MAX = 300
FILES_NAMED_MAX = 3
URI = r"(?:[a-z][a-z0-9+.-]*:/|/)[^\s,;'\"()\[\]]+"
FILES = re.compile(
    rf"(?:while reading file|footer for file:?|schema for file:?|in file|Checksum error:|No such file or directory:?|"
    rf"Path does not exist:|File does not exist:|File|FileNotFoundException:|getFileStatus on|open|Problem reading) "
    rf"(?P<a>{URI})|(?P<b>{URI}) is not a Parquet file"
)


@dataclass(frozen=True, slots=True)
class PythonError:
    """The end of a Python traceback: the line that names the exception, and where the user's own code raised it."""

    line: str
    place: str


def cause_of(error: str) -> Cause:
    """The cause that an error text tells of, with one line for a person to read."""
    raised = raised_in(error)
    if raised is not None:
        text = raised.line[:TEXT_CHARACTERS_MAX]
        told = f"{text}, at {raised.place}" if raised.place else text
        return Cause(_kind(PYTHON, raised.line), told, at=raised.place)
    lines = _lines(error)
    if lost := KAFKA_LOST.search("\n".join(lines)):
        text = f"the topic no longer has what is to be read next: {lost[1]}"
        return Cause(FailureKind.INPUT_CHANGED, text[:TEXT_CHARACTERS_MAX])
    kind = _kind(JVM, "\n".join(lines))
    if kind is FailureKind.EXCEPTION:
        return Cause(kind, _root(lines))
    telling = (line for line in lines if _kind(JVM, line) is kind)
    said = next(telling, _root(lines)).removeprefix("Caused by: ")
    said = OF_JAVA.split(said)[-1]
    return Cause(kind, said[:TEXT_CHARACTERS_MAX])


def cause_of_ours(error: BaseException) -> Cause | None:
    """The cause that an error of ours is; None for what Spark or Python raised."""
    kind = next((kind for ours, kind in OURS if isinstance(error, ours)), None)
    return None if kind is None else Cause(kind, first_line(error)[:TEXT_CHARACTERS_MAX])


def cause_in_run(error: str, root: str) -> Cause:
    """The same for an error of a run whose results lie below `root`: a missing or damaged file that lies elsewhere is
    the user's input, which nobody here can make again."""
    cause = cause_of(error)
    kind = OF_INPUT.get(cause.kind)
    files = files_in(error) if kind else ()
    is_ours = any(path.startswith(f"{_plain(root)}/") for path in files)
    return Cause(kind, cause.text) if kind and files and not is_ours else cause


def _kind(table: tuple[tuple[str, FailureKind], ...], text: str) -> FailureKind:
    return next((kind for pattern, kind in table if re.search(pattern, text)), FailureKind.EXCEPTION)


def raised_in(error: str) -> PythonError | None:
    """The exception of the user's code in a Python worker, from the last traceback in the text that is whole."""
    tracebacks = error.split(TRACEBACK)[1:]
    found = (_end_of(text.splitlines()[1:]) for text in reversed(tracebacks))
    return next((raised for raised in found if raised is not None), None)


def _end_of(traceback: list[str]) -> PythonError | None:
    place = ""
    for line in traceback:
        frame = FRAME.match(line)
        if frame and is_users_file(frame["file"]) and not LIBRARY.search(frame["file"]):
            place = f"{PurePath(frame['file']).name}:{frame['line']} in {frame['name']}"
        if line.strip() and not line.startswith((" ", "\t")):
            return PythonError(line.strip(), place)
    return None


def users_lines(error: str) -> tuple[str, ...]:
    """The user's own frames of the last Python traceback in the text, each with the line of code if it is there."""
    found: list[str] = []
    is_users = False
    for line in error.split(TRACEBACK)[-1].splitlines()[1:] if TRACEBACK in error else ():
        if frame := FRAME.match(line):
            is_users = is_users_file(frame["file"]) and not LIBRARY.search(frame["file"])
        elif line.strip() and not line.startswith((" ", "\t")):
            break
        if is_users and line.strip(" ^~"):
            found.append(line.rstrip())
    return tuple(found)


def _lines(error: str) -> list[str]:
    """What is said, without frames of a stack and without what Spark and py4j put in front of it."""
    said = PY4J.sub("", error.partition("Driver stacktrace:")[0]).replace(": \n", ": ")
    lines = (LOST_TASK.sub("", line.strip()) for line in STACK.sub("", said).splitlines())
    return [line for line in lines if line]


def _root(lines: list[str]) -> str:
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return ([*lines[:1], *causes] or ["no message"])[-1][:TEXT_CHARACTERS_MAX]


def signature(cause: Cause) -> str:
    """Equal for failures that look alike: the same exception at the same line of the user's code; elsewhere the same
    text, whatever numbers and addresses it has."""
    root = cause.root
    seen = f"{root.text.partition(':')[0]} {root.at}" if root.at else NUMBERS.sub("#", root.text)
    return hashlib.sha256(f"{root.kind.value}:{seen}".encode()).hexdigest()[:16]


def while_reading(cause: Cause, files: Sequence[str], root: str) -> Cause:
    """The same cause with the files that the Spark task was reading. A file below `root` is told as the partition of
    the kept result that it is, any other one by its whole path."""
    if not files:
        return cause
    first = tuple(files[:FILES_NAMED_MAX])
    named = ", ".join(_told(path, _plain(root)) for path in first) + (" …" if len(files) > len(first) else "")
    return msgspec.structs.replace(cause, text=f"{cause.text} (reading {named})", files=first)


def _told(path: str, root: str) -> str:
    inside = _plain(path).removeprefix(f"{root}/")
    attempt, file = attempt_of(inside), DATA.search(inside)
    if attempt is None or file is None:
        return plain_path(path) if is_local(path) else path
    return f"kept result {attempt.step}[{int(file[2])}]"


def files_in(error: str) -> tuple[str, ...]:
    """The data files that an error says are missing, short, damaged or not to be read; each once, as the store names
    them (one slash after `file:`, nothing encoded). Spark's own shuffle and cache files are none."""
    found = (match["a"] or match["b"] for match in FILES.finditer(error))
    return tuple(dict.fromkeys(_plain(path) for path in found if "/blockmgr-" not in path))


def _plain(path: str) -> str:
    return unquote(re.sub(r"^file:/+", "file:/", path.rstrip(".:")))


def text_of(error: BaseException) -> str:
    """Everything Spark says about an error: the Java exception with its causes, or the Python one."""
    java: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    said = [f"{type(error).__name__}: {error}"]
    while java is not None and len(said) < 8:
        said.append(f"{java.getClass().getName()}: {java.getMessage()}")
        java = java.getCause()
    return "\n".join(said)


def first_line(error: BaseException) -> str:
    """The kind of an error and the first line of what it says, for a sentence of ours."""
    said = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {said}"
