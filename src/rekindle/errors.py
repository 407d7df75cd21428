"""The whole error tree. Codes are stable: a user may match on them for ever.

RekindleError                       code  next command or hint is part of every message
├── Refused                         RK1xx nothing was done; the difference is named
│   ├── GraphRefused                RK110 the pipeline cannot run as it is written; each fault has its source line
│   │   └── StepStartsJob           RK111 a step that should only describe started a Spark job
│   ├── ParameterRefused            RK112 the parameters of the run do not fit the pipeline
│   ├── InputChanged                RK113 a source is not what it was when the run looked at it
│   ├── StoreRefused                RK120 the storage ignores conditions
│   ├── JournalRefused              RK121 a record is damaged, missing or foreign
│   ├── NewerJournal                RK122 written by a newer Rekindle
│   ├── RunClosed                   RK123 the run has its tombstone: nothing can follow
│   └── StillOwned                  RK124 a living master owns the run
├── Fenced                          RK2xx another master owns the run now
├── AppendRejected                  RK301 not written: another record has this number
├── AppendUnknown                   RK302 maybe written: read again before anything else
├── StoreFailed                     RK303 the storage certainly did not do what was asked
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


class GraphRefused(Refused):
    """The pipeline cannot run as it is written. Nothing was started."""

    code = "RK110"


class StepStartsJob(GraphRefused):
    """A step describes; one that starts a Spark job while it is built would start it again in every driver."""

    code = "RK111"


class ParameterRefused(Refused):
    """A parameter of the run is unknown, or of a kind that cannot be part of a run's key."""

    code = "RK112"


class InputChanged(Refused):
    """A source changed between the look at it and the moment it is read."""

    code = "RK113"


class StoreRefused(Refused):
    """The storage cannot keep two masters apart, so that nothing is started on it."""

    code = "RK120"


class JournalRefused(Refused):
    """The journal is not what one master after the other wrote: folding it could be wrong."""

    code = "RK121"


class NewerJournal(Refused):
    """A record has a format, a type or a version that this Rekindle does not know."""

    code = "RK122"


class RunClosed(Refused):
    """The run ended with a tombstone, and its next sequence number is never free again."""

    code = "RK123"


class StillOwned(Refused):
    """Another master holds the run and showed life a moment ago."""

    code = "RK124"


class Fenced(RekindleError):
    """Another master owns the run; nothing this process does counts any more."""

    code = "RK200"


class AppendRejected(RekindleError):
    """Not written: the sequence number was taken by other bytes."""

    code = "RK301"


class AppendUnknown(RekindleError):
    """Maybe written: only the same bytes may be tried at that number."""

    code = "RK302"


class StoreFailed(RekindleError):
    """Certainly not done: the storage refused, was full, or could not be reached before anything was sent."""

    code = "RK303"


class RunFailed(RekindleError):
    """The run stopped and cannot go on by itself; what finished is kept."""

    code = "RK400"
