"""From checked steps to an engine that can run them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from rekindle.engine.adapter import PreparedPipeline, PrepareRequest, Stores
from rekindle.engine.executor_settings import executor_notes
from rekindle.engine.spark import session
from rekindle.engine.spark.plan import sources
from rekindle.engine.spark.plan.analyse import Analysis, of_its_run
from rekindle.engine.spark.plan.compile import SHUFFLE_PARTITIONS, Compiled
from rekindle.engine.spark.plan.cut_check import compile_and_analyse
from rekindle.engine.spark.plan.identity import INPUT, KeptStep, Member, fingerprints
from rekindle.engine.spark.plan.layout import COALESCES, EDGES, PlannedQuery
from rekindle.engine.spark.plan.versions_read import at_any_version, at_one_version
from rekindle.engine.spark.publish import copying, sinks
from rekindle.engine.spark.publish.files import read_by
from rekindle.engine.spark.publish.publication import Publication, TargetOwner
from rekindle.engine.spark.publish.publisher import TablesRead
from rekindle.engine.spark.publish.sinks import FilesLost
from rekindle.engine.spark.run import inventory
from rekindle.engine.spark.run.blocks import IN_BLOCKS
from rekindle.engine.spark.run.engine import SparkEngine, committed_files
from rekindle.errors import Refused
from rekindle.master.facts.graph_spec import GraphSpec, StepSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.facts.stimuli import PartsLost, SinkFailed, SinkUnchanged, Stimulus
from rekindle.master.state.commands import PublishSink
from rekindle.model.kinds import FailureDomain
from rekindle.model.partitions import Partitions
from rekindle.model.parts import Parts
from rekindle.pipeline.did_you_mean import did_you_mean
from rekindle.pipeline.source_lines import with_lines
from rekindle.pipeline.table_versions import TableVersion
from rekindle.publish.history import Reader
from rekindle.publish.log_table import LogTable
from rekindle.publish.overlap import OwnedPath, refuse_overlaps, versions_read
from rekindle.publish.target import PointerStore, StoreAnswer
from rekindle.publish.targets import Target, has_pointers
from rekindle.results import manifest


def pinned_settings(spark: SparkSession) -> dict[str, str]:
    """Also the number of partitions that a kept step has if the user gave none, where it is not Spark's default: it is
    part of the graph. Otherwise it is found when the sources are known, and pinned then."""
    session.attach(spark)
    rows = sources.settings(spark, [SHUFFLE_PARTITIONS])
    pinned = session.pinned_settings(spark) | {name: value for name, value, usual in rows if value != usual}
    return pinned | {EDGES: COALESCES}


def prepare(spark: SparkSession, wanted: PrepareRequest) -> PreparedPipeline:
    """Everything that can be refused is refused here, before anything runs."""
    session.attach(spark)
    steps = {one.name: one for one in wanted.steps}
    with read_by(reader_of(wanted), wanted.stores):
        compiled, analysis = compile_and_analyse(spark, wanted)
    bases = {step: sinks.publisher_of(target).base(spark) for step, target in compiled.sinks.items()}
    _refuse_overlaps(compiled, bases, analysis, wanted)
    taken = _check_targets(spark, compiled, bases, analysis, wanted)
    paths = {path for held in analysis.held.values() for path in sources.places(held.frame)}
    read = {step: versions_read(base, paths) for step, base in bases.items()}
    publisher = Publisher(
        spark=spark, wanted=wanted, sinks=compiled.sinks, taken=taken, read=read, tables=compiled.tables
    )
    found = fingerprints(kept_of(compiled, analysis, wanted))
    groups = {
        name: replace(group, source=found[name].get(INPUT, ""), planned=analysis.held[name])
        for name, group in analysis.groups.items()
    }
    lacking = session.without_checksums(spark)
    engine = SparkEngine(spark, wanted.root, groups, compiled.settings, publisher.publish)
    return PreparedPipeline(
        engine=engine,
        spec=RunSpec(
            graph=analysis.drawn,
            declared=wanted.declared,
            regions=compiled.members,
            sinks=tuple(compiled.sinks),
            fingerprints=found,
            targets=compiled.destinations,
            once=tuple(step for step, target in compiled.sinks.items() if target.is_written_once),
            doubts={
                name: (
                    *_bound(held),
                    *with_lines(held.verdict.because, [steps[one].function for one in members]),
                    *_not_resumed(held, analysis.drawn.step(name), lacking),
                )
                for name, held in analysis.held.items()
                for members in [compiled.members[name]]
            },
            of_its_run={name: why for name, group in groups.items() if (why := of_its_run(group, analysis.held[name]))},
            reusable=tuple(name for name in groups if steps[name].is_reusable),
            columns={name: _columns(schema) for name, schema in compiled.read.items()}
            | {name: _columns(held.frame.schema) for name, held in analysis.held.items()},
        ),
        why=compiled.why,
        cores=int(spark.sparkContext.defaultParallelism),
        missing=lambda counted: inventory.missing(spark, wanted.root, counted),
        tasks=engine.tasks,
        settings=compiled.settings,
        bases=tuple(base for step, base in bases.items() if has_pointers(compiled.sinks[step])),
        copy=lambda copies: copying.into_run(spark, wanted.root, copies),
        columns_in=lambda schema: _columns(StructType.fromJson(json.loads(schema))),
        tables=(*compiled.versions, *_ways(spark, compiled, bases)),
        executors=executor_notes(session.properties(spark), _in_blocks(analysis.drawn)),
    )


def _ways(spark: SparkSession, compiled: Compiled, bases: Mapping[str, str]) -> tuple[str, ...]:
    """How the logs of tables take what is published there."""
    found = ((target.shown, sinks.how(spark, target, bases[step])) for step, target in compiled.sinks.items())
    return tuple(f"{shown}: {how}" for shown, how in found if how)


def _in_blocks(drawn: GraphSpec) -> tuple[str, ...]:
    return tuple(step.name for step in drawn.steps if step.kind in IN_BLOCKS)


def reader_of(wanted: PrepareRequest) -> Reader:
    """Who reads targets while the steps of a run are built."""
    return Reader(
        owner=wanted.pipeline,
        place=wanted.place,
        order=wanted.order,
        has_published=bool(wanted.published),
        key=wanted.key,
    )


def _columns(schema: StructType) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in schema.fields}


def _bound(held: PlannedQuery) -> tuple[str, ...]:
    """Why a result whose rows may well be the same again counts as indeterminate all the same."""
    if not held.layout.is_bound:
        return ()
    return ("its partitioning holds only within one Spark application: another one distributes the rows differently",)


def _not_resumed(held: PlannedQuery, drawn: StepSpec, lacking: str) -> tuple[str, ...]:
    """Why a new driver computes all of a step again, where checksums might have spared it. `lacking` says why there are
    none, and is empty where there are."""
    is_proved = (drawn.below or drawn.determinism).is_repeatable
    if held.shape.is_narrow or is_proved or held.layout.is_bound or not lacking:
        return ()
    return (f"a new driver recomputes all of it: its exchange is not determinate, and {lacking}",)


def _refuse_overlaps(compiled: Compiled, bases: Mapping[str, str], analysis: Analysis, wanted: PrepareRequest) -> None:
    """Of the location, the targets and what is read. Two sinks of one run have the same fence: each would take the
    other's publication for its own, however the two spell it."""
    location = OwnedPath(wanted.root.rsplit("/", 2)[0], "the location of the runs")
    targets = [
        OwnedPath(bases[step], f"the target of {name}", target.is_versioned, has_log=isinstance(target, LogTable))
        for name, step in compiled.named.items()
        for target in [compiled.sinks[step]]
    ]
    read = {name: sources.places(held.frame) for name, held in analysis.held.items()}
    frames = [held.frame for held in analysis.held.values()] if _has_log(compiled) else []
    refuse_overlaps(location, targets, read, {path for frame in frames for path in at_one_version(frame)})


