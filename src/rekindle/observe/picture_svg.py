"""A picture as SVG and as text. Both show the same: a bar of shares per step, and who reads whom.

The SVG stands by itself: colours and fonts are in it, nothing is loaded. It follows the reader's light or dark theme.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rekindle.observe.picture import (
    INSIDE_HEIGHT,
    NODE_HEIGHT,
    NODE_WIDTH,
    Link,
    Picture,
    PictureLayout,
    PictureNode,
    Point,
    Share,
)
from rekindle.observe.words import escape

COLORS = {
    "reused": "#5b8def",
    "computed": "#2e9e5b",
    "running": "#17a2b8",
    "failed": "#d64550",
    "left out": "#b08968",
    "missing": "#c9ced6",
}
MARKS = {"reused": "=", "computed": "#", "running": ">", "failed": "!", "left out": "o", "missing": "."}
AGAIN = "#e08a1e"
BAR_MARKS = 20
NAME_MAX = 24
NAMESPACE = "http://www.w3.org/2000/svg"

STYLE = f"""
.rk-node rect.box {{ fill: #ffffff; stroke: #8a93a3; }}
.rk-node rect.again {{ stroke: {AGAIN}; stroke-width: 2.5; }}
.rk-node text {{ fill: #1c2430; font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }}
.rk-node text.note {{ fill: #5a6474; font-size: 11px; }}
.rk-inside {{ fill: none; stroke: #8a93a3; stroke-width: 0.6; }}
.rk-link {{ fill: none; stroke: #8a93a3; stroke-width: 1.4; }}
.rk-wide {{ stroke-dasharray: 5 3; }}
@media (prefers-color-scheme: dark) {{
  .rk-node rect.box {{ fill: #1d232d; }}
  .rk-node text {{ fill: #e6eaf0; }}
  .rk-node text.note {{ fill: #a7b0be; }}
}}
"""


def svg(picture: Picture) -> str:
    """The picture as one SVG element."""
    placed = PictureLayout(picture)
    body = [*(_link(placed, link) for link in picture.links), *(_node(placed, node) for node in picture.nodes)]
    wide, high = round(placed.width), round(placed.height)
    size = f'width="{wide}" height="{high}" viewBox="0 0 {wide} {high}"'
    return f'<svg xmlns="{NAMESPACE}" {size} role="img"><style>{STYLE}</style>{"".join(body)}</svg>'


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture that draws itself: in a notebook, or as text."""

    picture: Picture

    def __str__(self) -> str:
        return "\n".join(text(self.picture))

    def _repr_html_(self) -> str:
        return f'<div style="overflow: auto">{svg(self.picture)}</div>'


def text(picture: Picture) -> Iterator[str]:
    """The picture as lines: one per step, moved to the right by what it stands behind."""
    layers = picture.layers()
    for node in picture.nodes:
        reads = [link for link in picture.links if link.consumer == node.name]
        arrow = f"  <- {', '.join(_read(link) for link in reads)}" if reads else ""
        again = " *" if node.is_marked else ""
        marks = f" [{bar(node.shares)}]" if node.shares else ""
        indent = "  " * layers[node.name]
        yield f"{indent}{node.name}{marks} {node.note}{again}{arrow}"
        if node.inside:
            yield f"{indent}  computes {', '.join(node.inside)} with it"


def legend(shares: Sequence[Share] = ()) -> str:
    """What the marks of a text bar mean."""
    used = {share.state for share in shares if share.count} or set(MARKS)
    return "  ".join(f"{mark} {state}" for state, mark in MARKS.items() if state in used)


def bar(shares: Sequence[Share], marks: int = BAR_MARKS) -> str:
    """Shares as marks of text; what is there at all has at least one."""
    return "".join(MARKS[state] * size for state, size in _sizes(shares, marks, least=1))


def _sizes(shares: Sequence[Share], size: int, least: int) -> list[tuple[str, int]]:
    """Cut `size` in proportion: at least so much each, and exactly `size` in all."""
    there = [share for share in shares if share.count]
    total = sum(share.count for share in there)
    found = [(share.state, max(least, share.count * size // total)) for share in there]
    if found:
        largest = max(range(len(found)), key=lambda at: found[at][1])
        state, have = found[largest]
        found[largest] = state, have + size - sum(one for _, one in found)
    return found


def _read(link: Link) -> str:
    return f"{link.producer} ({link.how})" if link.how else link.producer


def _node(placed: PictureLayout, node: PictureNode) -> str:
    x, y = placed.at(node.name)
    name = _short(node.name)
    kind = "box again" if node.is_marked else "box"
    return (
        f'<g class="rk-node" transform="translate({x:.0f} {y:.0f})"><title>{escape(node.title or node.name)}</title>'
        f'<rect class="{kind}" width="{NODE_WIDTH}" height="{node.height}" rx="6"/>'
        f'<text x="10" y="19">{escape(name)}</text><text class="note" x="10" y="35">{escape(node.note)}</text>'
        f"{_bar(node.shares)}{_inside(node)}</g>"
    )


def _inside(node: PictureNode) -> str:
    """What is pipelined into a step: a line each, below one that closes the step itself."""
    lines = node.inside_lines
    if not lines:
        return ""
    rule = f'<path class="rk-inside" d="M0 {NODE_HEIGHT} H{NODE_WIDTH}"/>'
    rows = enumerate(lines)
    texts = (
        f'<text class="note" x="18" y="{NODE_HEIGHT + INSIDE_HEIGHT * row + 11}">{escape(_short(line))}</text>'
        for row, line in rows
    )
    return rule + "".join(texts)


def _short(name: str) -> str:
    return name if len(name) <= NAME_MAX else f"{name[: NAME_MAX - 1]}…"


def _bar(shares: Sequence[Share]) -> str:
    x, pieces = 10, []
    for state, size in _sizes(shares, NODE_WIDTH - 20, least=4):
        pieces.append(f'<rect x="{x}" y="43" width="{size}" height="7" fill="{COLORS[state]}"/>')
        x += size
    return "".join(pieces)


def _link(placed: PictureLayout, link: Link) -> str:
    kind = "rk-link rk-wide" if link.is_wide else "rk-link"
    title = f"{link.consumer} reads {link.producer}" + (f" ({link.how})" if link.how else "")
    return f'<path class="{kind}" d="{_curve(placed.path(link))}"><title>{escape(title)}</title></path>'


def _curve(points: Sequence[Point]) -> str:
    """Curves where it changes its column, straight lines where it passes through one."""
    (x, y), pieces = points[0], []
    pieces.append(f"M{x:.0f} {y:.0f}")
    for at, ((x1, y1), (x2, y2)) in enumerate(pairwise(points)):
        if at % 2:
            pieces.append(f"L{x2:.0f} {y2:.0f}")
        else:
            middle = (x1 + x2) / 2
            pieces.append(f"C{middle:.0f} {y1:.0f} {middle:.0f} {y2:.0f} {x2:.0f} {y2:.0f}")
    return " ".join(pieces)
