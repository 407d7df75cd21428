"""What a run is made from, in two values: the pipeline as its code is now, and what the user decided about it.

An adapter makes the first, and both are carried whole from there to the master's first decision. A new fact about a
pipeline is a field here, and one of `RunStarted` if the next driver must know it.
"""

from __future__ import annotations

import msgspec

from rekindle.failover.restart import Strategy
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.model.partitions import Partitions

Fingerprint = dict[str, str]


class DeclaredStep(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A step as it was declared: `role` is source, step or sink, `reads` are its inputs; `target` is where it goes."""

    name: str
    role: str
    reads: tuple[str, ...] = ()
    target: str = ""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline. A vertex of its graph is what one task computes: a partition of a kept step, with all that is
    pipelined into it.

    graph           its kept steps and their edges
    declared        all its steps, producers first: sources, pipelined and kept ones, sinks
    regions         the steps that the tasks of each kept step compute, itself last
    sinks           the steps that are published
    fingerprints    what each step is, in named parts
    targets         in words, which sink each published step is and where it goes
    once            those of them whose targets are written once
    doubts          what makes a step not determinate
    columns         of each source and each kept step: its columns in their order, with their types
    of_its_run      why the rows of a step belong to one run, and no other run may take them
    reusable        the steps whose results runs of other parameters may take, on the user's word
    """

    graph: GraphSpec
    declared: tuple[DeclaredStep, ...] = ()
    regions: dict[str, tuple[str, ...]] = {}
    sinks: tuple[str, ...] = ()
    fingerprints: dict[str, Fingerprint] = {}
    targets: dict[str, str] = {}
    once: tuple[str, ...] = ()
    doubts: dict[str, tuple[str, ...]] = {}
    columns: dict[str, dict[str, str]] = {}
    of_its_run: dict[str, str] = {}
    reusable: tuple[str, ...] = ()

    def regions_with(self, step: str) -> list[str]:
        """The kept steps whose tasks compute a step, by name."""
        return [root for root, members in self.regions.items() if step in members]


class UserDecisions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says about what changed, or cannot be had.

    accepted     changed steps whose committed results still count
    replaced     steps whose changed sources are read again
    without      partitions that failed and are left out
    republish    what is published may be replaced, where it changed
    strategy     the failover strategy from now on; None: that of the run
    """

    accepted: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()
    without: dict[str, Partitions] = {}
    republish: bool = False
    strategy: Strategy | None = None
