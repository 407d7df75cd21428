"""Look again, on Spark, at what is kept and published: digests by the code that made them when they were written.

Rules
- One Spark job reads all files of a step; each has its own answer, so that one bad file hides no other. What could not
  be read is read a second time: a storage that was slow for a moment is no damage.
- Partitions are made again as `reproduce` makes one: planned as a run plans them, without adaptive execution, pruned to
  those that are asked for. Their rows go into digests and nowhere else.
- What is bound to its application (a total order) is made whole: its numbers mean nothing here, the sum of all does.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from rekindle.engine.adapter import PrepareRequest, Stores
from rekindle.engine.spark import session
from rekindle.engine.spark.failures import cause_of, text_of
from rekindle.engine.spark.inspect.reproduce import Vertices, vertices_of
from rekindle.engine.spark.jvm import plan_calls, result_calls
from rekindle.engine.spark.plan.analyse import level_of
from rekindle.engine.spark.plan.group import GroupSpec
from rekindle.engine.spark.publish.sinks import publisher_of
from rekindle.engine.spark.run import digests, inventory, results
from rekindle.engine.verified import (
    DamagedFile,
    DamageKind,
    FileCheck,
    PublishedFiles,
    RecomputedPartitions,
    StoredFiles,
    VerificationSetup,
)
from rekindle.master.state.commands import Input
from rekindle.model.kinds import Determinism
from rekindle.model.partitions import Partitions
from rekindle.publish.pointers import Part, Pointer
from rekindle.publish.targets import Target


def look(spark: SparkSession, stored: StoredFiles) -> FileCheck:
    """The files as they are now."""
    session.attach(spark)
    listed = inventory.files_in(spark, stored.folder)
    faults = {
        number: DamagedFile(DamageKind.MISSING, path)
        if path not in listed
        else DamagedFile(DamageKind.LENGTH, path, f"{listed[path]:,} bytes, not {length:,}")
        for number, path, length in stored.files
        if listed.get(path) != length
    }
    read = [one for one in stored.files if one[0] not in faults]
    schema = plan_calls.schema_of(spark, stored.schema)
    if not result_calls.digest_of_nothing(spark, schema):
        return FileCheck({}, faults, is_read=False)
    found = _read(spark, stored.folder, read, schema)
    unread = [one for one in read if found[one[0]].startswith(digests.UNREADABLE)]
    found |= _read(spark, stored.folder, unread, schema)
    for number, path, _ in unread:
        if found[number].startswith(digests.UNREADABLE):
            faults[number] = DamagedFile(DamageKind.UNREADABLE, path, found[number].removeprefix(digests.UNREADABLE))
    return FileCheck({number: bytes.fromhex(one) for number, one in found.items() if number not in faults}, faults)


def _read(spark: SparkSession, folder: str, files: list[tuple[int, str, int]], schema: Any) -> dict[int, str]:
    found = digests.of_files(spark, folder, [(path, length) for _, path, length in files], schema)
    return {number: found[path.rsplit("/", 1)[-1]] for number, path, _ in files}


def bench(spark: SparkSession, wanted: PrepareRequest) -> VerificationSetup:
    """The pipeline as its code is now, with the constants and settings of the run."""
    vertices = vertices_of(spark, wanted)
    whole = {name: _level(group) for name, group in vertices.groups.items() if _is_whole(vertices, name)}
    return VerificationSetup(
        vertices.spec,
        whole,
        partial(_again, vertices),
        lambda sink, order: _published(spark, vertices.sinks.get(sink), (wanted.place, order), wanted.stores),
    )


def _is_whole(vertices: Vertices, step: str) -> bool:
    return vertices.groups[step].lies.is_bound or vertices.spec.graph.step(step).restarts_whole


def _level(group: GroupSpec) -> Determinism:
    assert group.planned is not None, f"{group.step} was planned"
    return level_of(group, group.planned)


def _again(vertices: Vertices, step: str, wanted: Partitions, inputs: tuple[Input, ...]) -> RecomputedPartitions:
    held, _ = vertices.planned(step, inputs)
    nothing = result_calls.digest_of_nothing(held.session, held.schema)
    if not nothing:
        return RecomputedPartitions({}, b"")
    try:
        rdd = held.rdd(is_first=True)
        tasks = results.tasks_of(held, rdd, wanted)
        made = rdd if _is_whole(vertices, step) else results.pruned(held.session, rdd, (index for index, _ in tasks))
        lines = result_calls.digests(held.session, made, held.schema) if tasks else []
    except Exception as error:
        return RecomputedPartitions({}, bytes.fromhex(nothing), failure=cause_of(text_of(error)).text)
    found = {number: bytes.fromhex(line) for (_, number), line in zip(tasks, lines, strict=True)}
    return RecomputedPartitions(found, bytes.fromhex(nothing), vertices.groups[step].lies.is_bound)


def _published(
    spark: SparkSession, target: Target | None, run: tuple[str, int], stores: Stores
) -> PublishedFiles | None:
    """What the chain of the target, or its label, says that this run brought."""
    if target is None:
        return None
    session.attach(spark)
    held = publisher_of(target).contents(spark, stores)
    order = None if held.pointer is None else held.pointer.fence.order
    part = _part(held.pointer, run)
    files = None if part is None else tuple(part.files())
    folder = held.folder if part is None else held.folder_of(part)
    is_written_again = not held.has_files or (part is not None and part.is_listed)
    return PublishedFiles(target.shown, folder, files, order, is_written_again)


def _part(pointer: Pointer | None, run: tuple[str, int]) -> Part | None:
    parts = pointer.parts if pointer is not None else ()
    return next((part for part in parts if part.run == run), None)
