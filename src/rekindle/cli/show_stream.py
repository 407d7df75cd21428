"""A stream as text or JSON: what `show` and `explain` print of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rekindle.cli.next_command import line_of
from rekindle.cli.runs import parameters_text
from rekindle.cli.text import Cell, Column, colored_phase, say, say_json, styled, table, width, wrapped
from rekindle.cli.typed import learn
from rekindle.observe.show_words import clock, to_json
from rekindle.observe.stream_page import stream_page
from rekindle.observe.stream_story import RegionStory
from rekindle.observe.stream_view import BACKOFF, RegionView, StreamView
from rekindle.remedies import CommandRemedy, Remedy, StartKind, StartRemedy, TextRemedy
from rekindle.service import stream_looking
from rekindle.service.stream_looking import SeenStream

REGIONS = (
    Column("REGION"),
    Column("STATE"),
    Column("LAST BATCH", is_right=True),
    Column("RESTARTS", is_right=True),
    Column("LAST FAILURE"),
    Column("TARGET"),
    Column("DELIVERY"),
)
GO_ON = StartRemedy(to="bring all its regions back", kind=StartKind.RESUME)


def show_stream(stream: SeenStream, *, is_json: bool, html: str | None) -> None:
    """All regions of one stream; as a page in the file `html`."""
    view = stream_looking.view(stream)
    learn(run=str(stream))
    if html is not None:
        Path(html).write_text(stream_page(view), encoding="utf-8")
        say([f"written: {html}"], err=True)
    if is_json:
        say_json(to_json(view))
    elif html is None:
        say(_lines(view, width()))


def explain_region(stream: SeenStream, region: str, *, is_json: bool) -> None:
    """The story of one region."""
    story = stream_looking.explain(stream, region)
    learn(run=str(stream))
    if is_json:
        say_json(to_json(story))
    else:
        say(_story(story, stream, width()))


def _lines(view: StreamView, wide: int | None) -> Iterator[str]:
    phase = colored_phase(view.phase)
    name = f"stream {view.number} of {view.pipeline}"
    yield f"{styled(name, bold=True)}  {styled(phase.text, phase.color)}"
    ended = f"ended {clock(view.ended_ms)} UTC" if view.ended_ms is not None else ""
    told = (
        view.run,
        parameters_text(view.parameters),
        f"started {clock(view.started_ms)} UTC",
        f"last taken {clock(view.opened_ms)} UTC",
        ended,
        f"strategy {view.strategy}",
        view.life,
    )
    yield from wrapped(" · ".join(filter(None, told)), wide, "  ")
    if view.stop_why:
        yield from wrapped(f"was to stop: {view.stop_why}", wide, "  ")
    yield ""
    yield from table(REGIONS, [_region(one) for one in view.regions], wide)
    yield ""
    for remedy in _remedies(view):
        yield f"next: {line_of(remedy)}"


def _region(one: RegionView) -> tuple[Cell | str, ...]:
    due = f" until {clock(one.due_ms)}" if one.state == BACKOFF and one.due_ms is not None else ""
    when = f"{clock(one.failed_ms)}  " if one.failed_ms is not None else ""
    return (
        one.name,
        Cell(f"{one.state}{due}", colored_phase(one.state).color),
        str(one.batch) if one.batch >= 0 else "none",
        f"{one.restarts:,}",
        f"{when}{one.failure}" if one.failure else "",
        one.target,
        one.delivery,
    )


def _remedies(view: StreamView) -> Iterator[Remedy]:
    """What to type: about each region that waits for somebody, and about a stream that nobody runs."""
    for name in view.troubled:
        yield CommandRemedy(
            "explain", f"see why {name} does not run", run=f"{view.pipeline}/{view.number}", vertex=name
        )
    if view.can_go_on:
        yield GO_ON
    elif view.is_alone:
        yield TextRemedy("nothing: it has read all its input, and its next start reads what is new")
    elif view.troubled:
        yield TextRemedy("its driver is alive: stop it with SIGTERM, correct the code, and start it again")
    else:
        yield TextRemedy("nothing: its driver is alive")


def _story(story: RegionStory, stream: SeenStream, wide: int | None) -> Iterator[str]:
    title = f"{story.region.name} in stream {stream} ({story.run})"
    for line in wrapped(title, wide):
        yield styled(line, bold=True)
    for fact in story.lines:
        yield from wrapped(f"{clock(fact.at_ms)}  {fact.text}", wide, "    ", first="  ")
    yield ""
    for text in story.outlook:
        yield from wrapped(text, wide, "    ", first="")
    if stream.is_alone:
        yield f"next: {line_of(StartRemedy(to='correct it, then', kind=StartKind.RESUME))}"
    elif story.region.why:
        yield "next: correct it, stop the driver with SIGTERM, and start it again"
