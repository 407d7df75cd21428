"""Committed files added to a table by one commit of its log, with the fence in it, whatever format has the log.

Rules
- The commit is on top of the version that was looked at, and depends on our numbers in it (table_fences.py). Where
  somebody else came first everything is looked at again, until it is published or a later one is there.
- What a table cannot take as it is is refused before anything runs, where its format does not write rows again for it
  (delta.py).
- A table that is not there is made first, without rows, by a commit of its own.
- A format says how its log is read and written: one class for each, below this one.
- Which files are replaced and added: log_files.py.
- What a run made by looking at the table itself replaces no row that came or went since (table_changes.py).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pyspark.sql import SparkSession

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.jvm import plan_calls
from rekindle.engine.spark.jvm.driver_calls import add_jar
from rekindle.engine.spark.publish import log_files
from rekindle.engine.spark.publish.publication import Publication, TargetOwner
from rekindle.engine.spark.publish.publisher import PublicationFenced, PublicationRequest, TargetState
from rekindle.errors import Refused, StoreFailed
from rekindle.master.facts.events import Fence
from rekindle.pipeline.table_versions import TableVersion
from rekindle.publish.log_table import LogTable
from rekindle.publish.pointers import Pointer
from rekindle.publish.table_changes import ChangedFile, undone
from rekindle.publish.table_fences import (
    AlreadyThere,
    Earlier,
    Later,
    Replaces,
    SameFiles,
    TableClaim,
    merge_key,
    numbers_after,
    numbers_of_same,
    owners,
    partition_key,
    streams,
    verdict,
)
from rekindle.publish.table_files import TableFile, TableState, changed_columns
from rekindle.publish.target import APPEND, MERGE, OVERWRITE
from rekindle.remedies import OVERTAKEN, StartRemedy, TextRemedy

ROUNDS_MAX = 100
NAMED_MAX = 3

State = TypeVar("State", bound=TableState)
Target = TypeVar("Target", bound=LogTable)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """What one commit does: the files that it removes (`log_files.EVERYTHING`), those that it adds, each as the log has
    it, and the numbers that it sets."""

    removed: Sequence[str] = ()
    added: Sequence[str] = ()
    after: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """What a publication does to the files of a table: those that it removes, those of its own that it adds, and those
    that it adds with rows of others, which stay; all as the log has them. `made_for` is what of the table its own files
    depend on: another round takes them again while that is the same."""

    removed: Sequence[str]
    added: Sequence[str]
    kept: Sequence[str] = ()
    made_for: object = None


@dataclass(frozen=True, slots=True)
class TableLogPublisher(ABC, Generic[Target, State]):
    """Publishes into a table that has a log."""

    target: Target

    @abstractmethod
    def base(self, spark: SparkSession) -> str:
        """Where the table lies, or what tells it from all others until it is made."""

    @abstractmethod
    def look(self, spark: SparkSession, base: str) -> State | None:
        """The newest version of the table, None where there is no table."""

    @abstractmethod
    def make(self, spark: SparkSession, base: str, columns: str) -> None:
        """Make a table without rows, unless somebody else does at once. `columns` are those of a CREATE TABLE."""

    @abstractmethod
    def obstacles(self, state: State) -> Sequence[str]:
        """Why nothing can be published to the table: each as what the table does."""

    @abstractmethod
    def files(self, spark: SparkSession, base: str, state: State) -> list[TableFile]:
        """The files of one version."""

    @abstractmethod
    def replaced(self, spark: SparkSession, base: str, state: State, earlier: tuple[Earlier, ...]) -> Sequence[str]:
        """The files that a publication replaces, as far as the log tells it. Refused where rows of others would go."""

    @abstractmethod
    def changes(self, spark: SparkSession, base: str, state: State, since: int) -> list[ChangedFile] | None:
        """The files whose rows came or went since a version. None if the log does not go back so far."""

    @abstractmethod
    def is_committed(
        self, spark: SparkSession, base: str, state: State, what: Publication, commit: TableCommit
    ) -> bool:
        """One commit on top of a version that was looked at. False if somebody else came first."""

    @abstractmethod
    def change(
        self,
        spark: SparkSession,
        base: str,
        state: State,
        what: Publication,
        earlier: tuple[Earlier, ...],
        before: TableChange | None,
    ) -> TableChange | None:
        """What a publication does to the version that was looked at; `before` is what it would have done to an earlier
        one. None if that version is not the newest any more."""

    def how(self, spark: SparkSession, base: str) -> str:
        """What a plan says of the way in which it is published."""
        return self.target.how

    def check(self, spark: SparkSession, request: PublicationRequest, base: str, stores: Stores) -> None:
        state = self.look(spark, base)
        if state is None:
            return
        check_owner(self.target, request.by, state)
        self.check_fits(state, request.schema)
        if version_read(request.tables.loose, self.target, state):
            raise Refused(
                f"{self.target.shown} is read by a step of this run, at no version: Rekindle cannot tell whether rows "
                "that it replaces were changed since",
                "read the table in a source of the pipeline: sources read tables at one version",
            )
        if request.by.has_published:
            return
        found = verdict(state.numbers, self._claim(request.by, state, Fence(request.order, 0, 0), source="0"))
        if isinstance(found, Later) and found.fence.order > request.order:
            raise Refused(
                f"{self.target.shown} already holds what a later run published (run {found.fence.order}; this is run "
                f"{request.order})",
                OVERTAKEN,
            )
        if isinstance(found, Replaces):
            if self.target.mode == APPEND and found.earlier and version_read(request.tables.fixed, self.target, state):
                raise _own_rows(self.target, found.earlier[0])
            self.replaced(spark, base, state, found.earlier)

    def place(self, spark: SparkSession, base: str, stores: Stores) -> str | None:
        state = self.look(spark, base)
        newest = max(((fence, place) for place, _, fence in owners(state.numbers)), default=None) if state else None
        return None if newest is None else newest[1]

    def publish(self, spark: SparkSession, what: Publication, stores: Stores) -> Fence | None:
        base, source = self.base(spark), what.part().source
        change: TableChange | None = None
        for _ in range(ROUNDS_MAX):
            state = self.look(spark, base) or self._made(spark, base, what.schema)
            check_owner(self.target, what.claimant, state)
            claim = self._claim(what.claimant, state, what.fence, source)
            match verdict(state.numbers, claim):
                case AlreadyThere():
                    return None
                case Later(fence):
                    return fence
                case SameFiles():
                    commit = TableCommit(after=numbers_of_same(claim))
                case Replaces(earlier):
                    self.check_fits(state, what.schema)
                    self._check_undone(spark, what, base, state)
                    found = self.change(spark, base, state, what, earlier, change)
                    if found is None:
                        continue
                    change, after = found, numbers_after(state.numbers, claim, len(found.added))
                    commit = TableCommit(removed=change.removed, added=(*change.added, *change.kept), after=after)
            if self.is_committed(spark, base, state, what, commit):
                return None
        raise StoreFailed(f"{ROUNDS_MAX} other commits to {self.target.shown} came first, one after the other")

    def contents(self, spark: SparkSession, stores: Stores) -> TargetState:
        """As a chain of pointers would tell it: files that publications of ours brought and that are still there."""
        base = self.base(spark)
        state = self.look(spark, base)
        newest = max((fence for _, _, fence in owners(state.numbers)), default=None) if state is not None else None
        if state is None or newest is None:
            return TargetState(base, None)
        parts = tuple(log_files.parts(self.files(spark, base, state)))
        return TargetState(
            self.folder(base, state), Pointer(fence=newest, owner="", version=state.told, schema="", parts=parts)
        )

    def folder(self, base: str, state: State) -> str:
        """Where the files of the table lie."""
        return base

    def schema_of(self, schema: str) -> str:
        """The schema of a result with the types that the format has for its own, as Spark's JSON."""
        return schema

    def check_fits(self, state: State, schema: str) -> None:
        """Refuse what would have to be written again for the table, or would change its columns."""
        found = self.obstacles(state)
        if found:
            raise Refused(
                f"{self.target.shown} {self.refusal(found[:NAMED_MAX])}",
                "publish to a table without that, or to rk.files and write the rows into the table from there",
            )
        changed = self.changed_columns(state, self.schema_of(schema)) if schema else []
        if changed:
            raise Refused(
                f"{self.target.shown} has other columns than the result: {'; '.join(changed[:NAMED_MAX])}",
                "change the step, or the table with ALTER TABLE",
            )
        log_files.wanted_values(self.target, state)

    def refusal(self, obstacles: Sequence[str]) -> str:
        """What a table with such obstacles cannot do."""
        return (
            f"cannot take kept files as they are: {'; '.join(obstacles)}. Rekindle does not write rows again for "
            f"{self.target.kind} yet"
        )

    def changed_columns(self, state: State, schema: str) -> list[str]:
        """What differs between the columns of the table and those of a result, in words."""
        return changed_columns(state, schema)

    def _check_undone(self, spark: SparkSession, what: Publication, base: str, state: State) -> None:
        """What was made by looking at this table does not replace rows that came or went since."""
        read = version_read(what.tables, self.target, state)
        if read is None or self.target.mode == APPEND:
            return
        changes = self.changes(spark, base, state, read.version)
        seen = f"{self.target.shown} is read by this run as {read.shown}"
        if changes is None:
            raise PublicationFenced(
                f"{seen}, and its log does not go back to it any more: Rekindle cannot tell whether rows that this run "
                "replaces were changed since",
                what.fence,
            )
        found = undone(changes, what.place, what.fence.order, log_files.wanted_values(self.target, state))
        if found is not None and found.run is not None:
            newer = found.run[1]
            raise PublicationFenced(
                f"{seen}, before run {newer.order} published to it: what that run changed would be undone", newer
            )
        if found is not None:
            raise PublicationFenced(
                f"{seen}, and somebody else changed rows of it since ({found.commit}) that this run replaces: that "
                "change would be undone",
                what.fence,
            )

    def _claim(self, by: TargetOwner, state: State, fence: Fence, source: str) -> TableClaim:
        values = log_files.wanted_values(self.target, state)
        key = merge_key(by.key) if self.target.mode == MERGE else by.key
        return TableClaim(
            owner=by.owner,
            place=by.place,
            key=partition_key({name: str(value) for name, (_, value) in values.items()}) if values else key,
            fence=fence,
            source=source,
            overwrites=self.target.mode == OVERWRITE,
            takes=by.takes,
        )

    def _made(self, spark: SparkSession, base: str, schema: str) -> State:
        fields = [{**one, "nullable": True, "metadata": {}} for one in json.loads(self.schema_of(schema))["fields"]]
        self.make(spark, base, plan_calls.ddl(spark, json.dumps({"type": "struct", "fields": fields})))
        state = self.look(spark, base)
        assert state is not None, "a table that was made has a version"
        return state


