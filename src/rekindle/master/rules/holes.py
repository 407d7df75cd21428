"""Partitions that the user leaves out: which may be, and what follows.

Rules
- Only a partition that failed, and has no result since, may be left out; whatever else is asked for is refused, with
  the reason, before anything is decided. What was left out before may be asked for again.
- A hole counts as a partition without rows. Whoever had read rows of it starts over, as after any other change.
- A hole belongs to its generation: where the step opens a new one, because its code, its inputs or an exchange in it
  changed, the partition is tried again, and whoever read the hole starts over when it comes out.
- A step that restarts whole cannot be had without one of its partitions, and no step without all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rekindle.errors import Refused
from rekindle.master.facts.events import HoleAccepted
from rekindle.master.rules.decision import Decision
from rekindle.master.rules.versions import spread_change
from rekindle.master.state.run_state import Phase, RunState
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.remedies import Hint, StartRemedy, new_run


def refuse_holes(
    state: RunState, without: Mapping[str, Partitions], changed: Collection[str], again: Collection[str] = ()
) -> None:
    """Raise `Refused` for the first that cannot be left out. `changed` are the steps that start over now, `again` the
    sinks that are published again."""
    for name, partitions in without.items():
        wanted = partitions - state.steps[name].holes
        if wanted:
            _refuse(state, name, wanted, changed, again)


def leave_out(draft: Decision, without: Mapping[str, Partitions], who: str) -> None:
    """The facts, and what they mean for those who had read rows."""
    for name, partitions in without.items():
        step = draft.step(name)
        wanted = (
            partitions - step.holes
        ) & step.started  # One that reads another hole starts over, and is tried again.
        if not wanted:
            continue
        changed = EMPTY
        for seen in step.superseded:
            changed = changed if seen.is_hole else changed | (seen.partitions & wanted)
        draft.add(HoleAccepted(name, wanted, who, draft.now_ms, changed))
        if changed:
            spread_change(draft, name, changed)


def _refuse(state: RunState, name: str, wanted: Partitions, changed: Collection[str], again: Collection[str]) -> None:
    step, settled = state.steps[name], state.possibly_published.difference(again)
    if state.phase is Phase.SUCCEEDED:
        raise _no(name, wanted, f"run {state.run} has published it", new_run())
    if any(name in state.layout.upstream[sink] for sink in settled):
        said = f"run {state.run} has published it, or may have"
        publish = StartRemedy(to="publish again without it", republish=True)
        raise _no(name, wanted, said, (publish, new_run("or start a new run")))
    if there := wanted & (step.committed | step.released):
        raise _no(name, there, "its result is committed", _kept(name, there, "keep it: it is not computed again"))
    if flying := wanted & state.running(name):
        to = "go on first: what is finished is adopted"
        raise _no(name, flying, "the previous driver may have finished it", _kept(name, flying, to))
    if restarted := [one for one in changed if one in state.layout.members(name)]:
        said = f"{' and '.join(restarted)} changed since it failed"
        raise _no(name, wanted, said, _kept(name, wanted, "try it again, with the new code"))
    if healthy := wanted - (state.failed_of(name) & step.started):
        said = "it has not failed since the run was last started"
        raise _no(name, healthy, said, _kept(name, healthy, "go on: it is tried first"))
    if state.layout.restarts_whole(name):
        raise _no(name, wanted, f"{name} is computed as a whole", _kept(name, wanted, "correct the step, then"))
    if step.holes | wanted == state.layout.graph.whole[name]:
        raise _no(name, wanted, f"no partition of {name} would be left", _kept(name, wanted, "correct the step, then"))


def _kept(name: str, partitions: Partitions, to: str) -> StartRemedy:
    """The same start, in which these are not left out."""
    return StartRemedy(to=to, drops=tuple(f"{name}[{number}]" for number in partitions))


def _no(name: str, partitions: Partitions, why: str, hint: Hint) -> Refused:
    return Refused(f"{name}[{partitions}] cannot be left out: {why}", hint=hint)
