"""A run as one page of HTML that needs nothing else: graph, timeline of attempts, restart sets with their reasons.

- Summed up per step: the page grows with steps and decisions, never with partitions, and old decisions are counted
  instead of listed.
- No script and no network. Every text of the user's is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rekindle.observe.picture import Picture
from rekindle.observe.picture_svg import AGAIN, COLORS, svg
from rekindle.observe.picture_timeline import timeline
from rekindle.observe.show import FailureView, RestartView, RunView, SinkView, StepView
from rekindle.observe.show_words import brief, clock, joined
from rekindle.observe.words import bytes_text, escape, time_text

LISTED_MAX = 200
PHASE_COLORS = {"succeeded": COLORS["computed"], "failed": COLORS["failed"], "failing": COLORS["failed"]}

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5a6474; --paper: #f6f7f9; --card: #ffffff; --line: #dde1e8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaf0; --soft: #a7b0be; --paper: #12161c; --card: #1a2029; --line: #313947; }
}
* { box-sizing: border-box; }
body { margin: 0; padding: 16px; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 1240px; margin: 0 auto; }
h1 { font-size: 22px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 0 0 10px; }
.soft { color: var(--soft); overflow-wrap: anywhere; }
.phase { color: #fff; border-radius: 4px; padding: 1px 8px; font-size: 14px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px; margin: 14px 0; }
.scroll { overflow: auto; max-height: 720px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: left; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.when { white-space: nowrap; }
.one { white-space: nowrap; margin-right: 12px; }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 2px; margin-right: 5px; }
.bad { color: #d64550; }
.fit { float: right; color: var(--soft); font-size: 13px; }
.fit:has(input:checked) ~ .scroll svg { max-width: 100%; height: auto; }
"""


def page(view: RunView) -> str:
    """The whole page."""
    title = f"run {view.order} of {view.pipeline}"
    body = "".join(
        (
            _head(view, title),
            section("Graph", _graph(view)),
            section("Steps", _steps(view.steps)),
            section("Timeline", f'<div class="scroll">{timeline(view)}</div>'),
            section("Restart sets", _restarts(view.restarts)),
            section("Failures", _failures(view.failures)),
            section("Sinks", _sinks(view.sinks)) if view.sinks else "",
            section("Drivers", _drivers(view)),
        )
    )
    return document(title, body)


def graph_page(view: RunView) -> str:
    """The graph alone."""
    title = f"run {view.order} of {view.pipeline}"
    return document(title, _head(view, title) + section("Graph", _graph(view)))


def drawing_page(title: str, picture: Picture, told: Sequence[str]) -> str:
    """A picture, and what is said about it, line by line."""
    words = f"<pre>{escape(chr(10).join(told))}</pre>" if told else ""
    return document(title, f"<h1>{escape(title)}</h1>{drawn(picture)}{words}")


def document(title: str, body: str) -> str:
    """A page."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def _head(view: RunView, title: str) -> str:
    color = PHASE_COLORS.get(view.phase, COLORS["running"])
    took = time_text(max(0, view.changed_ms - view.started_ms))
    parameters = " ".join(f"{name}={value}" for name, value in view.parameters.items())
    told = [view.run, parameters, f"started {clock(view.started_ms)} UTC", f"last change after {took}", view.life]
    gave_up = f'<p class="bad">gave up: {escape(view.gave_up)}</p>' if view.gave_up else ""
    return (
        f'<h1>{escape(title)} <span class="phase" style="background:{color}">{escape(view.phase)}</span></h1>'
        f'<div class="soft">{escape(" · ".join(filter(None, told)))}</div><p>{escape(view.kept)}</p>{gave_up}'
    )


def _graph(view: RunView) -> str:
    return drawn(view.picture(), _legend())


def drawn(picture: Picture, legend: str = "") -> str:
    """A picture in a page."""
    fit = '<label class="fit"><input type="checkbox" checked> fit to the page</label>'
    return f'{fit}{legend}<div class="scroll">{svg(picture)}</div>'


def _legend() -> str:
    styles = {state: f"background:{color}" for state, color in COLORS.items()}
    styles["started more than once"] = f"border:2.5px solid {AGAIN}"
    keys = (
        f'<span class="one"><span class="key" style="{style}"></span>{name}</span>' for name, style in styles.items()
    )
    return f'<p class="soft">{" ".join(keys)} <span class="one">dashed: reads all partitions</span></p>'


def _steps(steps: Sequence[StepView]) -> str:
    numbers = (
        "rows",
        "size",
        "kept",
        "reused",
        "computed",
        "again",
        "running",
        "failed",
        "left out",
        "missing",
        "attempts",
        "failures",
        "generation",
    )
    rows = (
        [
            step.name,
            "" if step.rows is None else f"{step.rows:,}",
            "" if step.bytes is None else bytes_text(step.bytes),
            f"{step.committed:,}/{step.partitions:,}",
            *(f"{getattr(step, name.replace(' ', '_')):,}" for name in numbers[3:]),
            f"{step.kind}, {step.determinism}",
            joined(step.why),
        ]
        for step in steps
    )
    titles = ("restarted" if name == "again" else name for name in numbers)
    return table(("step", *titles, "result", "reason of the last restart"), rows, numbers)


def _restarts(restarts: Sequence[RestartView]) -> str:
    if not restarts:
        return '<p class="soft">No vertex was restarted.</p>'
    rows = (
        [clock(one.at_ms), one.step, f"{one.count:,}", one.what, joined(one.because)] for one in restarts[-LISTED_MAX:]
    )
    return _older(restarts) + table(("when (UTC)", "step", "partitions", "what", "because"), rows, ("partitions",))


def _failures(failures: Sequence[FailureView]) -> str:
    if not failures:
        return '<p class="soft">Nothing failed.</p>'
    rows = ([clock(one.at_ms), one.step, brief(one.partitions), one.kind, one.text] for one in failures[-LISTED_MAX:])
    return _older(failures) + table(("when (UTC)", "step", "partitions", "kind", "message"), rows)


def _sinks(sinks: Sequence[SinkView]) -> str:
    rows = (
        [
            one.shown,
            one.state,
            one.version,
            "" if one.rows is None else f"{one.rows:,}",
            "" if one.bytes is None else bytes_text(one.bytes),
        ]
        for one in sinks
    )
    return table(("sink and target", "state", "version", "rows", "size"), rows, ("rows", "size"))


def _drivers(view: RunView) -> str:
    rows = ([clock(one.at_ms), str(one.epoch), one.owner, one.application] for one in view.drivers[-LISTED_MAX:])
    return table(("when (UTC)", "epoch", "driver", "Spark application"), rows)


def _older(things: Sequence[object]) -> str:
    hidden = len(things) - LISTED_MAX
    return f'<p class="soft">{hidden:,} older ones are not listed here: rekindle show --json</p>' if hidden > 0 else ""


def section(title: str, body: str) -> str:
    """A part of a page."""
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def table(head: Sequence[str], rows: Iterator[list[str]], numbers: Sequence[str] = ()) -> str:
    """`numbers` are the columns that stand to the right."""
    marks = ["n" if name in numbers else "when" if name.startswith("when") else "" for name in head]
    titles = "".join(_cell("th", name, mark) for name, mark in zip(head, marks, strict=True))
    body = "".join(
        f"<tr>{''.join(_cell('td', text, mark) for text, mark in zip(row, marks, strict=True))}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(tag: str, text: str, mark: str) -> str:
    kind = f' class="{mark}"' if mark else ""
    return f"<{tag}{kind}>{escape(text)}</{tag}>"
