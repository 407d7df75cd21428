"""A stream as a picture: sources, a box for each region with the steps that its query computes, and targets.

- A region is one query, so that its box has every step of it. A step that several regions compute stands in each box,
  marked; the last step up to which state is kept is marked, too.
- Each region has a position of its own in what it reads. A source shows it where all its readers have the same one.
- A target shows how often rows stand in it. A region whose result others read leads to these, and to no target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rekindle.observe.picture import Link, Picture, PictureNode, Share
from rekindle.observe.stream_view import BACKOFF, GAVE_UP, SEEKS, STUCK, RegionView
from rekindle.observe.words import count_text
from rekindle.streams.stream_events import QueryEnd, StreamPhase

# How the state of a region is coloured; one that has not started has no colour.
STATES = {
    StreamPhase.RUNNING.value: "running",
    StreamPhase.STOPPING.value: "running",
    BACKOFF: "failed",
    SEEKS: "failed",
    GAVE_UP: "failed",
    STUCK: "failed",
    QueryEnd.FAILED.value: "failed",
    QueryEnd.FINISHED.value: "computed",
    QueryEnd.STOPPED.value: "reused",
}
NOTE_MAX, NAME_MAX = 26, 24


def stream_picture(
    regions: Sequence[RegionView], states: Mapping[str, str] | None = None, marked: Collection[str] = ()
) -> Picture:
    """`states` are the colours of regions where they are not those of how they are; those `marked` have a border."""
    told = states or {one.name: STATES.get(one.state, "missing") for one in regions}
    read = dict.fromkeys(name for one in regions for name in one.sources)
    sources = [name for name in read if name not in {one.name for one in regions}]
    ends = [one for one in regions if one.name not in read]
    targets = dict.fromkeys(one.target for one in ends)
    nodes = [
        *(_source(name, [one for one in regions if name in one.sources]) for name in sources),
        *(_region(one, told[one.name], is_marked=one.name in marked) for one in regions),
        *(_target(name, [one for one in ends if one.target == name]) for name in targets),
    ]
    links = [
        *(Link(name, one.name) for one in regions for name in one.sources),
        *(Link(one.name, shortened(one.target)) for one in ends),
    ]
    return Picture(tuple(nodes), tuple(links))


def inside_of(region: RegionView) -> list[str]:
    """The steps that its query computes, with what there is to say about each."""
    computed = [step for step in region.steps if step not in region.sources]
    return [f"{''.join(f'[{tag}] ' for tag in _tags(region, step))}{step}" for step in computed]


def shortened(target: str) -> str:
    """A target in a box: its kind, and the end of its place, which tells it from others."""
    if len(target) <= NAME_MAX:
        return target
    kind, _, place = target.partition(" ")
    return f"{kind} …{place[len(kind) + 2 - NAME_MAX :]}"


def _tags(region: RegionView, step: str) -> Iterator[str]:
    if step in region.stateful[-1:]:
        yield "state"
    if step in region.shared:
        yield "shared"


def _source(name: str, readers: Sequence[RegionView]) -> PictureNode:
    positions = [f"{one.name} has read up to {position}" for one in readers for position in _positions(one)]
    found = {" ".join(_positions(one)) for one in readers}
    note = (found.pop() if len(found) == 1 else "") or f"read by {count_text(len(readers), 'region')}"
    return PictureNode(name=name, note=_cut(note), title="\n".join([f"{name}: source", *positions]))


def _positions(region: RegionView) -> Iterator[str]:
    """Where one of several streams is nobody can say by the name of a step."""
    if len(region.sources) == 1:
        yield from region.reads.values()


def _region(one: RegionView, state: str, *, is_marked: bool) -> PictureNode:
    return PictureNode(
        name=one.name,
        note=_cut(one.trigger),
        shares=(Share(state, 1),),
        title="\n".join(_told(one)),
        is_marked=is_marked,
        inside=tuple(inside_of(one)),
    )


def _told(one: RegionView) -> Iterator[str]:
    last = f"last batch {one.batch}" if one.batch >= 0 else "no batch yet"
    yield f"{one.name}: {one.state}, {last}, {count_text(one.restarts, 'restart')}"
    yield f"trigger: {one.trigger}"
    if one.stateful:
        yield f"keeps state at {one.stateful[-1]}, which depends on {', '.join(one.stateful)}"
    if one.shared:
        yield f"computed in other regions too: {', '.join(one.shared)}"
    for stream, position in one.reads.items():
        yield f"has read stream {stream} up to {position}"
    if one.quarantined:
        yield f"goes on without {count_text(len(one.quarantined), 'record')}"
    if one.failure:
        yield f"last failure: {one.failure}"


def _target(name: str, writers: Sequence[RegionView]) -> PictureNode:
    deliveries = dict.fromkeys(one.delivery for one in writers)
    why = [f"{one.name}: {one.delivery}" + (f", {one.why_delivered}" if one.why_delivered else "") for one in writers]
    return PictureNode(name=shortened(name), note=_cut(", ".join(deliveries)), title="\n".join([name, *why]))


def _cut(text: str) -> str:
    return text if len(text) <= NOTE_MAX else f"{text[: NOTE_MAX - 1]}…"
