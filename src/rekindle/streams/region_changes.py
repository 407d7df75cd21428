"""What changed code means for a checkpoint that is there. One pure question, asked before anything starts.

Spark sees shapes and no meanings: a changed key, window or filter at or below an operator with state is accepted over
the old state, and the rows of both are mixed. So every change there is refused until the user accepts it by name.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from rekindle.master.facts.run_spec import Fingerprint
from rekindle.streams.shard_splits import as_parent
from rekindle.streams.stream_spec import RegionSpec, StreamSpec

# The part of a region that is no step: settings and versions.
SETTINGS_PART = ""
SETTING = "spark."
MOVED = "from other places, or in another order"
# The function that a target calls, above everything that keeps state.
TARGET_PART = "the function of its target"


class ChangeVerdict(Enum):
    """What becomes of a checkpoint under changed code."""

    SAME = "same"
    COMPATIBLE = "compatible from the next batch on"
    MIXES_STATE = "changes what the state means"
    NEEDS_CHECKPOINT = "needs a new checkpoint"
    OTHER_COLUMNS = "has other columns than the rows that are in its target"
    SPLIT = "goes on as one of more shards"
    OTHER_SHARDS = "has another number of shards than the checkpoints that are there"


@dataclass(frozen=True, slots=True)
class RegionChange:
    """One region: the verdict, the steps that changed, and in words what did."""

    region: str
    verdict: ChangeVerdict
    steps: tuple[str, ...] = ()
    told: tuple[str, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Unless the user says otherwise."""
        return self.verdict not in (ChangeVerdict.SAME, ChangeVerdict.COMPATIBLE, ChangeVerdict.SPLIT)


def changes_of(
    was: Mapping[str, RegionSpec],
    now: StreamSpec,
    noted: Mapping[str, Container[str]],
    parents: Mapping[str, RegionSpec],
) -> tuple[RegionChange, ...]:
    """All regions that were there before, producers first. State over rows of a region that changed has rows of both
    meanings, too. `noted` are, for each, the streams that ever had a position in its checkpoint; `parents` are those
    that shards go on from."""
    found: dict[str, RegionChange] = {}
    for region in now.regions:
        if region.name in parents:
            found[region.name] = _split(parents[region.name], region)
        elif told := _other_shards(was, region):
            found[region.name] = RegionChange(region.name, ChangeVerdict.OTHER_SHARDS, (region.name,), (told,))
        elif region.name in was:
            change = change_of(was[region.name], region, noted.get(region.name, ()))
            found[region.name] = _with_inputs(region, change, found)
    return tuple(found.values())


def _other_shards(was: Mapping[str, RegionSpec], now: RegionSpec) -> str:
    """Where its rows are read by other regions than before, each from positions of its own."""
    for one in was.values():
        if one.declared_name == now.declared_name and one.shards != now.shards:
            return f"{now.declared_name} was read in {max(1, one.shards)} shards, and is in {max(1, now.shards)} now"
    return ""


def _split(parent: RegionSpec, now: RegionSpec) -> RegionChange:
    """Its code against that of its parent."""
    change = change_of(as_parent(parent, now), now)
    told = (f"it reads a part of what {parent.name} read", *change.told)
    if change.verdict in (ChangeVerdict.SAME, ChangeVerdict.COMPATIBLE):
        return RegionChange(now.name, ChangeVerdict.SPLIT, change.steps, told)
    return RegionChange(now.name, change.verdict, change.steps, told)


def _with_inputs(region: RegionSpec, change: RegionChange, known: Mapping[str, RegionChange]) -> RegionChange:
    changed = [one for one in region.reads if one in known and known[one].verdict is not ChangeVerdict.SAME]
    if not changed or change.verdict not in (ChangeVerdict.SAME, ChangeVerdict.COMPATIBLE):
        return change
    told = tuple(f"it reads {one}, which changed: {'; '.join(known[one].told)}" for one in changed)
    verdict = ChangeVerdict.MIXES_STATE if region.operators else ChangeVerdict.COMPATIBLE
    return RegionChange(region.name, verdict, (*change.steps, *changed), (*change.told, *told))


