"""A pipeline as a flowchart of Mermaid: every declared step, and a box for each region of more than one.

Where rows change their partition between a kept result and the kept step that reads it is for Spark to know: inside a
region it is drawn where the result is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rekindle.master.facts.graph_spec import StepSpec
from rekindle.master.facts.run_spec import DeclaredStep, RunSpec
from rekindle.observe.picture import Link
from rekindle.observe.region_picture import SOURCE, note_of
from rekindle.observe.words import names_text

MARKED = "stroke:#e08a1e,stroke-width:3px"


def mermaid(spec: RunSpec, marked: Collection[str] = ()) -> str:
    """`marked` are the kept steps of which something runs again."""
    names = {one.name: f"n{number}" for number, one in enumerate(spec.declared)}
    boxes = {one.name: f'{names[one.name]}["{_quoted(one.name)}<br/>{_note(spec, one)}"]' for one in spec.declared}
    lines, inside = ["flowchart LR"], set[str]()
    for root, members in spec.regions.items():
        own = [one for one in members if one not in inside and (one == root or one not in spec.regions)]
        if len(own) > 1:
            lines.append(f"  subgraph region_{names[root]} [region of {_quoted(root)}]")
            lines += [*(f"    {boxes[one]}" for one in own), "  end"]
            inside.update(own)
    lines += [f"  {box}" for name, box in boxes.items() if name not in inside]
    for link in (link for one in spec.declared for link in _links(spec, one)):
        arrow = f"-. {link.how} .->" if link.is_wide else f"-- {link.how} -->" if link.how else "-->"
        lines.append(f"  {names[link.producer]} {arrow} {names[link.consumer]}")
    lines += [f"  style {names[name]} {MARKED}" for name in marked]
    return "\n".join(lines) + "\n"


def kept_note(kept: StepSpec) -> str:
    return f"{kept.partitions} {kept.kind.value}, {kept.determinism.value}"


def _note(spec: RunSpec, one: DeclaredStep) -> str:
    if one.name in spec.regions:
        return kept_note(spec.graph.step(one.name))
    roots = spec.regions_with(one.name)
    pipelined = f"pipelined into {names_text(roots)}"
    if one.role == SOURCE and roots:
        return _quoted(f"source, {pipelined}")
    return _quoted(pipelined if roots else note_of(one))


def _links(spec: RunSpec, reader: DeclaredStep) -> Iterator[Link]:
    """What a step reads: a kept result as the edge says by which its region has it."""
    roots = spec.regions_with(reader.name) or [reader.name]
    drawn = {(edge.producer, edge.consumer): edge for edge in spec.graph.edges}
    for one in reader.reads:
        found = [edge for root in roots if (edge := drawn.get((one, root))) is not None]
        widest = max(found, key=lambda edge: edge.mapping == "all", default=None)
        yield Link(one, reader.name, widest.mapping, widest.is_open) if widest else Link(one, reader.name)


def _quoted(text: str) -> str:
    return text.replace('"', "'")
