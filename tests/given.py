"""Words for tests of the decision core: graphs drawn, sets written as "a:0-2 b:1"."""

from __future__ import annotations

from rekindle.failover.restart_set import RestartSet
from rekindle.model.availability import Availability
from rekindle.model.graph import Graph
from rekindle.model.ids import ExchangeId
from rekindle.model.partitions import Partitions
from rekindle.model.parts import Parts, less
from rekindle.testing.drawing import finished as all_finished


def sets(text: str) -> dict[str, Partitions]:
    """ "a:0-2 b:1" as a mapping. Keys with "=>" are not allowed here; see `parts`."""
    return {step: Partitions.parse(numbers) for step, numbers in (word.split(":") for word in text.split())}


def parts(text: str) -> Parts:
    """ "a:0 a=>b:1" is partition 0 of a, and part 1 of the exchange from a to b; "=>b" are b's query constants."""
    results: dict[str, Partitions] = {}
    exchanges: dict[ExchangeId, Partitions] = {}
    for word in text.split():
        name, numbers = word.split(":")
        producer, arrow, consumer = name.partition("=>")
        if arrow:
            exchanges[ExchangeId(consumer, producer or None)] = Partitions.parse(numbers)
        else:
            results[name] = Partitions.parse(numbers)
    return Parts(results, exchanges)


def finished(graph: Graph, but: str = "") -> Availability:
    """All done and there, except these results, which never ran."""
    done, missing = all_finished(graph), sets(but)
    return Availability(less(done.results, missing), less(done.started, missing), {}, done.exchanges)


def shown(answer: RestartSet) -> str:
    """The vertices of a restart set, written as `sets` reads them."""
    return " ".join(f"{step}:{restart.partitions}" for step, restart in answer.steps.items())