def change_of(was: RegionSpec, now: RegionSpec, noted: Container[str] = ()) -> RegionChange:
    """What a region's code is now, against what its checkpoint was made with. `noted` are the streams, by name, that
    ever had a position in that checkpoint."""
    if was.place == now.place and (columns := _other_columns(was, now)):
        return RegionChange(now.name, ChangeVerdict.OTHER_COLUMNS, (now.name,), columns)
    if told := _lost_positions(was, now, noted):
        return RegionChange(now.name, ChangeVerdict.NEEDS_CHECKPOINT, now.sources, (told,))
    if was.place != now.place:
        told = f"it wrote to {was.target} and writes to {now.target} now"
        return RegionChange(now.name, ChangeVerdict.NEEDS_CHECKPOINT, (now.name,), (told,))
    if (was.operators or not was.stateful) and was.operators != now.operators:
        told = f"its state was kept by {_listed(was.operators)}, and is by {_listed(now.operators)} now"
        return RegionChange(now.name, ChangeVerdict.NEEDS_CHECKPOINT, now.stateful, (told,))
    names = dict.fromkeys((*was.steps, *now.steps, TARGET_PART))
    steps = [name for name in names if was.fingerprints.get(name) != now.fingerprints.get(name)]
    settings = _settings(was) != _settings(now)
    streams = tuple(_streams_told(was, now))
    differs = (
        *streams,
        *(_told(was, now, name) for name in steps),
        *((_told(was, now, SETTINGS_PART),) if settings else ()),
    )
    if not steps and not settings and not streams:
        return RegionChange(now.name, ChangeVerdict.SAME)
    below = {*was.stateful, *now.stateful}
    if (settings and below) or was.output_mode != now.output_mode or any(name in below for name in steps):
        return RegionChange(now.name, ChangeVerdict.MIXES_STATE, tuple(steps), differs)
    return RegionChange(now.name, ChangeVerdict.COMPATIBLE, tuple(steps), differs)


def restart_change(judged: RegionSpec, now: RegionSpec) -> RegionChange:
    """A region that starts again in its driver, whose functions were called anew, against what was judged and journaled
    when the driver began. What a new driver would refuse is refused here, too: `is_refused`."""
    return change_of(judged, now, {*judged.names})


def _lost_positions(was: RegionSpec, now: RegionSpec, noted: Container[str]) -> str:
    """Why the positions of a checkpoint are not those of its streams now; empty if they are. Without names they are by
    the order of the streams, and with names Spark begins with a name that it does not find among the last ones."""
    if bool(was.names) != bool(now.names) and was.leaves:
        had, has = ("names", "none") if was.names else ("no names", "some")
        return f"its streams had {had} and have {has} now: the checkpoint has positions by the old ones"
    if not now.names:
        if set(was.sources) != set(now.sources):
            return f"it read the streams {', '.join(was.sources)} and reads {', '.join(now.sources)} now"
        if was.leaves and was.leaves != now.leaves:
            return f"its streams come {MOVED}, and the checkpoint has positions in the old ones"
        return ""
    gone = {place: name for name, place in was.names.items() if name not in now.names}
    for name, place in now.names.items():
        if was.names.get(name, place) != place:
            return f"the stream {name} comes from another place, and the checkpoint has a position in the old one"
        if name not in was.names and place in gone:
            return (
                f"the stream {gone[place]} is removed and {name} is added, at the same place: Spark does not know that "
                "it was renamed, and would read it from its beginning again"
            )
        if name not in was.names and name in noted:
            return f"the stream {name} was removed before: Spark would read it from its beginning again"
    return ""


def _streams_told(was: RegionSpec, now: RegionSpec) -> Iterator[str]:
    """Streams with names come and go over one checkpoint."""
    for name in now.names:
        if name not in was.names:
            yield f"the stream {name} is added, and is read from where its options begin"
    for name in was.names:
        if name not in now.names:
            yield f"the stream {name} is removed, and what it has left is not read"


def _other_columns(was: RegionSpec, now: RegionSpec) -> tuple[str, ...]:
    """Columns that are gone or have another type. No checkpoint helps: the rows that are in the target have them."""
    return tuple(
        f"{name} was {kind}, is {now.columns.get(name, 'gone')}"
        for name, kind in was.columns.items()
        if now.columns.get(name) != kind
    )


def _listed(operators: tuple[str, ...]) -> str:
    return ", ".join(operators) or "no operator"


def _settings(region: RegionSpec) -> Fingerprint:
    """Those that change values. Another version of Python or Spark is no other code."""
    found = region.fingerprints.get(SETTINGS_PART, {})
    return {name: value for name, value in found.items() if name.startswith(SETTING)}


def _told(was: RegionSpec, now: RegionSpec, step: str) -> str:
    before, after = was.fingerprints.get(step), now.fingerprints.get(step)
    if before is None:
        return f"{step} is new"
    if after is None:
        return f"{step} is gone"
    parts = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    return f"{step or 'settings'}: {', '.join(parts)}"
