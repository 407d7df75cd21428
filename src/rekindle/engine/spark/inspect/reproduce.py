"""One vertex of a run in a Spark of one's own: its input as DataFrames, and the step on it.

Rules
- Nothing is written and nothing is committed: there is no attempt, and the run's folder is only read.
- The group is planned as a run plans it, so that partition p holds the same rows, but without adaptive execution:
  nothing runs before somebody asks for rows, and a Spark job then has one task in its final stage.
- A kept input of the same partitioning is read from the files of that one partition, and from no other.
- A failure below the partitions (a map task) is tried where it was: on the splits with the files that it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.adapter import PrepareRequest
from rekindle.engine.reproduced import ReproducedVertex, ReproductionRequest, ReproductionResult, ReproductionSetup
from rekindle.engine.spark import session
from rekindle.engine.spark.failures import cause_of, text_of, users_lines
from rekindle.engine.spark.jvm import plan_calls
from rekindle.engine.spark.plan import kept_frames, plans
from rekindle.engine.spark.plan.cut_check import compile_and_analyse
from rekindle.engine.spark.plan.group import GroupSpec
from rekindle.engine.spark.plan.identity import fingerprints
from rekindle.engine.spark.plan.layout import PlannedQuery, hold
from rekindle.engine.spark.prepare import kept_of
from rekindle.engine.spark.run import blocks, results
from rekindle.engine.spark.run.engine import read_committed
from rekindle.errors import Refused
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.state.commands import Input
from rekindle.model.partitions import Partitions
from rekindle.pipeline.declared import Role
from rekindle.publish.targets import Target

NOT_ADAPTIVE = {"spark.sql.adaptive.enabled": "false"}
CELL_CHARACTERS_MAX = 60


def workbench(spark: SparkSession, wanted: PrepareRequest) -> ReproductionSetup:
    """The pipeline as its code is now, with the constants and settings of the run."""
    vertices = vertices_of(spark, wanted)
    return ReproductionSetup(vertices.spec, vertices.open)


def vertices_of(spark: SparkSession, wanted: PrepareRequest) -> Vertices:
    """The pipeline compiled and analysed as for a run of these settings. Starts no Spark job."""
    session.attach(spark)
    compiled, analysis = compile_and_analyse(spark, wanted)
    sources = {one.name for one in wanted.steps if one.role is Role.SOURCE}
    groups = {name: replace(group, planned=analysis.held[name]) for name, group in analysis.groups.items()}
    read = {root: [name for name in inside if name in sources] for root, inside in compiled.members.items()}
    found = fingerprints(kept_of(compiled, analysis, wanted))
    return Vertices(
        spark=spark,
        root=wanted.root,
        spec=RunSpec(graph=analysis.drawn, fingerprints=found),
        groups=groups,
        settings=wanted.settings,
        sources=read,
        sinks=compiled.sinks,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertices:
    """Opens vertices of one run. `sources` are the steps of each group that read from outside; `sinks` where kept steps
    are published."""

    spark: SparkSession
    root: str
    spec: RunSpec
    groups: Mapping[str, GroupSpec]
    settings: Mapping[str, str]
    sources: Mapping[str, list[str]]
    sinks: Mapping[str, Target]

    def open(self, asked: ReproductionRequest) -> ReproducedVertex:
        _refuse_bound(asked, self.groups[asked.step])
        self._refuse_gone(asked)
        held, inputs = self.planned(asked.step, asked.inputs)
        said: list[str] = []
        shown = dict(_own(asked, inputs))
        if asked.partition is None:
            rows, where = _map_side(held, asked.failure.files if asked.failure else ())
            said.append(where)
        elif self.spec.graph.step(asked.step).restarts_whole:
            rows = held.frame
            said.append(f"{asked.step} restarts as a whole, so all of its partitions are computed")
        else:
            rows, leaves, told = self._final(held, asked.step, asked.partition)
            shown |= leaves
            said += told
        return ReproducedVertex(
            vertex=str(asked),
            rows=rows,
            inputs=shown,
            said=tuple(said),
            attempt=partial(attempted, rows),
            show=table_of,
        )

    def _refuse_gone(self, asked: ReproductionRequest) -> None:
        """What lay on executors ended with its application."""
        gone = blocks.gone_in(self.spark, self.root, {one.step: one.segments for one in asked.inputs})
        for step, partitions in gone.items():
            raise Refused(
                f"{asked.step} reads {step}[{partitions}], which was kept on executors of another Spark application",
                hint=f"reproduce '{step}[{partitions.lowest}]', or keep {step} with result='blocking'",
            )

    def planned(self, step: str, reads: Iterable[Input]) -> tuple[PlannedQuery, dict[str, DataFrame]]:
        """The group that ends in `step`, over these files and no others, and what it reads."""
        group = self.groups[step]
        apart = session.clone(session.group_session(self.spark, self.settings), NOT_ADAPTIVE)
        inputs = {one.step: self._read(one, apart, group) for one in reads}
        return hold(group.frame(apart, inputs), apart, group.lies, like=group.planned), inputs

    def _read(self, one: Input, apart: SparkSession, reader: GroupSpec) -> DataFrame:
        group = self.groups[one.step]
        return read_committed(apart, self.root, group, one.segments, is_by_file=reader.lies.is_by_file)

    def _final(
        self, held: PlannedQuery, step: str, partition: int
    ) -> tuple[DataFrame, dict[str, DataFrame], list[str]]:
        """The one task of the final stage: its rows, and what it reads that is not a kept partition of its own."""
        rdd = held.rdd(is_first=True)
        found = results.tasks_of(held, rdd, Partitions((partition,)))
        if not found:
            return held.frame.limit(0), {}, ["the partition is empty"]
        [(index, _)] = found
        leaves = dict(_leaves(held, index, self.sources.get(step, [])))
        said = []
        lines = kept_frames.files_of(held.session, rdd) if not held.layout.is_by_file else []
        if index < len(lines) and self.sources.get(step):
            said.append(f"reads {', '.join(lines[index].split())}")
        if held.shape.exchanges:
            said.append("an exchange feeds it, so all map tasks of the exchange run first")
        return _pruned(held.session, rdd, held.schema, [index]), leaves, said


def _refuse_bound(asked: ReproductionRequest, group: GroupSpec) -> None:
    """A total order is sampled anew by each application: partition 3 would be other rows."""
    if asked.partition is not None and group.lies.is_bound and group.partitions > 1:
        raise Refused(
            f"the partition numbers of {asked.step} are valid only within one Spark application",
            hint=f"reproduce {asked.step} whole, without a number",
        )


def _own(asked: ReproductionRequest, inputs: Mapping[str, DataFrame]) -> Iterator[tuple[str, DataFrame]]:
    """Kept inputs of which this vertex reads one partition, its own."""
    for one in asked.inputs:
        if asked.partition is not None and one.partitions == Partitions((asked.partition,)):
            yield one.step, inputs[one.step]


def _leaves(held: PlannedQuery, index: int, sources: list[str]) -> Iterator[tuple[str, DataFrame]]:
    """What the tasks of the final stage read beside kept results: splits of sources, and what exchanges bring. Only
    where task p reads its p-th part."""
    root = plans.read(held.session, held.plan)
    count = int(held.rdd(is_first=True).getNumPartitions())
    found: dict[str, int] = {}
    for node in plans.stage_leaves(root):
        plan = plans.node_at(held.session, held.plan, node)
        rdd = plan.execute()
        if int(rdd.getNumPartitions()) != count:
            continue
        is_source = node.name != "ShuffleExchangeExec"
        name = (sources[0] if len(sources) == 1 else "source") if is_source else "exchange"
        found[name] = found.get(name, 0) + 1
        number = f" {found[name]}" if found[name] > 1 else ""
        yield f"{name}{number}", _pruned(held.session, rdd, plan.schema(), [index])


def _map_side(held: PlannedQuery, files: tuple[str, ...]) -> tuple[DataFrame, str]:
    """The map tasks of one exchange that read these files; everything, where none are named or found."""
    root = plans.read(held.session, held.plan)
    for node in root.below():
        if not files or node.name != "ShuffleExchangeExec":
            continue
        plan = plans.node_at(held.session, held.plan, node.children[0])
        rdd = plan.execute()
        lines = kept_frames.files_of(held.session, rdd)
        chosen = [index for index, line in enumerate(lines) if not set(files).isdisjoint(kept_frames.paths_in(line))]
        if chosen:
            names = ", ".join(path.rsplit("/", 1)[-1] for path in files)
            said = f"runs the Spark tasks that read {names}: {len(chosen)} of {len(lines)}"
            return _pruned(held.session, rdd, plan.schema(), chosen), said
    return held.frame, "the failure names no input file, so the whole step is computed"


def _pruned(apart: SparkSession, rdd: Any, schema: Any, chosen: list[int]) -> DataFrame:
    pruned = results.pruned(apart, rdd, chosen)
    return plan_calls.frame_of_rdd(apart, pruned, schema)


def attempted(rows: DataFrame, rows_max: int) -> ReproductionResult:
    """All rows are computed, also where few are shown: the one that breaks the step may be the last."""
    try:
        kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            count = kept.count()
            return ReproductionResult(table_of(kept, rows_max), count)
        finally:
            kept.unpersist()
    except Exception as error:
        text = text_of(error)
        return ReproductionResult(failure=cause_of(text).text, frames=users_lines(text), trace=text)


def table_of(frame: DataFrame, rows_max: int) -> str:
    return plan_calls.shown(frame, rows_max, CELL_CHARACTERS_MAX)
