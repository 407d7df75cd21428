"""The execution graph, from Spark's own plans, before anything runs.

Each group is planned over empty stand-ins for the kept results it reads: same schema, same layout, no files. What is
learned does not depend on sizes: whether the group is pointwise, what is inside it, how determinate it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from rekindle.engine.code import is_task_bound
from rekindle.engine.spark import results
from rekindle.engine.spark.engine import GroupSpec
from rekindle.engine.spark.layout import Held, hold
from rekindle.engine.spark.session import attach, group_session
from rekindle.model.edges import ALL, IDENTITY
from rekindle.model.graph import Edge, Graph, Step
from rekindle.model.kinds import KeepUntil, ResultKind


def analyse(spark: SparkSession, groups: Mapping[str, GroupSpec]) -> Graph:
    """Kept steps, in the order given (producers first), and how they read each other."""
    attach(spark)
    held: dict[str, Held] = {}
    for name, group in groups.items():
        session = group_session(spark)
        inputs = {
            one: results.read(session, "file:/nowhere", (), held[one].schema, groups[one].keys, groups[one].partitions)
            for one in group.inputs
        }
        held[name] = hold(group.build(session, inputs), session, group.keys, group.partitions)
    return Graph.of(
        (_step(group, held[name]) for name, group in groups.items()),
        (
            Edge(one, name, IDENTITY if held[name].shape.is_narrow else ALL)
            for name, group in groups.items()
            for one in group.inputs
        ),
    )


def _step(group: GroupSpec, held: Held) -> Step:
    """A group that reads no kept result and is not narrow owns what is inside it as one part."""
    is_closed = not group.inputs and not held.shape.is_narrow
    return Step(
        group.step,
        group.partitions,
        ResultKind.BLOCKING,
        group.declared or held.verdict.level,
        KeepUntil.RUN_END,
        is_order_sensitive=held.verdict.is_order_sensitive,
        has_query_constants=is_closed or held.verdict.has_query_constants,
        restarts_whole=held.shape.is_barrier or is_task_bound(group.build),
    )
