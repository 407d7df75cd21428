"""The attempts of a run over time, one row per step.

At most so many bars per step: neighbours in time become one bar that says how many they were, in the colour of the
worst of them. A vertical line is a new driver, a small mark a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from rekindle.observe.picture_svg import AGAIN, COLORS, NAMESPACE
from rekindle.observe.show import AttemptView, FailureView, RunView
from rekindle.observe.show_words import clock
from rekindle.observe.words import count_text, escape, time_text

BARS_MAX = 40
MARKS_MAX = 40
LABEL, WIDTH, ROW = 170, 820, 22
HEAD = 22
OUTCOMES = {
    "failed": COLORS["failed"],
    "cancelled": "#9aa3b2",
    "sealed": AGAIN,
    "running": COLORS["running"],
    "succeeded": COLORS["computed"],
}
WORST = list(OUTCOMES)

STYLE = """
.rk-time text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #5a6474; }
.rk-time line { stroke: #8a93a3; stroke-dasharray: 2 3; }
@media (prefers-color-scheme: dark) { .rk-time text { fill: #a7b0be; } }
"""


class Bar(msgspec.Struct, frozen=True):
    """Attempts that are drawn as one."""

    begin_ms: int
    end_ms: int
    outcome: str
    title: str


def timeline(view: RunView) -> str:
    """One SVG element."""
    scale = _Scale(view.started_ms, max(view.changed_ms, view.started_ms + 1))
    by_step: dict[str, list[AttemptView]] = {step.name: [] for step in view.steps}
    for attempt in view.attempts:
        by_step.setdefault(attempt.step, []).append(attempt)
    failed: dict[str, list[FailureView]] = {}
    for failure in view.failures:
        failed.setdefault(failure.step, []).append(failure)
    rows = [
        _row(at, name, bars_of(attempts, view.changed_ms), failed.get(name, []), scale)
        for at, (name, attempts) in enumerate(by_step.items())
    ]
    high = HEAD + ROW * len(rows) + 4
    drivers = "".join(_driver(view, at, scale, high) for at in range(len(view.drivers))[-MARKS_MAX:])
    return (
        f'<svg xmlns="{NAMESPACE}" class="rk-time" width="{LABEL + WIDTH + 20}" height="{high}" role="img">'
        f"<style>{STYLE}</style>{_axis(view)}{drivers}{''.join(rows)}</svg>"
    )


def bars_of(attempts: Sequence[AttemptView], now_ms: int) -> list[Bar]:
    """One bar per attempt; where there are too many, one for several."""
    size = -(-len(attempts) // BARS_MAX) or 1
    ordered = sorted(attempts, key=lambda one: one.opened_ms)
    return [_bar(ordered[at : at + size], now_ms) for at in range(0, len(ordered), size)]


def _bar(attempts: Sequence[AttemptView], now_ms: int) -> Bar:
    begin = min(one.opened_ms for one in attempts)
    end = max(now_ms if one.closed_ms is None else one.closed_ms for one in attempts)
    outcome = min((one.outcome for one in attempts), key=WORST.index)
    committed = sum(one.committed for one in attempts)
    name = attempts[0].name if len(attempts) == 1 else count_text(len(attempts), "attempt")
    asked = count_text(sum(one.asked for one in attempts), "partition")
    title = f"{name}: {outcome}, {committed:,} of {asked} committed in {time_text(end - begin)}, {clock(begin)} UTC"
    return Bar(begin, end, outcome, title)


class _Scale:
    def __init__(self, begin_ms: int, end_ms: int) -> None:
        self._begin_ms = begin_ms
        self._length_ms = end_ms - begin_ms

    def __call__(self, at_ms: int) -> float:
        return LABEL + WIDTH * min(1.0, max(0.0, (at_ms - self._begin_ms) / self._length_ms))


def _axis(view: RunView) -> str:
    begin, end = clock(view.started_ms), time_text(view.changed_ms - view.started_ms)
    return (
        f'<text x="{LABEL}" y="13">{escape(begin)} UTC</text>'
        f'<text x="{LABEL + WIDTH}" y="13" text-anchor="end">+ {escape(end)}</text>'
    )


def _driver(view: RunView, at: int, scale: _Scale, high: int) -> str:
    driver = view.drivers[at]
    x = scale(driver.at_ms)
    title = f"driver {driver.epoch}: {driver.owner}, {clock(driver.at_ms)} UTC"
    return f'<line x1="{x:.1f}" y1="{HEAD}" x2="{x:.1f}" y2="{high}"><title>{escape(title)}</title></line>'


def _row(at: int, name: str, bars: Sequence[Bar], failures: Sequence[FailureView], scale: _Scale) -> str:
    y = HEAD + at * ROW
    label = name if len(name) <= 22 else f"{name[:21]}…"
    pieces = [f'<text x="0" y="{y + 14}">{escape(label)}</text>']
    pieces += [_rect(bar, y, scale) for bar in bars]
    pieces += list(_marks(failures, y, scale))
    return "".join(pieces)


def _rect(bar: Bar, y: int, scale: _Scale) -> str:
    x, wide = scale(bar.begin_ms), max(2.0, scale(bar.end_ms) - scale(bar.begin_ms))
    color = OUTCOMES[bar.outcome]
    return (
        f'<rect x="{x:.1f}" y="{y + 4}" width="{wide:.1f}" height="12" rx="2" fill="{color}" fill-opacity="0.85">'
        f"<title>{escape(bar.title)}</title></rect>"
    )


def _marks(failures: Sequence[FailureView], y: int, scale: _Scale) -> Iterator[str]:
    size = -(-len(failures) // MARKS_MAX) or 1
    for begin in range(0, len(failures), size):
        some = failures[begin : begin + size]
        x = scale(some[0].at_ms)
        what = f"{some[0].kind}: {some[0].text}" if len(some) == 1 else f"{len(some)} failures"
        yield (
            f'<circle cx="{x:.1f}" cy="{y + 10}" r="3.5" fill="#d64550" stroke="#fff" stroke-width="0.8">'
            f"<title>{escape(what)}</title></circle>"
        )
