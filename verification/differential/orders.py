"""What a worker process is asked for, and what it answers: one line of JSON each."""

from __future__ import annotations

from enum import Enum

import msgspec


class What(Enum):
    BARE = "bare"  # The steps in one plan, without Rekindle.
    RUN = "run"  # The pipeline, or the script, as it stands.


class Order(msgspec.Struct, frozen=True):
    """Load a module and run it in a new session with these settings."""

    what: What
    module: str
    folder: str
    is_onramp: bool
    settings: dict[str, str]


class Status(Enum):
    ROWS = "rows"
    FAILED = "failed"  # The run stopped after it had started, by our own error.
    REFUSED = "refused"  # By our own error, and nothing was started.
    RAW = "raw"  # By an error that is not ours.


class Answer(msgspec.Struct, frozen=True):
    """What came of it. `rows` are in the order in which they were collected, each a list of texts. `cuts` tell of each
    step of a pipeline whether it is kept, and why."""

    status: Status
    rows: list[list[str]] = []
    error: str = ""
    message: str = ""
    trace: str = ""
    cuts: dict[str, str] = {}
    seconds: float = 0.0
    reused: int = 0
