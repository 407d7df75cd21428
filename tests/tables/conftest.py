"""One Spark application with Delta and Iceberg for all modules of this folder. `make tables` runs it, in an environment
of its own: neither is published for the PySpark of development."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from parts import TABLES_PYSPARK, delta_folder, iceberg_folder
from rekindle.engine.spark.jvm import driver_calls, iceberg_calls, table_calls
from rekindle.engine.spark.publish.publication import Publication
from rekindle.engine.spark.session import attach
from rekindle.master.facts.events import Fence
from rekindle.publish.targets import Target
from support.delta import delta_settings
from support.iceberg import iceberg_jars_here
from support.lake_catalogs import HADOOP, JARS, lake_catalog

APPLICATION = "tables"


def why_skipped() -> str:
    """Empty where tables can be tested."""
    if not version("pyspark").startswith(f"{TABLES_PYSPARK}."):
        return f"Delta is not published for PySpark {version('pyspark')}: make tables"
    if not (delta_folder().exists() and table_calls.delta_jar()):
        return "the jars of Delta, or ours for it, are not here: make tables"
    if not (iceberg_folder().exists() and iceberg_calls.iceberg_jar()):
        return "the jar of Iceberg, or ours for it, is not here: make tables"
    running = SparkContext._active_spark_context
    if driver_calls.has_gateway() and (running is None or running.appName != APPLICATION):
        return "this process has a JVM without Delta: make tables"
    return ""


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with Delta and Iceberg on its class path, and an Iceberg catalog of the kind that `TABLES_CATALOG`
    names."""
    why = why_skipped()
    if why:
        pytest.skip(why)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    folder = tmp_path_factory.mktemp("spark")
    with lake_catalog(os.environ.get("TABLES_CATALOG", HADOOP), folder) as lake:
        builder = SparkSession.builder.master("local[2,1]").appName(APPLICATION)
        for key, value in {
            **lake,
            **delta_settings(*iceberg_jars_here(), *filter(None, [lake.get(JARS)])),
            "spark.local.dir": str(folder),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        attach(session)
        yield session


@dataclass
class Results:
    """Committed results, written by Spark; one file per partition, over several directories like attempts."""

    spark: SparkSession
    folder: Path
    made: list[Path] = field(default_factory=list)

    def of(
        self,
        target: Target,
        fence: Fence,
        query: str,
        *,
        key: str = "",
        place: str = "abc",
        takes: str | None = None,
        owner: str = "daily",
        files: int = 3,
    ) -> Publication:
        frame = self.spark.sql(query)
        folder = self.folder / f"result{len(self.made)}"
        self.made.append(folder)
        frame.repartition(files).write.parquet(str(folder))
        found = tuple((f"file:{path}", path.stat().st_size) for path in sorted(folder.glob("part-*")))
        return Publication(
            sink="out",
            owner=owner,
            target=target,
            fence=fence,
            files=found,
            schema=frame.schema.json(),
            place=place,
            takes=takes,
            key=key,
        )


@pytest.fixture
def results(tables: SparkSession, tmp_path: Path) -> Results:
    return Results(tables, tmp_path / "results")


@pytest.fixture
def rows(tables: SparkSession) -> Callable[[Path], dict[int, int]]:
    """How many rows a table has of each day."""

    def read(path: Path) -> dict[int, int]:
        found = tables.read.format("delta").load(str(path)).groupBy("day").count().collect()
        return {row["day"]: row["count"] for row in found}

    return read


def between(monkeypatch: pytest.MonkeyPatch, calls: ModuleType, name: str, act: Callable[[], object]) -> None:
    """What others do after the publisher has looked, and before it commits by the call of this name: once."""
    commit, waiting = getattr(calls, name), [act]

    def late(*arguments: object, **named: object) -> bool:
        while waiting:
            waiting.pop()()
        return bool(commit(*arguments, **named))

    monkeypatch.setattr(calls, name, late)
