"""Runs of a small graph without Spark, with manifests and digests in their journals, and an engine that looks at them.

`keyed` is read partition by partition by `scored`, which is published. What the storage holds and what would be made
again is what a test says; by itself everything is as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rekindle as rk
from rekindle.engine.adapter import PreparedPipeline, PrepareRequest, Stores, VersionRequest
from rekindle.engine.verified import (
    DamagedFile,
    FileCheck,
    PublishedFiles,
    RecomputedPartitions,
    StoredFiles,
    VerificationSetup,
)
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.state import commands as cmd
from rekindle.master.state.commands import Input
from rekindle.model.edges import IDENTITY
from rekindle.model.graph import Edge, Graph, Step
from rekindle.model.kinds import Determinism, KeepUntil, ResultKind
from rekindle.model.partitions import Partitions
from rekindle.results import manifest
from support.instant import Instant

NOTHING = bytes(24)
EMPTY_PARTITION = 3


def digest_of(step: str, partition: int) -> bytes:
    return NOTHING if partition == EMPTY_PARTITION else f"{step} {partition}".encode().ljust(24)


def graph(level: Determinism, keep: KeepUntil, kind: ResultKind) -> Graph:
    steps = [
        Step(name="keyed", partitions=4, kind=kind, determinism=level, keep=keep),
        Step(name="scored", partitions=4, keep=keep, determinism=level),
    ]
    return Graph.of(steps, [Edge("keyed", "scored", IDENTITY)])


class Writing(Instant):
    """Commits with a manifest; partition 3 has no rows. `digested` are the steps whose partitions have digests."""

    def __init__(self, digested: frozenset[str], broken: Mapping[str, int]) -> None:
        super().__init__(
            breaks=lambda attempt, at: Partitions([broken[attempt.step]] if attempt.step in broken else [])
        )
        self._digested = digested

    def _start(self, command: cmd.StartAttempt) -> None:
        super()._start(command)
        self._happened = [self._written(one) if isinstance(one, st.CommitsSeen) else one for one in self._happened]

    def _written(self, seen: st.CommitsSeen) -> st.CommitsSeen:
        step = seen.attempt.step
        commits = [
            manifest.Commit(partition=number, task=0, name="", bytes=-1)
            if number == EMPTY_PARTITION
            else manifest.Commit(
                partition=number, task=number, name=f"part-{number}_{number:05d}.parquet", bytes=100 + number
            )
            for number in seen.partitions
        ]
        digests = b"".join(digest_of(step, number) for number in seen.partitions)
        packed = digests if step in self._digested else None
        return st.CommitsSeen(
            attempt=seen.attempt,
            partitions=seen.partitions,
            manifest=manifest.pack(commits, step),
            digests=packed,
            exchange_version=seen.exchange_version,
        )


@dataclass
class Kept:
    """An adapter and a verifier in one. `files` and `made` replace digests of (step, partition), `faults` damage files,
    `target` is what the sink's target holds; `looked` and `asked` are what was asked for."""

    level: Determinism = Determinism.DETERMINATE
    keep: KeepUntil = KeepUntil.FOREVER
    kind: ResultKind = ResultKind.BLOCKING
    digested: frozenset[str] = frozenset({"keyed", "scored"})
    broken: Mapping[str, int] = field(default_factory=dict)
    whole: Mapping[str, Determinism] = field(default_factory=dict)
    files: dict[tuple[str, int], bytes] = field(default_factory=dict)
    made: dict[tuple[str, int], bytes] = field(default_factory=dict)
    faults: dict[tuple[str, int], DamagedFile] = field(default_factory=dict)
    failure: str = ""
    is_bound: bool = False
    code: str = "1"
    target: PublishedFiles | None = None
    looked: list[StoredFiles] = field(default_factory=list)
    asked: list[tuple[str, Partitions, tuple[Input, ...]]] = field(default_factory=list)

    def pinned_settings(self, session: Any) -> dict[str, str]:
        return {}

    def prepare(self, session: Any, wanted: PrepareRequest) -> PreparedPipeline:
        return PreparedPipeline(
            engine=Writing(self.digested, self.broken),
            spec=RunSpec(
                graph=GraphSpec.of(graph(self.level, self.keep, self.kind)),
                sinks=("scored",),
                fingerprints={"keyed": {"code": "1"}, "scored": {"code": "1"}},
                regions={"keyed": ("orders", "keyed"), "scored": ("scored",)},
            ),
            why=dict.fromkeys(("orders", "keyed", "scored"), "because"),
        )

    def read_newest(self, session: Any, path: str, stores: Stores, wanted: VersionRequest) -> str:
        raise AssertionError("nobody reads it")

    def read_previous(self, session: Any, path: str, stores: Stores, schema: Any) -> str:
        raise AssertionError("nobody reads it")

    def run_stores(self) -> Stores | None:
        raise AssertionError("nobody reads it")

    def look(self, session: Any, stored: StoredFiles) -> FileCheck:
        self.looked.append(stored)
        step = stored.schema
        faults = {number: self.faults[step, number] for number, *_ in stored.files if (step, number) in self.faults}
        digests = {
            number: self.files.get((step, number), digest_of(step, number))
            for number, *_ in stored.files
            if number not in faults
        }
        return FileCheck(digests, faults)

    def bench(self, session: Any, wanted: PrepareRequest) -> VerificationSetup:
        fingerprints = {"keyed": {"code": "1"}, "scored": {"code": self.code}}
        return VerificationSetup(
            RunSpec(graph=GraphSpec.of(graph(self.level, self.keep, self.kind)), fingerprints=fingerprints),
            self.whole,
            self._again,
            lambda sink, order: self.target,
        )

    def _again(self, step: str, wanted: Partitions, inputs: tuple[Input, ...]) -> RecomputedPartitions:
        self.asked.append((step, wanted, inputs))
        rows = {number: self.made.get((step, number), digest_of(step, number)) for number in wanted}
        made = {number: one for number, one in rows.items() if one != NOTHING}
        return RecomputedPartitions(made, NOTHING, self.is_bound, self.failure)


def pipeline() -> rk.Pipeline:
    made = rk.Pipeline("daily")
    made.add_source(lambda spark, day="today": None, name="orders")
    made.add_step(lambda orders: None, name="keyed")
    made.add_sink(lambda keyed: None, rk.files("/out"), name="scored")
    return made


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}