def _has_log(compiled: Compiled) -> bool:
    return any(isinstance(target, LogTable) for target in compiled.sinks.values())


def _check_targets(
    spark: SparkSession, compiled: Compiled, bases: Mapping[str, str], analysis: Analysis, wanted: PrepareRequest
) -> dict[str, str | None]:
    """The answer is from which place the target of each sink is taken."""
    for name in wanted.takes - compiled.named.keys():
        known = f"the sinks are {', '.join(compiled.named) or 'none'}"
        raise Refused(f"there is no sink {name} to take the target of", did_you_mean(name, compiled.named) or known)
    taken: dict[str, str | None] = {}
    read = {path for held in analysis.held.values() for path in sources.places(held.frame)}
    frames = [held.frame for held in analysis.held.values()] if _has_log(compiled) else []
    loose = {one for frame in frames for one in at_any_version(frame)}
    tables = TablesRead(fixed=compiled.tables, loose=tuple(loose))
    for sink, step in compiled.named.items():
        target, base = compiled.sinks[step], bases[step]
        taken[step] = sinks.publisher_of(target).place(spark, base, wanted.stores) if sink in wanted.takes else None
        claimant = TargetOwner(
            owner=wanted.pipeline,
            place=wanted.place,
            sink=sink,
            takes=taken[step],
            key=wanted.key,
            has_published=step in wanted.published,
        )
        schema = str(analysis.held[step].schema.json())
        sinks.check(spark, claimant, target, wanted.order, wanted.stores, schema=schema, read=read, tables=tables)
    return taken


