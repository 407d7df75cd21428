"""The whole error tree. Codes are stable: a user may match on them for ever.

RekindleError                       code  next command or hint is part of every message
├── Refused                         RK1xx nothing was done; the difference is named
│   ├── ConfigRefused               RK101 a setting is unknown, or its value has no meaning
│   ├── NotFound                    RK102 no run, step or pipeline is called that, or several are
│   ├── GraphRefused                RK110 the pipeline cannot run as it is written; each fault has its source line
│   │   ├── StepStartsJob           RK111 a step that should only describe started a Spark job
│   │   └── StreamFound             RK114 a source is a stream, and this is for pipelines that end
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
│   └── StoreDenied                 RK304 and it will not, until somebody acts
└── RunFailed                       RK4xx the run stopped; what was kept is named
    ├── SparkDied                   RK401 the JVM of the driver is gone; another driver can go on
    ├── PublishedDiffers            RK410 what a sink that is or may be published was made from came back different
    └── RowsNotConserved            RK411 Spark wrote rows elsewhere than the layout says, or not all of them
"""

from __future__ import annotations

import re
from typing import ClassVar

from rekindle.remedies import (
    CommandRemedy,
    Hint,
    Remedy,
    StartKind,
    StartRemedy,
    TextRemedy,
    in_python,
    new_run,
    remedies_of,
)

