"""Where the files of an attempt lie below its run. The engine writes there, gc reads the names back."""

from __future__ import annotations

import re

from rekindle.errors import JournalRefused
from rekindle.model.ids import AttemptId, Epoch, Generation

RESULTS = "results"
LEVELS = 3  # Directories of a run that lie above that of an attempt.
_ATTEMPT = re.compile(rf"{RESULTS}/([^/]+)/g(\d+)/e(\d+)-a(\d+)/")


def directory_of(attempt: AttemptId) -> str:
    """Below the run: the epoch is in the name, so that no later master can be given the same one. The step may come
    from a journal: one that would lead elsewhere is refused."""
    if "/" in attempt.step or attempt.step in ("", ".", ".."):
        raise JournalRefused(f"{attempt.step!r} is not the name of a step: nothing is read or deleted there")
    return f"{RESULTS}/{attempt.step}/g{attempt.generation}/e{attempt.epoch}-a{attempt.number}"


def step_of(path: str) -> str:
    """The step that made a data file, by its whole path. What lies above the run may look like a result, too."""
    return str(_ATTEMPT.findall(path)[-1][0])


def attempt_of(path: str) -> AttemptId | None:
    """The attempt that a file below the run belongs to; None if it lies in no attempt's directory."""
    found = _ATTEMPT.match(path)
    if found is None:
        return None
    step, generation, epoch, number = found.groups()
    attempt = AttemptId(step, Generation(int(generation)), Epoch(int(epoch)), int(number))
    return attempt if path.startswith(f"{directory_of(attempt)}/") else None
