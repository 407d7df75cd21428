"""What reached the master: reports of the engine and wishes of the user. Nothing here is a fact yet.

Rules
- A stimulus may be late, doubled or out of order; `decide` says what of it becomes a fact.
- The engine reports commits only after it looked whether an exchange under them was made again.
"""

from __future__ import annotations

import msgspec

from rekindle.master.facts.config import MasterConfig
from rekindle.master.facts.events import Fence
from rekindle.master.facts.run_spec import RunSpec, UserDecisions
from rekindle.model.failures import Failure
from rekindle.model.ids import AttemptId
from rekindle.model.kinds import FailureDomain
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.parts import NOTHING, Parts


class ReusedResult(msgspec.Struct, frozen=True, kw_only=True):
    """The whole result of a step as an earlier run, with this number, kept it: the files that the manifest names are
    copied to the directory of the attempt that will stand for it."""

    step: str
    number: int
    partitions: Partitions
    manifest: bytes
    digests: bytes | None = None
    size_bytes: int = 0
    rows: int | None = None


class StartRun(msgspec.Struct, frozen=True, kw_only=True):
    """A new run. It is the only stimulus that needs no state."""

    run: str
    pipeline: str
    order: int
    spec: RunSpec
    config: MasterConfig
    run_time_ms: int
    seed: int
    application: str
    owner: str
    settings: dict[str, str] = {}
    reused: tuple[ReusedResult, ...] = ()


class TakeOver(msgspec.Struct, frozen=True, kw_only=True):
    """A new master with a new application, and the code that it has. `settings` stand where they are not those of the
    run any more."""

    application: str
    owner: str
    spec: RunSpec
    decisions: UserDecisions = UserDecisions()
    settings: dict[str, str] | None = None


class CommitsSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions of a running attempt whose files are final. `exchange_version` is higher than that of the
    command if a map output under the group came back different, or not known to be equal. `size_bytes` is what they
    take of the run's location: nothing, if they lie on executors. `rows` is how many they have; None if that was not
    told."""

    attempt: AttemptId
    partitions: Partitions
    manifest: bytes = b""
    digests: bytes | None = None
    exchange_version: int = 0
    exchange_checksum: str | None = None
    size_bytes: int = 0
    rows: int | None = None


class AttemptEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The Spark job is over and its stage quiet. Failed if there are failures; `lost` is what it found missing. With
    `has_lost_plan` the exchanges that were held for its step cannot be read any more: whoever goes on with it plans
    again, over everything that it reads. `disproved` are partitions of its step that were reported as committed, by
    it or by others over the same plan, and were found to be wrong."""

    attempt: AttemptId
    failures: tuple[Failure, ...] = ()
    was_cancelled: bool = False
    lost: Parts = NOTHING
    has_lost_plan: bool = False
    disproved: Partitions = EMPTY


class AttemptSealed(msgspec.Struct, frozen=True, kw_only=True):
    """No task can add to the attempt any more. `exchange_version` is None where nobody can say whether an exchange
    was made again after the last report."""

    attempt: AttemptId
    partitions: Partitions = EMPTY
    manifest: bytes = b""
    digests: bytes | None = None
    exchange_version: int | None = None
    size_bytes: int = 0
    rows: int | None = None


class PartsLost(msgspec.Struct, frozen=True):
    """Stored results or exchange parts that are gone, from any number of findings."""

    lost: Parts
    domain: FailureDomain


class SinkDone(msgspec.Struct, frozen=True):
    """The target took the publication."""

    sink: str
    fence: Fence


class SinkFailed(msgspec.Struct, frozen=True):
    """The target did not take the publication; it may be tried again."""

    failure: Failure
    fence: Fence


class SinkUnchanged(msgspec.Struct, frozen=True):
    """Whatever is told next, nothing of this publication reached the target."""

    sink: str
    fence: Fence


class SinkFenced(msgspec.Struct, frozen=True):
    """The target already holds something with a later fence, or something that this publication would undo: then
    `because` says so."""

    sink: str
    fence: Fence
    newer: Fence
    because: str = ""


class DeletionDone(msgspec.Struct, frozen=True):
    """The files of the attempt are gone, or were gone before."""

    attempt: AttemptId


class DeletionFailed(msgspec.Struct, frozen=True):
    """The files of the attempt are still there, or some of them: the storage would not delete them. No fact: gc finds
    them."""

    attempt: AttemptId
    why: str


class Tick(msgspec.Struct, frozen=True):
    """Time passed: something that waited may be due."""


class CancelRun(msgspec.Struct, frozen=True):
    """The user wants it to stop; it can be resumed."""

    who: str = "user"


class CloseRun(msgspec.Struct, frozen=True):
    """gc: nothing of this run is wanted any more. It takes the run over; everything is released, deleted, and closed
    for ever."""

    application: str
    owner: str


Stimulus = (
    StartRun
    | TakeOver
    | CommitsSeen
    | AttemptEnded
    | AttemptSealed
    | PartsLost
    | SinkDone
    | SinkFailed
    | SinkUnchanged
    | SinkFenced
    | DeletionDone
    | DeletionFailed
    | Tick
    | CancelRun
    | CloseRun
)