def kept_of(compiled: Compiled, analysis: Analysis, wanted: PrepareRequest) -> dict[str, KeptStep]:
    """What a fingerprint is made of: a fused step belongs to that of its group."""
    steps = {one.name: one for one in wanted.steps}

    def member(name: str) -> Member:
        return Member(name, steps[name].function, steps[name].parameter_values(wanted.parameters))

    return {
        root: KeptStep(
            held.frame,
            held.layout.keys,
            held.partitions,
            tuple(member(name) for name in compiled.members[root]),
            analysis.splits(root),
        )
        for root, held in analysis.held.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Answers the master's wish to publish: from journaled segments to files, from files to the target. `read` are the
    versions of the target of each sink that the run itself reads, `tables` the versions of tables that it reads."""

    spark: SparkSession
    wanted: PrepareRequest
    sinks: Mapping[str, Target]
    taken: Mapping[str, str | None]
    read: Mapping[str, frozenset[str]]
    tables: tuple[TableVersion, ...]

    def publish(self, command: PublishSink) -> tuple[Stimulus, ...]:
        """What came of it. Where no pointer was put, nothing of it can ever be seen."""
        files = [
            (number, f"{self.wanted.root}/{path}", length)
            for number, path, length in sorted(committed_files(command.segments))
        ]
        publication = Publication(
            sink=command.sink,
            owner=self.wanted.pipeline,
            target=self.sinks[command.sink],
            fence=command.fence,
            files=tuple((path, length) for _, path, length in files),
            schema=manifest.schema_of(command.segments[0].manifest),
            holes=", ".join(f"{name}[{holes}]" for name, holes in command.holes),
            place=self.wanted.place,
            takes=self.taken[command.sink],
            key=self.wanted.key,
            read=self.read[command.sink],
            tables=self.tables,
        )
        noticed = _Noticed(self.wanted.stores)
        answer = sinks.publish(self.spark, publication, noticed.open)
        told: Stimulus
        if isinstance(answer, FilesLost):
            gone = Partitions(number for number, path, _ in files if path in answer.found)
            told = PartsLost(Parts({command.sink: gone}), FailureDomain.STORAGE)
        else:
            told = answer
        if publication.target.is_versioned and not noticed.has_put and isinstance(answer, FilesLost | SinkFailed):
            return SinkUnchanged(command.sink, command.fence), told
        return (told,)


class _Noticed:
    """The stores of targets, and whether anybody tried to put something into one."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self.has_put = False

    def open(self, base: str) -> PointerStore:
        return _NoticedStore(self._stores(base), self)


class _NoticedStore:
    def __init__(self, store: PointerStore, noticed: _Noticed) -> None:
        self._store, self._noticed = store, noticed
        self.get, self.get_many = store.get, store.get_many
        self.list_after, self.list_folders = store.list_after, store.list_folders

    def put_if_absent(self, key: str, body: bytes) -> StoreAnswer:
        self._noticed.has_put = True
        return self._store.put_if_absent(key, body)
