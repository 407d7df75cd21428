"""Graphs drawn as text, for tests, scenarios and messages.

    a[3] ~> b[3]! =blocking all=> c[2]
    a ~all~> d[2]:memory@forever

A line is a chain of steps and arrows. The arrow behind a step tells the kind of that step's result:

    ~>               pipelined, one to one
    =blocking=>      kept, one to one; also =caching=> and =memory=>
    ~all~>           the mapping stands inside: all, broadcast, interval, +2 (an offset)
    =blocking all!=>  behind a mapping: how the work below its exchange is (. determinate, else as for steps)

A step is a name, then, where it is first told: [partitions] (1), one of ! indeterminate, ? unknown, * declared
(determinate otherwise), :kind where no arrow tells it (blocking otherwise), and any of @whole, @constants,
@unordered, @forever, @run_end. `drawn` is the inverse of `draw`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rekindle.errors import Refused
from rekindle.model.availability import Availability
from rekindle.model.edges import ALL, BROADCAST, IDENTITY, INTERVAL, Broadcast, Interval, Mapping, Offset
from rekindle.model.graph import Edge, Graph, Step
from rekindle.model.kinds import Determinism, KeepUntil, ResultKind
from rekindle.model.partitions import Partitions

_STEP = re.compile(r"(?P<name>\w+)(?:\[(?P<count>\d+)\])?(?P<mark>[!?*])?(?::(?P<kind>\w+))?(?P<flags>(?:@\w+)*)")
_ARROW = re.compile(r"~(?:(?P<piped>[\w+]+[.!?*]?)~)?>|=(?P<kept>\w+)(?: (?P<mapping>[\w+]+[.!?*]?))?=>")
_MARKS = {
    "!": Determinism.INDETERMINATE,
    "?": Determinism.UNKNOWN,
    "*": Determinism.DECLARED,
    ".": Determinism.DETERMINATE,
}
_MAPPINGS: dict[str, Mapping] = {"all": ALL, "broadcast": BROADCAST, "interval": INTERVAL, "": IDENTITY}
_KEEPS = {"forever": KeepUntil.FOREVER, "run_end": KeepUntil.RUN_END}


@dataclass
class _Told:
    """What the drawing has said about a step so far."""

    count: int = 1
    mark: str = ""
    kind: str = ""
    flags: tuple[str, ...] = ()


def finished(graph: Graph) -> Availability:
    """Every vertex has run, every kept result and every exchange is there."""
    return Availability(
        results={name: graph.whole[name] for name, step in graph.steps.items() if step.kind.is_kept},
        started=dict(graph.whole),
        exchanges={x.id: Partitions.first(x.partitions) for x in graph.exchanges.values()},
    )


def draw(text: str) -> Graph:
    """The graph of a drawing."""
    told: dict[str, _Told] = {}
    edges: list[Edge] = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        at, producer, arrow = 0, "", None
        while at < len(line):
            found = _STEP.match(line, at)
            if found is None:
                raise Refused(f"drawing: a step is expected at {line[at:]!r}")
            name = _tell(told, found)
            if arrow is not None:
                edges.append(_edge(told, producer, arrow, name))
            at = _skip(line, found.end())
            producer, arrow = name, _ARROW.match(line, at)
            if arrow is None and at < len(line):
                raise Refused(f"drawing: an arrow is expected at {line[at:]!r}")
            at = _skip(line, arrow.end()) if arrow else at
    return Graph.of([_step(name, said) for name, said in told.items()], edges)


def drawn(graph: Graph) -> str:
    """One line per edge, and one per step that has none."""
    lines = [f"{_node(graph.steps[n])}" for n in graph.steps if not graph.inputs[n] and not graph.outputs[n]]
    for edge in graph.edges:
        producer = graph.steps[edge.producer]
        lines.append(f"{_node(producer)} {_arrow(producer, edge)} {_node(graph.steps[edge.consumer])}")
    return "\n".join(lines)


def _skip(line: str, at: int) -> int:
    return at + len(line[at:]) - len(line[at:].lstrip())


def _tell(told: dict[str, _Told], found: re.Match[str]) -> str:
    name = found["name"]
    said = told.setdefault(name, _Told())
    said.count = int(found["count"] or said.count)
    said.mark = found["mark"] or said.mark
    said.kind = found["kind"] or said.kind
    said.flags = (*said.flags, *filter(None, found["flags"].split("@")))
    return name


def _side(word: str) -> Mapping:
    """Of a union, `+4`, or of one that is coalesced, `+4of7`."""
    by, _, of = word.partition("of")
    return Interval(int(by), int(of)) if of else Offset(int(by))


def _edge(told: dict[str, _Told], producer: str, arrow: re.Match[str], consumer: str) -> Edge:
    kind = arrow["kept"] or "pipelined"
    if told[producer].kind not in ("", kind):
        raise Refused(f"drawing: {producer} is both {told[producer].kind} and {kind}")
    told[producer].kind = kind
    word = arrow["piped"] or arrow["mapping"] or ""
    bare = word.rstrip(".!?*")
    mapping = _side(bare) if bare.startswith("+") else _MAPPINGS[bare]
    mark = word.removeprefix(bare)
    return Edge(producer, consumer, mapping, _MARKS[mark] if mark else None)


def _step(name: str, said: _Told) -> Step:
    return Step(
        name=name,
        partitions=said.count,
        kind=ResultKind(said.kind or "blocking"),
        determinism=_MARKS[said.mark or "."],
        keep=next((_KEEPS[flag] for flag in said.flags if flag in _KEEPS), KeepUntil.CONSUMED),
        is_order_sensitive="unordered" not in said.flags,
        has_query_constants="constants" in said.flags,
        restarts_whole="whole" in said.flags,
        is_pessimistic=next((flag == "region" for flag in said.flags if flag in ("region", "individual")), None),
    )


def _mark(determinism: Determinism) -> str:
    return next(mark for mark, level in _MARKS.items() if level is determinism)


def _node(step: Step) -> str:
    flags = [word for word, keep in _KEEPS.items() if step.keep is keep]
    flags += ["unordered"] * (not step.is_order_sensitive)
    flags += ["constants"] * step.has_query_constants + ["whole"] * step.restarts_whole
    flags += [] if step.is_pessimistic is None else ["region" if step.is_pessimistic else "individual"]
    tail = "".join(f"@{flag}" for flag in flags)
    return f"{step.name}[{step.partitions}]{_mark(step.determinism).strip('.')}:{step.kind.value}{tail}"


def _arrow(producer: Step, edge: Edge) -> str:
    match edge.mapping:
        case Offset(by):
            word = f"+{by}"
        case Interval(by, of):
            word = f"+{by}of{of}" if of else "interval"
        case Broadcast():
            word = "broadcast"
        case _:
            word = "all" if edge.has_exchange else ""
    word += _mark(edge.determinism) if edge.determinism else ""
    if producer.kind.joins_region:
        return f"~{word}~>" if word else "~>"
    return f"={producer.kind.value} {word}=>" if word else f"={producer.kind.value}=>"
