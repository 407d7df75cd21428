"""What the world must do. Every command is derived from the state; none is stored.

Rules
- A command is dispatched at most once per process: the runtime remembers the keys of what it sent. A new process
  finds attempts of older epochs and seals them, so that no attempt is ever started twice.
- Seal, cancel, publish and delete may be asked for again by the next master: each is idempotent or fenced.
- A segment names files that count; an engine reads nothing else.
"""

from __future__ import annotations

import msgspec

from rekindle.master.facts.events import Fence
from rekindle.master.state.run_state import Segment
from rekindle.model.ids import AttemptId
from rekindle.model.machine import Key as Key
from rekindle.model.machine import Stop as Stop
from rekindle.model.machine import WakeAt as WakeAt
from rekindle.model.partitions import EMPTY, Partitions


class Input(msgspec.Struct, frozen=True):
    """A kept step that an attempt reads, with the files that counted when it was opened; none if others of its group
    read it. `holes` are partitions that were left out: they have no file and no rows. `absent` are partitions that are
    gone, and are read through exchanges which the engine holds: nothing may be planned without them."""

    step: str
    segments: tuple[Segment, ...]
    holes: Partitions = EMPTY
    absent: Partitions = EMPTY

    @property
    def partitions(self) -> Partitions:
        """What is read: files that count, and what was left out."""
        return self.holes | Partitions.union(one.partitions for one in self.segments)


class StartAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """Compute these partitions of the group that ends in `attempt.step`. `is_repeatable` allows a stored block
    to be recomputed behind our back; otherwise its lineage is cut. The exchange fields say what committed
    partitions of this generation were written over; `is_first` that there are none, and that no other attempt is on
    its way to commit some: one of an older generation reads exchanges of its own."""

    attempt: AttemptId
    partitions: Partitions
    inputs: tuple[Input, ...]
    is_repeatable: bool
    is_first: bool
    exchange_version: int
    exchange_checksum: str | None

    @property
    def key(self) -> Key:
        return "start", self.attempt


class CancelAttempt(msgspec.Struct, frozen=True):
    """Stop it; report its end when it is quiet."""

    attempt: AttemptId

    @property
    def key(self) -> Key:
        return "cancel", self.attempt


class SealAttempt(msgspec.Struct, frozen=True):
    """Of an older epoch: see to it that nothing more can be added, then report what is there."""

    attempt: AttemptId

    @property
    def key(self) -> Key:
        return "seal", self.attempt


class PublishSink(msgspec.Struct, frozen=True):
    """Put the committed result into its target, unless that holds a later fence. `holes` are what was left out of it
    and of all it was made from: the target says so, too."""

    sink: str
    fence: Fence
    segments: tuple[Segment, ...]
    holes: tuple[tuple[str, Partitions], ...] = ()

    @property
    def key(self) -> Key:
        return "publish", (self.sink, self.fence)


class DeleteAttempt(msgspec.Struct, frozen=True):
    """Remove the files of an attempt in which nothing counts."""

    attempt: AttemptId

    @property
    def key(self) -> Key:
        return "delete", self.attempt


class ReleaseExchanges(msgspec.Struct, frozen=True):
    """Let go what was held to make this generation of a step. `before` is the number of the newest attempt: one that
    comes later holds its own."""

    step: str
    generation: int
    before: int

    @property
    def key(self) -> Key:
        return "let go", (self.step, self.before)


Command = StartAttempt | CancelAttempt | SealAttempt | PublishSink | DeleteAttempt | ReleaseExchanges | WakeAt | Stop
