"""`rekindle explain`: the story of a step or of one of its vertices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import click

from rekindle.cli.open_run import OpenRun, open_run, open_stream
from rekindle.cli.options import Settings, with_settings
from rekindle.cli.show_stream import explain_region
from rekindle.cli.text import say, say_json, styled, width, wrapped
from rekindle.cli.typed import learn
from rekindle.observe.show_words import clock, to_json
from rekindle.observe.story import RunStory, story_of
from rekindle.remedies import CommandRemedy
from rekindle.service.vertices import vertex_of


@click.command("explain")
@click.argument("vertex", metavar="STEP[PARTITION]|REGION")
@click.option("--run", metavar="RUN", help="The run; default: the newest.")
@click.option("--json", "is_json", is_flag=True, help="Machine-readable.")
@with_settings
def command(settings: Settings, vertex: str, run: str | None, is_json: bool) -> None:
    """Show the history of a step or of one partition: what happened to it, and why.

    `rekindle explain enriched` shows the whole step, `rekindle explain 'enriched[173]'` one partition. The last lines
    say whether it will run again, and why.

    Of a stream, name a region: `rekindle explain priced` shows its queries, failures and restarts, and the batch that
    failed or comes next, with what it reads.
    """
    stream = open_stream(settings, run)
    if stream is not None:
        explain_region(stream, vertex, is_json=is_json)
        return
    opened = open_run(settings, run)
    learn(run=str(opened.named))
    again = partial(CommandRemedy, "explain", "", "")
    step, partition = vertex_of(opened.state, vertex, str(opened.named), again)
    records = ((one.sequence, one.epoch, one.events) for one in opened.history.records)
    story = story_of(records, opened.state, step, partition)
    if is_json:
        say_json(to_json(story))
    else:
        say(_lines(story, opened, width()))


def _lines(story: RunStory, opened: OpenRun, wide: int | None) -> Iterator[str]:
    for title in wrapped(f"{story.subject} in run {opened.named} ({story.run})", wide):
        yield styled(title, bold=True)
    for line in story.lines:
        yield from wrapped(f"{clock(line.at_ms)}  {line.text}", wide, "    ", first="  ")
    yield ""
    for text in story.outlook:
        yield from wrapped(text, wide, "    ", first="")
