"""An adapter without Spark: one kept step, prepared at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rekindle.engine.adapter import PreparedPipeline, PrepareRequest, Stores, VersionRequest
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.model.graph import Graph, Step
from rekindle.storage.stores import open_store
from support.instant import InstantEngine

MakeEngine = Callable[[Path], InstantEngine]


class FakeAdapter:
    """Keeps one step of four partitions, with `clean` fused into it, and remembers what it was asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.make: MakeEngine = lambda folder: InstantEngine(open_store(str(folder)))
        self.asked: list[PrepareRequest] = []
        self.settings = {"spark.sql.shuffle.partitions": "200"}
        self.bases: tuple[str, ...] = ("file:/out",)
        self.fingerprint = {"code": "1"}

    def pinned_settings(self, session: Any) -> dict[str, str]:
        return self.settings

    def prepare(self, session: Any, wanted: PrepareRequest) -> PreparedPipeline:
        self.asked.append(wanted)
        return PreparedPipeline(
            engine=self.make(self._folder),
            spec=RunSpec(
                graph=GraphSpec.of(Graph.of([Step(name="counted", partitions=4)], [])),
                sinks=("counted",),
                fingerprints={"counted": self.fingerprint},
                targets={"counted": "daily to files /out"},
                declared=wanted.declared,
                regions={"counted": ("orders", "clean", "counted")},
            ),
            why=dict.fromkeys(("orders", "clean", "counted", "daily"), "because"),
            settings={"found by the sources": str(len(self.asked)), **wanted.settings},
            bases=self.bases,
        )

    def read_newest(self, session: Any, path: str, stores: Stores, wanted: VersionRequest) -> str:
        which = "" if wanted.version is None else f"{wanted.version} of "
        return f"{session} reads {which}{path}"

    def read_previous(self, session: Any, path: str, stores: Stores, schema: Any) -> str:
        return f"{session} reads what was before it in {path} as {schema}"

    def run_stores(self) -> Stores | None:
        return None

    def properties(self, session: Any) -> dict[str, str]:
        return {}
