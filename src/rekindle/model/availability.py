"""What of a run can be read now, as a value: the tracker that policies ask.

Rules
- `results` holds committed, readable partitions of kept steps only. A pipelined step never has any.
- `started` holds every vertex that ever began. `running` holds those in flight and healthy: they need nothing
  more unless something they read changes.
- `exchanges` holds the map parts the engine still has. An exchange that several groups read counts as
  available only where every one of them still has it.
- `wanted` names steps whose results go somewhere and are not there yet: they are outputs, whoever else reads them.
- A loss takes away; nothing here marks and unmarks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rekindle.model.graph import Graph
from rekindle.model.ids import ExchangeId
from rekindle.model.kinds import FailureDomain, ResultKind
from rekindle.model.partitions import Partitions
from rekindle.model.parts import Parts, less


@dataclass(frozen=True, slots=True)
class Availability:
    """Absent keys mean the empty set."""

    results: Mapping[str, Partitions] = field(default_factory=dict)
    started: Mapping[str, Partitions] = field(default_factory=dict)
    running: Mapping[str, Partitions] = field(default_factory=dict)
    exchanges: Mapping[ExchangeId, Partitions] = field(default_factory=dict)
    wanted: frozenset[str] = frozenset()

    def without(self, lost: Parts) -> Availability:
        """After these results are gone."""
        return replace(
            self,
            results=less(self.results, lost.results),
            exchanges=less(self.exchanges, lost.exchanges),
        )

    def after(self, graph: Graph, domain: FailureDomain) -> Availability:
        """After a failure took everything that does not survive `domain`, and all that was in flight."""
        return replace(
            self,
            results={name: at for name, at in self.results.items() if graph.steps[name].kind.survives(domain)},
            running={},
            exchanges=self.exchanges if ResultKind.CACHING.survives(domain) else {},
        )
