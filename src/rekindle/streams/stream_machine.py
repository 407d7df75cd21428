"""The master of a stream as one value: what the loop runs for a pipeline without end."""

from __future__ import annotations

from rekindle.model.machine import Machine, Wire
from rekindle.streams.stream_commands import StreamCommand, commands
from rekindle.streams.stream_decide import decide
from rekindle.streams.stream_events import StreamClosed
from rekindle.streams.stream_state import StreamBase, StreamRecord, StreamState, check_invariants, fold
from rekindle.streams.stream_stimuli import StreamStimulus, StreamTick

STREAM: Machine[StreamState, StreamRecord, StreamStimulus, StreamCommand] = Machine(
    decide=decide,
    fold=fold,
    commands=commands,
    invariants=check_invariants,
    tick=StreamTick(),
    wire=Wire(events=StreamRecord, state=StreamState, closing=StreamClosed, base=StreamBase),
    base=StreamBase,
)