# What a terminal, a browser or a reader takes for a command instead of a letter: control characters but for line ends
# and tabs, marks that turn the direction of writing, characters that nobody sees, and halves of characters.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """The text with the escape (`\\u001b`) of every character that does something instead of being seen. Texts of
    exceptions, parameters and names are somebody else's, and may hold values of rows: they pass through here before
    they are printed. JSON stays the same JSON."""
    return _UNSEEN.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


class Notice(UserWarning):
    """A warning of Rekindle. The command line prints it as one line."""


class RekindleError(Exception):
    """Base of every error a user can meet. `remedies` are what can be done next, and `hint` is their text for Python;
    `advice` is what helps in general, for the failure catalogue and where nothing better is known."""

    code = "RK000"
    advice: ClassVar[tuple[Remedy, ...]] = (CommandRemedy("doctor"),)

    def __init__(self, message: str, hint: Hint = "") -> None:
        given = remedies_of(hint)
        self.hint = "; ".join(map(in_python, given))
        super().__init__(message if not given else f"{message}\n  next: {self.hint}")
        self.message = message
        self.remedies = given or self.advice

    def __str__(self) -> str:
        """As a script that ends with it prints it."""
        return visible(super().__str__())


class Refused(RekindleError):
    """Rekindle refused to act, because the result could be wrong. Nothing was changed."""

    code = "RK100"
    advice: ClassVar[tuple[Remedy, ...]] = (StartRemedy(to="read what differs, correct it, then"),)


class ConfigRefused(Refused):
    """A setting is unknown, or its value is not valid. The message names the file or variable and the key."""

    code = "RK101"
    advice = (CommandRemedy("doctor", "see every setting, and where its value came from"),)


class NotFound(Refused):
    """There is no run, step, pipeline or file of that name, or there are several."""

    code = "RK102"
    advice = (CommandRemedy("runs", "see what there is"),)


class GraphRefused(Refused):
    """The pipeline cannot run as it is written. No Spark job was started."""

    code = "RK110"
    advice: ClassVar[tuple[Remedy, ...]] = (StartRemedy(to="correct the line that is named, then"),)


class StepStartsJob(GraphRefused):
    """A step starts a Spark job while it is built. It must only describe a DataFrame: each driver builds it again."""

    code = "RK111"
    advice = (TextRemedy("describe the result without collect(), count() or write, or say `eager=True` at the step"),)


class StreamFound(GraphRefused):
    """A source is a stream, and what was asked for is for batch pipelines. `run`, `plan` and `graph` take streams."""

    code = "RK114"
    advice = (TextRemedy("read it as a batch: spark.read in place of spark.readStream"),)
    # The name of the source, where it is known.
    source = ""


class ParameterRefused(Refused):
    """A parameter of the run is unknown, or has a type that cannot be part of the key of a run."""

    code = "RK112"
    advice = (TextRemedy("give exactly the parameters that the steps ask for, such as `day=2026-11-13`"),)


class InputChanged(Refused):
    """A source changed after Rekindle recorded it and before, or while, Spark read it."""

    code = "RK113"
    advice = (StartRemedy(to="look at the source anew"),)


class StoreRefused(Refused):
    """The storage has no working conditional writes, so two drivers could own one run. No run is started on it."""

    code = "RK120"
    advice = (TextRemedy("use a store with conditional writes"), CommandRemedy("doctor", "see what was tried"))


class JournalRefused(Refused):
    """The journal is damaged or incomplete. Its state cannot be trusted, so it is not used."""

    code = "RK121"
    advice = (TextRemedy("restore the object that is named from a backup"), new_run("or start over"))


class NewerJournal(Refused):
    """A newer version of Rekindle wrote the journal: this one does not know its format or an event type."""

    code = "RK122"
    advice = (TextRemedy("pip install -U rekindle"),)


class RunClosed(Refused):
    """The run is closed: its results are deleted, and it cannot be resumed."""

    code = "RK123"
    advice = (new_run(),)


class StillOwned(Refused):
    """Another process owns the run, and its last heartbeat is recent."""

    code = "RK124"
    advice = (
        CommandRemedy("runs", "see its owner, then wait for it or stop it"),
        StartRemedy(to="or take the run over", force=True),
    )


class Fenced(RekindleError):
    """Another driver took over the run. This process has no effect on the run any more, and ends."""

    code = "RK200"
    advice = (CommandRemedy("show", "nothing, the run goes on in the process that is named; see how far it is"),)


class AppendRejected(RekindleError):
    """A journal record was not written, because another record has its number."""

    code = "RK301"
    advice = (StartRemedy(to="read what was written meanwhile"),)


class AppendUnknown(RekindleError):
    """A journal record may or may not be written: the storage gave no definite answer."""

    code = "RK302"
    advice = (StartRemedy(to="go on when the storage answers (it is read before anything is written)"),)


class StoreFailed(RekindleError):
    """The storage failed and wrote nothing: it was full, or could not be reached. A retry can help."""

    code = "RK303"
    advice: ClassVar[tuple[Remedy, ...]] = (
        CommandRemedy("doctor", "try the storage"),
        StartRemedy(to="when it answers"),
    )


class StoreDenied(StoreFailed):
    """The storage denied access and wrote nothing, and a retry cannot help until somebody acts: there are no
    credentials, no permission or no such bucket, or the disk is read-only."""

    code = "RK304"
    advice = (
        TextRemedy("give this user access to the storage that is named, or use another location"),
        StartRemedy(to="then"),
    )


class RunFailed(RekindleError):
    """The run stopped. Committed results are kept. `is_resumable` is true if a resume can help."""

    code = "RK400"
    advice: ClassVar[tuple[Remedy, ...]] = (
        CommandRemedy("show", "see what failed and what is kept"),
        StartRemedy(to="correct it, then", kind=StartKind.RESUME),
    )

    def __init__(self, message: str, hint: Hint = "", *, is_resumable: bool = True) -> None:
        super().__init__(message, hint)
        self.is_resumable = is_resumable


class SparkDied(RunFailed):
    """The JVM of Spark's driver is gone. What its tasks committed is kept, also where the journal does not have it yet:
    the next driver looks for it."""

    code = "RK401"
    advice = (StartRemedy(kind=StartKind.RESUME),)
    told: ClassVar[str] = "the driver JVM of Spark died; committed results are kept"


class PublishedDiffers(RunFailed):
    """An input of a published sink was recomputed, and its rows differ or may differ. It was not committed, and the
    published result was not changed."""

    code = "RK410"
    advice = (
        StartRemedy(
            to="make again what was made from it, and publish those sinks together",
            kind=StartKind.RESUME,
            republish=True,
        ),
    )


class RowsNotConserved(RunFailed):
    """Spark wrote rows to other partitions than the layout of a kept result requires, or lost or duplicated rows.
    Nothing that was written with that plan is committed, and nothing was published from it."""

    code = "RK411"
    advice = (
        new_run(
            "start a new run in which Spark keeps to its first plan (a run keeps the setting that it was started with)",
            conf=(("spark.sql.adaptive.enabled", "false"),),
        ),
        CommandRemedy("plan", "and report it with what this prints (a program should never meet it)"),
    )

    def __init__(self, message: str, hint: Hint = "", *, is_resumable: bool = False) -> None:
        super().__init__(message, hint, is_resumable=is_resumable)
