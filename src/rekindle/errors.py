"""The whole error tree. Codes are stable: a user may match on them for ever.

RekindleError                       code  next command or hint is part of every message
├── Refused                         RK1xx nothing was done; the difference is named
├── Fenced                          RK2xx another master owns the run now
├── AppendRejected                  RK301 not written: another record has this number
├── AppendUnknown                   RK302 maybe written: read again before anything else
└── RunFailed                       RK4xx the run stopped; what was kept is named
"""

from __future__ import annotations


class RekindleError(Exception):
    """Base of every error a user can meet. `hint` is what to type or do next."""

    code = "RK000"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message if not hint else f"{message}\n  next: {hint}")
        self.message = message
        self.hint = hint


class Refused(RekindleError):
    """Nothing was done, because doing it could be wrong."""

    code = "RK100"


class Fenced(RekindleError):
    """Another master owns the run; nothing this process does counts any more."""

    code = "RK200"


class AppendRejected(RekindleError):
    """Not written: the sequence number was taken by other bytes."""

    code = "RK301"


class AppendUnknown(RekindleError):
    """Maybe written: only the same bytes may be tried at that number."""

    code = "RK302"


class RunFailed(RekindleError):
    """The run stopped and cannot go on by itself; what finished is kept."""

    code = "RK400"