def version_read(tables: Collection[TableVersion], target: LogTable, state: TableState) -> TableVersion | None:
    """At which version a run reads the table into which it publishes, None if it does not read it."""
    return next((one for one in tables if one.format == target.format and one.table == state.id), None)


def _own_rows(target: LogTable, earlier: Earlier) -> Refused:
    return Refused(
        f"{target.shown} is read by this run, and holds the rows that run {earlier.order} appended with the same "
        "parameters: this run would read those rows and then replace them, so that rows are lost",
        "run with other parameters, read another table, or read the table as it was before that run: "
        "option versionAsOf (Delta) or VERSION AS OF (Iceberg)",
    )


def check_owner(target: LogTable, by: TargetOwner, state: TableState) -> None:
    """The table belongs to the first pipeline, and place, that published into it. What a stream adds to it could be
    replaced."""
    if regions := streams(state.numbers):
        raise Refused(
            f"{target.shown} is the target of {', '.join(regions)}, which is a stream: a batch cannot publish there",
            "use a table of its own",
        )
    for place, owner, fence in owners(state.numbers):
        if owner != by.owner:
            raise Refused(
                f"{target.shown} is a target of {owner}, and {by.owner} may not publish to it", "use another target"
            )
        if place not in (by.place, by.takes):
            raise Refused(
                f"{target.shown} is a target of runs of {owner} in another location (its newest is run {fence.order}): "
                "Rekindle cannot tell which publication is later",
                (
                    StartRemedy(to="if that location publishes no more, take the target", take_target=(by.sink,)),
                    TextRemedy("or use that location, or another target"),
                ),
            )


def add_calls(spark: SparkSession, target: LogTable, jar: str) -> None:
    """Make our calls into a format known to the driver."""
    if not jar:
        raise Refused(
            f"{target.shown}: this installation of Rekindle was built without support for {target.format} tables",
            "build it: make tables-install",
        )
    add_jar(spark, jar)


def told_of(what: Publication) -> dict[str, str]:
    """What a log says of a commit, beside what the format itself says."""
    return {"publication": what.version, "pipeline": what.owner} | ({"holes": what.holes} if what.holes else {})
