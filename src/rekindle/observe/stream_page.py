"""A stream as one page of HTML that needs nothing else: its regions as a picture and as a table, and the records that
they go on without."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.observe.picture_page import document, drawn, section, table
from rekindle.observe.picture_svg import COLORS
from rekindle.observe.show_words import clock
from rekindle.observe.stream_picture import STATES, inside_of, stream_picture
from rekindle.observe.stream_view import RegionView, StreamView
from rekindle.observe.words import escape

REGIONS = (
    "region",
    "state",
    "when it began (UTC)",
    "last batch",
    "restarts",
    "last failure",
    "records left out",
    "target",
    "delivery",
    "trigger",
    "steps",
)
NUMBERS = ("last batch", "restarts", "records left out")
RECORDS = ("region", "batch", "record", "failure", "at")


def stream_page(view: StreamView) -> str:
    """The whole page."""
    title = f"stream {view.number} of {view.pipeline}"
    left_out = [
        [one.name, str(record.batch) if record.batch >= 0 else "", record.record, record.failure, record.at]
        for one in view.regions
        for record in one.quarantined
    ]
    none = '<p class="soft">No record is in quarantine.</p>'
    body = (
        _head(view, title),
        section("Graph", drawn(stream_picture(view.regions))),
        section("Regions", table(REGIONS, map(_region, view.regions), NUMBERS)),
        section("Quarantined records", table(RECORDS, iter(left_out), ("batch",)) if left_out else none),
    )
    return document(title, "".join(body))


def _head(view: StreamView, title: str) -> str:
    color = COLORS[STATES.get(view.phase, "failed")]
    return (
        f'<h1>{escape(title)} <span class="phase" style="background:{color}">{escape(view.phase)}</span></h1>'
        f'<div class="soft">{escape(" · ".join(_told(view)))}</div>'
    )


def _told(view: StreamView) -> Iterator[str]:
    yield view.run
    yield from (f"{name}={value}" for name, value in (view.parameters or {}).items())
    yield f"started {clock(view.started_ms)} UTC"
    yield f"last taken {clock(view.opened_ms)} UTC"
    if view.ended_ms is not None:
        yield f"ended {clock(view.ended_ms)} UTC"
    yield f"strategy {view.strategy}"
    yield view.life
    if view.stop_why:
        yield f"was to stop: {view.stop_why}"


def _region(one: RegionView) -> list[str]:
    when = f"{clock(one.failed_ms)} " if one.failed_ms is not None else ""
    return [
        one.name,
        f"{one.state} ({one.why})" if one.why else one.state,
        clock(one.since_ms) if one.since_ms is not None else "",
        str(one.batch) if one.batch >= 0 else "none",
        f"{one.restarts:,}",
        f"{when}{one.failure}",
        f"{sum(record.copies for record in one.quarantined):,}",
        one.target,
        f"{one.delivery}: {one.why_delivered}" if one.why_delivered else one.delivery,
        one.trigger,
        ", ".join([*one.sources, *inside_of(one)]),
    ]
