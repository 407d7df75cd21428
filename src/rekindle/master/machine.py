"""The batch master as one value: what the loop runs for a pipeline that ends."""

from __future__ import annotations

from rekindle.master.decide import decide, lets_go
from rekindle.master.dispatch import commands, deletable
from rekindle.master.facts.events import Event, TombstoneWritten
from rekindle.master.facts.stimuli import DeletionFailed, Stimulus, Tick
from rekindle.master.state.apply import fold
from rekindle.master.state.commands import Command
from rekindle.master.state.invariants import check_invariants
from rekindle.master.state.run_state import Phase, RunState
from rekindle.master.state.wire import dec_hook, enc_hook
from rekindle.model.ids import AttemptId
from rekindle.model.machine import GivenUp, Machine, Wire


def _given_up(stimulus: Stimulus) -> GivenUp | None:
    if not isinstance(stimulus, DeletionFailed):
        return None
    warning = f"files of {stimulus.attempt} were not deleted ({stimulus.why}): `rekindle gc` will"
    return GivenUp(stimulus.attempt, warning)


def _leftovers(state: RunState) -> frozenset[AttemptId]:
    return frozenset(deletable(state))


BATCH: Machine[RunState, Event, Stimulus, Command] = Machine(
    decide=decide,
    fold=fold,
    commands=commands,
    invariants=check_invariants,
    tick=Tick(),
    wire=Wire(events=Event, state=RunState, enc_hook=enc_hook, dec_hook=dec_hook, closing=TombstoneWritten),
    lets_go=lets_go,
    is_pinned=lambda state: state.is_pinned,
    is_done=lambda state: state.phase is Phase.SUCCEEDED,
    leftovers=_leftovers,
    given_up=_given_up,
)
