"""`rk.delta`: committed files added to a Delta table by one commit, with the fence in it.

Rules
- The commit is on top of the version that was looked at, and depends on our transactions in it. Where somebody else
  came first everything is looked at again, until it is published or a later one is there.
- What a table cannot take as it is is refused before anything runs. Nothing is written again for it.
- A table that is not there is made first, without rows, by a commit of its own.
- Which files are replaced and added: delta_files.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.jvm import file_calls, plan_calls, table_calls
from rekindle.engine.spark.jvm.driver_calls import add_jar
from rekindle.engine.spark.publish import delta_files
from rekindle.engine.spark.publish.publication import Publication, TargetOwner
from rekindle.engine.spark.publish.publisher import PublicationRequest, TargetState
from rekindle.errors import Refused, StoreFailed
from rekindle.master.facts.events import Fence
from rekindle.publish import delta_log
from rekindle.publish.delta import Delta
from rekindle.publish.delta_log import DeltaState
from rekindle.publish.pointers import Pointer
from rekindle.publish.table_fences import (
    PREFIX,
    AlreadyThere,
    Later,
    Replaces,
    SameFiles,
    TableClaim,
    numbers_after,
    numbers_of_same,
    owners,
    partition_key,
    streams,
    verdict,
    watched,
)
from rekindle.publish.target import APPEND, OVERWRITE, url
from rekindle.remedies import OVERTAKEN, StartRemedy, TextRemedy

ROUNDS_MAX = 100
NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class DeltaPublisher:
    """Publishes into `rk.delta`."""

    target: Delta

    def base(self, spark: SparkSession) -> str:
        attach(spark, self.target)
        return place_of(spark, self.target)

    def check(self, spark: SparkSession, request: PublicationRequest, base: str, stores: Stores) -> None:
        state = state_of(spark, base)
        if state is None:
            return
        check_owner(self.target, request.by, state)
        _check_fits(self.target, state, request.schema)
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
            delta_files.removed(spark, self.target, base, state, found.earlier)

    def place(self, spark: SparkSession, base: str, stores: Stores) -> str | None:
        state = state_of(spark, base)
        newest = max(((fence, place) for place, _, fence in owners(state.numbers)), default=None) if state else None
        return None if newest is None else newest[1]

    def publish(self, spark: SparkSession, what: Publication, stores: Stores) -> Fence | None:
        base, source = self.base(spark), what.part().source
        added: Sequence[str] | None = None
        for _ in range(ROUNDS_MAX):
            state = state_of(spark, base) or _made(spark, self.target, base, what.schema)
            check_owner(self.target, what.claimant, state)
            claim = self._claim(what.claimant, state, what.fence, source)
            removed: Sequence[str] = ()
            actions: Sequence[str] = ()
            match verdict(state.numbers, claim):
                case AlreadyThere():
                    return None
                case Later(fence):
                    return fence
                case SameFiles():
                    after = numbers_of_same(claim)
                case Replaces(earlier):
                    _check_fits(self.target, state, what.schema)
                    removed = delta_files.removed(spark, self.target, base, state, earlier)
                    if added is None:
                        added = delta_files.taken(spark, self.target, base, state, what)
                    actions, after = added, numbers_after(state.numbers, claim, len(added))
            if _is_committed(spark, base, state, what, removed=removed, added=actions, after=after):
                return None
        raise StoreFailed(f"{ROUNDS_MAX} other commits to {self.target.shown} came first, one after the other")

    def _claim(self, by: TargetOwner, state: DeltaState, fence: Fence, source: str) -> TableClaim:
        values = delta_files.wanted_values(self.target, state)
        return TableClaim(
            owner=by.owner,
            place=by.place,
            key=partition_key({name: str(value) for name, (_, value) in values.items()}) if values else by.key,
            fence=fence,
            source=source,
            overwrites=self.target.mode == OVERWRITE,
            takes=by.takes,
        )

    def contents(self, spark: SparkSession, stores: Stores) -> TargetState:
        """As a chain of pointers would tell it: files that publications of ours brought and that are still there."""
        base = self.base(spark)
        state = state_of(spark, base)
        newest = max((fence for _, _, fence in owners(state.numbers)), default=None) if state is not None else None
        if state is None or newest is None:
            return TargetState(base, None)
        parts = tuple(delta_files.parts(delta_files.files_of(spark, base, state)))
        pointer = Pointer(fence=newest, owner="", version=f"version {state.version}", schema="", parts=parts)
        return TargetState(base, pointer)


def attach(spark: SparkSession, target: Delta) -> None:
    """Make our calls into Delta known to the driver."""
    if not table_calls.has_delta(spark):
        raise Refused(
            f"{target.shown}: this Spark session has no Delta Lake",
            "start it with Delta's package for this Spark, and with the settings that Delta's own documentation names",
        )
    if not table_calls.has_delta_calls(spark):
        jar = table_calls.delta_jar()
        if not jar:
            raise Refused(
                f"{target.shown}: this installation of Rekindle was built without support for Delta tables",
                "build it: make tables-install",
            )
        add_jar(spark, jar)


def state_of(spark: SparkSession, base: str) -> DeltaState | None:
    """The newest version of a table, None where there is no table."""
    lines = table_calls.delta_state(spark, base, PREFIX)
    return delta_log.read_state(lines) if lines else None


def check_owner(target: Delta, by: TargetOwner, state: DeltaState) -> None:
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


def place_of(spark: SparkSession, target: Delta) -> str:
    """Where the table lies, or will lie. Refuses a name that is another kind of table."""
    if target.is_path:
        return url(target.table)
    database, name = _names(spark, target)
    if not file_calls.has_database(spark, database):
        raise Refused(f"there is no database {database}", f"CREATE DATABASE {database}")
    found = file_calls.table_facts(spark, database, name)
    if found is None:
        return file_calls.default_table_place(spark, database, name)
    if found.provider != "delta":
        raise Refused(f"{target.table} is a table of {found.provider or 'another kind'}, not of Delta", "use rk.table")
    return url(found.location)


def _names(spark: SparkSession, target: Delta) -> tuple[str, str]:
    *rest, table = target.table.split(".")
    return (rest[-1] if rest else spark.catalog.currentDatabase()), table


def _made(spark: SparkSession, target: Delta, base: str, schema: str) -> DeltaState:
    """A table without rows. Two publishers may make it at once: one of them does."""
    fields = [{**field, "nullable": True, "metadata": {}} for field in json.loads(schema)["fields"]]
    columns = plan_calls.ddl(spark, json.dumps({"type": "struct", "fields": fields}))
    name = f"delta.`{base}`" if target.is_path else ".".join(f"`{one}`" for one in _names(spark, target))
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING delta")
    state = state_of(spark, base)
    assert state is not None, "a table that was made has a version"
    return state


def _check_fits(target: Delta, state: DeltaState, schema: str) -> None:
    """Refuse what would have to be written again for the table, or would change its columns."""
    found = list(delta_log.obstacles(state, removes=target.mode != APPEND))
    unnamed = [name for name in state.partition_by if name not in dict(target.partition)]
    if unnamed:
        found.append(f"it is partitioned by {', '.join(unnamed)}, of which a kept file may have several values")
    if found:
        raise Refused(
            f"{target.shown} cannot take kept files as they are: {'; '.join(found[:NAMED_MAX])}. Rekindle does not "
            "write rows again for a Delta table yet",
            "publish to a table without that, or to rk.files and write the rows into the table from there",
        )
    if target.mode == APPEND and state.properties.get(delta_log.COMPACTS, "").lower() not in ("", "false"):
        raise Refused(
            f"{target.shown} compacts its files by itself ({delta_log.COMPACTS}): rows of several keys would be in one "
            "file, and Rekindle could not replace those of one",
            f"switch it off, or replace by the values of columns: rk.delta({target.table!r}, partition={{…}})",
        )
    changed = delta_log.changed_columns(state, schema) if schema else []
    if changed:
        raise Refused(
            f"{target.shown} has other columns than the result: {'; '.join(changed[:NAMED_MAX])}",
            "change the step, or the table with ALTER TABLE",
        )
    delta_files.wanted_values(target, state)


def _is_committed(
    spark: SparkSession,
    base: str,
    state: DeltaState,
    what: Publication,
    *,
    removed: Sequence[str],
    added: Sequence[str],
    after: Mapping[str, int],
) -> bool:
    """False if somebody else came first."""
    now_ms = int(time.time() * 1000)
    numbers = [{"txn": {"appId": one, "version": number, "lastUpdated": now_ms}} for one, number in after.items()]
    told = {"publication": what.version, "pipeline": what.owner} | ({"holes": what.holes} if what.holes else {})
    return table_calls.delta_commit(
        spark,
        base,
        state.version,
        watched=watched(state.numbers, after),
        removed=removed,
        added=[*added, *map(json.dumps, numbers)],
        told=json.dumps({"rekindle": told}),
        at_ms=now_ms,
    )
