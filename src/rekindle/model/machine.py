"""What the loop can run: a machine is one value of pure functions over its own state, events, stimuli and commands.

Rules
- A stimulus comes in, `decide` answers with events, the loop appends them as one record, `fold` makes the next state of
  them, and `commands` says what the world must do now. The loop of `runtime/loop.py` knows nothing else of a machine.
- Nothing in it has a clock, a disk or an engine. The state is the fold of its journal and of nothing else.
- `WakeAt` and `Stop` are commands of every machine: the loop carries them out itself.
- A machine that keeps nothing that may go, and leaves nothing behind, gives the first six fields only.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec

# What tells one command from another. A command is sent once per process.
Key = tuple[str, Hashable]

StateT = TypeVar("StateT")
EventT = TypeVar("EventT")
StimulusT = TypeVar("StimulusT")
StateT_contra = TypeVar("StateT_contra", contravariant=True)
EventT_co = TypeVar("EventT_co", covariant=True)
StimulusT_co = TypeVar("StimulusT_co", covariant=True)
StimulusT_contra = TypeVar("StimulusT_contra", contravariant=True)
CommandT_contra = TypeVar("CommandT_contra", contravariant=True)


class AnyCommand(Protocol):
    """What the loop has to know of a command."""

    @property
    def key(self) -> Key: ...


CommandT = TypeVar("CommandT", bound=AnyCommand)
CommandT_co = TypeVar("CommandT_co", bound=AnyCommand, covariant=True)


class WakeAt(msgspec.Struct, frozen=True):
    """Give the machine its `tick` at this time."""

    due_ms: int

    @property
    def key(self) -> Key:
        return "wake", self.due_ms


class Stop(msgspec.Struct, frozen=True):
    """Nothing is left to do for this master."""

    @property
    def key(self) -> Key:
        return "stop", 0


class CommandPort(Protocol[CommandT_contra, StimulusT_co]):
    """The world as a machine sees it: commands go in, stimuli come out."""

    def send(self, command: CommandT_contra) -> None:
        """Begin to do it. What comes of it arrives by `poll`."""
        ...

    def poll(self, timeout_ms: int) -> Sequence[StimulusT_co]:
        """What happened since the last call; waits up to `timeout_ms` if nothing did."""
        ...

    def close(self) -> None:
        """Cancel everything that runs; nothing more is reported. Closing twice is no error."""
        ...


class Decide(Protocol[StateT_contra, EventT_co, StimulusT_contra]):
    """The events that follow from a stimulus, or none where it is late, doubled or foreign. `jitter` is in [-1, 1].
    `is_pinned` says whether somebody keeps the run for ever, and is None where nobody looked."""

    def __call__(
        self,
        state: StateT_contra | None,
        stimulus: StimulusT_contra,
        now_ms: int,
        jitter: float = 0.0,
        is_pinned: bool | None = None,
    ) -> tuple[EventT_co, ...]: ...


class Commands(Protocol[StateT_contra, CommandT_co]):
    """Everything the world should be doing or have done, without what was sent, in a stable order, `WakeAt` and `Stop`
    included. `left` is what is not waited for any more."""

    def __call__(
        self, state: StateT_contra, sent: Container[Key] = (), left: frozenset[Any] = frozenset()
    ) -> Sequence[CommandT_co]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How a machine's events and state become bytes: `events` is a union of msgspec structs with tags, `state` is a
    type that msgspec knows, and the hooks are for types that it does not. A record with an event of the type `closing`
    is the last of its journal; an event of the type `base` holds a whole state."""

    events: Any
    state: Any
    enc_hook: Callable[[Any], Any] | None = None
    dec_hook: Callable[[type, Any], Any] | None = None
    closing: type | None = None
    base: type | None = None


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A report that something will not be done by this process: nothing is decided, `warning` tells the user, and what
    is `left` is not waited for."""

    left: Hashable
    warning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Generic[StateT, EventT, StimulusT, CommandT]):
    """What the loop runs.

    decide        the events that follow from a stimulus
    fold          the state after these events; None only where there are none and there was no state
    commands      what the world must do in a state
    invariants    raises AssertionError with every rule that a state breaks; it is asked of each state that was read
                  from a store, and by tests after each record
    tick          the stimulus that says that time passed
    wire          how events and states are stored
    lets_go       whether these events let go of results: somebody may have pinned the run, and is asked for first
    is_pinned     whether the state says that the run is kept for ever
    is_done       whether the work is done, so that only cleaning up is waited for
    leftovers     what cleaning up still waits for; after a while the loop leaves it to others
    given_up      what a stimulus says that this process will not do, None for all others
    base          the one event that makes this state of none: a run without end goes on from it, and older records go
    """

    decide: Decide[StateT, EventT, StimulusT]
    fold: Callable[[StateT | None, Iterable[EventT]], StateT | None]
    commands: Commands[StateT, CommandT]
    invariants: Callable[[StateT], None]
    tick: StimulusT
    wire: Wire
    lets_go: Callable[[tuple[EventT, ...]], bool] = lambda events: False
    is_pinned: Callable[[StateT], bool] = lambda state: False
    is_done: Callable[[StateT], bool] = lambda state: False
    leftovers: Callable[[StateT], frozenset[Any]] = lambda state: frozenset()
    given_up: Callable[[StimulusT], GivenUp | None] = lambda stimulus: None
    base: Callable[[StateT], EventT] | None = None
