"""What a published sink was made from is settled: it does not change behind those who read the target (rules 5 and 7).

Rules
- A partition that a published sink read, or is, and that comes back different, or not known to be equal, does not
  count: the run stops, with both digests. A resume makes it again and goes on only if it comes back equal.
- A published sink that could only start over stops the run as well: what would come is not known.
- A sink whose target may have taken it is settled like one that is known to be published: a driver died, or heard an
  error, after its publication was opened.
- What is written once cannot be published again: no word helps where such a sink is among them, since the others would
  be replaced and it would not.
- Where a settled sink goes does not change either: a summary would name a place in which nothing is.
- On the user's word, which holds for one epoch, every settled sink that was made from what differs counts as not
  published. Then all that changed is made again, and they are published together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rekindle.errors import Refused
from rekindle.master.facts.digests import Digests
from rekindle.master.facts.events import Differs, RepublishAccepted
from rekindle.master.rules.decision import Decision
from rekindle.master.rules.handle_failure import give_up
from rekindle.master.state.run_state import Phase, RunState
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.remedies import StartRemedy, TextRemedy, new_run

UNKNOWN = "unknown"
ELSEWHERE = "give it another path, and start a new run"


def changed_under_published(state: RunState, name: str, changed: Partitions, digests: Digests) -> Differs | None:
    """Those of `changed` that a published sink read, or is; None if there are none. `digests` are the new ones."""
    hit: dict[str, Partitions] = {}
    for sink in state.possibly_published if changed else ():
        if sink == name:
            hit[sink] = changed
        else:
            hit[sink] = state.layout.read_by(sink, state.steps[sink].started).get(name, EMPTY) & changed
    found = Partitions.union(hit.values())
    if not found:
        return None
    sinks = tuple(sink for sink in state.sinks if hit.get(sink))
    was, now = _was(state, name, found.lowest), digests.digest(found.lowest)
    return Differs(
        step=name,
        partitions=found,
        sinks=sinks,
        was=was,
        now=now,
        maybe=tuple(sink for sink in sinks if sink in state.publications_unconfirmed),
    )


def _was(state: RunState, name: str, partition: int) -> bytes | None:
    """The digest that readers saw of it. What changed was seen: `changed_among` finds it nowhere else."""
    return next(seen.digests.digest(partition) for seen in state.steps[name].superseded if partition in seen.partitions)


def may_republish(draft: Decision, differs: Differs) -> bool:
    """The user said so when the run was resumed: these sinks are not settled any more."""
    if not draft.state.republisher or draft.state.phase is not Phase.RUNNING or written_once(draft.state, differs):
        return False
    draft.add(RepublishAccepted(differs.sinks, draft.state.republisher, draft.now_ms))
    return True


def written_once(state: RunState, differs: Differs) -> tuple[str, ...]:
    """Those of the sinks that cannot be published again."""
    return tuple(sink for sink in differs.sinks if sink in state.spec.once)


def stop(draft: Decision, differs: Differs) -> None:
    """Nothing more is started. A run that is stopping already only leaves it out."""
    if draft.state.phase is Phase.RUNNING:
        give_up(draft, sentence(differs), differs=differs)


def stops_for(draft: Decision, sink: str, partitions: Partitions) -> bool:
    """True if the run stops because this sink is settled, and could only start over."""
    state = draft.state
    if sink not in state.possibly_published:
        return False
    differs = Differs(
        step=sink, partitions=partitions, sinks=(sink,), maybe=(sink,) if sink in state.publications_unconfirmed else ()
    )
    if may_republish(draft, differs):
        return False
    stop(draft, differs)
    return True


def sentence(differs: Differs) -> str:
    """What happened, with both digests."""
    at = f"{differs.step}[{differs.partitions}]"
    if differs.sinks == (differs.step,):
        is_published = "may be published" if differs.maybe else "is published"
        return f"{at} {is_published}, and recomputing it gives other rows: {_digests(differs)}"
    certain = [sink for sink in differs.sinks if sink not in differs.maybe]
    was = f"{' and '.join(certain)} {'was' if len(certain) == 1 else 'were'} published from"
    maybe = f"{' and '.join(differs.maybe)} may have been"
    if not differs.maybe:
        which = was
    elif certain:
        which = f"{was}, and {maybe}"
    else:
        which = f"{maybe} published from"
    return f"{at}, which {which}, was recomputed with other rows: {_digests(differs)}"


def unless_equal(differs: Differs) -> str:
    """The same before it happened."""
    sinks = " and ".join(differs.sinks)
    return f"{differs.step}[{differs.partitions}] must be recomputed as it was, because {sinks} may have been read"


def _digests(differs: Differs) -> str:
    before = "before" if len(differs.maybe) == len(differs.sinks) else "published"
    return f"digest {_text(differs.now)}, {before} {_text(differs.was)}"


def _text(digest: bytes | None) -> str:
    return UNKNOWN if digest is None else digest.hex()


def affected(state: RunState, changed: Collection[str]) -> tuple[str, ...]:
    """The settled sinks that were made from these steps."""
    roots = {root for root in state.layout.kept if not state.layout.members(root).isdisjoint(changed)}
    return tuple(
        sink
        for sink in state.sinks
        if sink in state.possibly_published and not state.layout.upstream[sink].isdisjoint(roots)
    )


def refuse_published(state: RunState, changed: Collection[str]) -> None:
    """A sink that is published, or may be, starts over only on the user's word."""
    for sink in sorted(state.possibly_published):
        if found := sorted(state.layout.members(sink) & set(changed)):
            is_published = "is published" if sink in state.published else "may be published"
            raise Refused(
                f"{sink} {is_published}, and {' and '.join(found)} changed since",
                hint=(
                    StartRemedy(to="publish it again with all that changed", republish=True),
                    StartRemedy(to="or keep it as it is", accept_change=tuple(found)),
                ),
            )


def refuse_once(again: Collection[str], once: Collection[str]) -> None:
    """The user's word cannot be carried out."""
    for sink in sorted(set(again) & set(once)):
        raise Refused(
            f"{sink} would have to be published again, but its target can be published only once",
            hint=new_run(ELSEWHERE),
        )


def refuse_moved(state: RunState, targets: Mapping[str, str]) -> None:
    """What is published, or may be, stays where it is; and a run has the sinks that it started with. `targets` are
    those of the code as it is now."""
    if state.sinks and not state.spec.targets:
        return  # Its journal was written before targets were noted.
    hint = (TextRemedy("restore it"), new_run("or start a new run"))
    for sink in sorted(state.spec.targets.keys() ^ targets.keys()):
        told = f"{targets[sink]} is new" if sink in targets else f"{state.spec.targets[sink]} is gone"
        raise Refused(f"run {state.run} was started with other sinks: {told}", hint=hint)
    for sink in sorted(state.possibly_published):
        if state.spec.targets[sink] != targets[sink]:
            is_published = "is published" if sink in state.published else "may be published"
            raise Refused(
                f"{state.spec.targets[sink]} {is_published}, but in the code it is now {targets[sink]}", hint=hint
            )
