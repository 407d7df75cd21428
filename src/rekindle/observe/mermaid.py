"""A pipeline as a flowchart of Mermaid: every declared step, and a box for each region of more than one.

Where rows change their partition between a kept result and the kept step that reads it is for Spark to know: inside a
region it is drawn where the result is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from rekindle.master.facts.graph_spec import StepSpec
from rekindle.master.facts.run_spec import DeclaredStep, RunSpec
from rekindle.observe.picture import Link
from rekindle.observe.region_picture import SOURCE, note_of
from rekindle.observe.words import names_text

MARKED = "stroke:#e08a1e,stroke-width:3px"


def mermaid(spec: RunSpec, marked: Collection[str] = ()) -> str:
    """`marked` are the kept steps of which something runs again."""
    boxes = {one.name: f"{quoted(one.name)}<br/>{_note(spec, one)}" for one in spec.declared}
    groups, inside = dict[str, list[str]](), set[str]()
    for root, members in spec.regions.items():
        own = [one for one in members if one not in inside and (one == root or one not in spec.regions)]
        if len(own) > 1:
            groups[f"region of {quoted(root)}"] = own
            inside.update(own)
    return flowchart(boxes, groups, [link for one in spec.declared for link in _links(spec, one)], marked)


def flowchart(
    boxes: Mapping[str, str], groups: Mapping[str, Sequence[str]], links: Iterable[Link], marked: Collection[str]
) -> str:
    """`boxes` are labels by name, `groups` the titles of larger boxes with the names of those in them."""
    names = {name: f"n{number}" for number, name in enumerate(boxes)}
    made = {name: f'{names[name]}["{label}"]' for name, label in boxes.items()}
    lines = ["flowchart LR"]
    for title, members in groups.items():
        lines.append(f"  subgraph region_{names[members[-1]]} [{title}]")
        lines += [*(f"    {made[one]}" for one in members), "  end"]
    inside = {name for members in groups.values() for name in members}
    lines += [f"  {box}" for name, box in made.items() if name not in inside]
    for link in links:
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
        return quoted(f"source, {pipelined}")
    return quoted(pipelined if roots else note_of(one))


def _links(spec: RunSpec, reader: DeclaredStep) -> Iterator[Link]:
    """What a step reads: a kept result as the edge says by which its region has it."""
    roots = spec.regions_with(reader.name) or [reader.name]
    drawn = {(edge.producer, edge.consumer): edge for edge in spec.graph.edges}
    for one in reader.reads:
        found = [edge for root in roots if (edge := drawn.get((one, root))) is not None]
        widest = max(found, key=lambda edge: edge.mapping == "all", default=None)
        yield Link(one, reader.name, widest.mapping, widest.is_open) if widest else Link(one, reader.name)


def quoted(text: str) -> str:
    """As a label may have it."""
    return text.replace('"', "'")
