"""Where the rows of a kept result lie: partition p holds the rows with `hash(keys) mod partitions = p`.

The number is ours and holds in every driver. Only the last exchange is pinned to it. Three plans are asked for, the
one that moves the fewest rows is held:

1. without any exchange: the inputs are kept with the same keys and count, so the step is pointwise;
2. the step's own last exchange already lies that way (an aggregation by the keys, then perhaps Python);
3. an exchange of our own below the write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark import plans
from rekindle.engine.spark.determinism import Verdict, judge
from rekindle.engine.spark.session import clone, in_session, jvm

POINTWISE = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"}
UNCOALESCED = {"spark.sql.adaptive.coalescePartitions.enabled": "false"}


@dataclass(frozen=True, slots=True)
class Held:
    """One query execution that all attempts of a generation share: its exchanges, broadcasts and constants are one."""

    session: SparkSession
    frame: DataFrame
    execution: Any
    keys: tuple[str, ...]
    partitions: int
    shape: plans.Shape
    verdict: Verdict

    @property
    def plan(self) -> Any:
        return self.execution.executedPlan()

    @property
    def schema(self) -> Any:
        return self.frame._jdf.schema()

    @property
    def is_function_of_inputs(self) -> bool:
        """Narrow, and without a constant that each query execution makes anew: proof (a) of rule 4."""
        return self.shape.is_narrow and not self.verdict.has_query_constants

    @property
    def has_exchanges_alone(self) -> bool:
        """Everything between the inputs and a partition went through exchanges, which have checksums."""
        others = self.shape.broadcasts or self.shape.subqueries or self.verdict.has_query_constants
        return bool(self.shape.exchanges) and not others

    def is_planned_to_the_end(self) -> bool:
        """False while adaptive execution has map stages to run, or stopped because one of them failed."""
        return plans.class_name(self.plan) != "AdaptiveSparkPlanExec" or bool(self.plan.isFinalPlan())

    def rdd(self, *, is_first: bool = False) -> Any:
        """The rows by partition. After a failed map stage adaptive execution is stuck on its error; the plan it had
        reached still reads the same exchanges, so Spark runs only the map tasks that are missing."""
        if is_first or self.is_planned_to_the_end():
            return self.execution.toRdd()
        state = self.session._jsparkSession.sessionState()
        rules = jvm(self.session).org.apache.spark.sql.execution.ApplyColumnarRulesAndInsertTransitions
        return rules(state.columnarRules(), False).apply(self.plan.executedPlan()).execute()


def hold(frame: DataFrame, session: SparkSession, keys: tuple[str, ...], partitions: int) -> Held:
    """Plan `frame`, built in `session`, so that its final partitions are ours."""
    own = {**UNCOALESCED, "spark.sql.shuffle.partitions": str(partitions)}
    for settings in ({**own, **POINTWISE}, own):
        candidate = in_session(frame, clone(session, settings))
        if not plans.lies_by(candidate, keys, partitions):
            continue
        if settings is own or plans.shape(candidate._jdf.queryExecution().executedPlan()).is_narrow:
            return _held(candidate, keys, partitions)
    return _held(frame.repartition(partitions, *keys), keys, partitions)


def _held(frame: DataFrame, keys: tuple[str, ...], partitions: int) -> Held:
    execution = frame._jdf.queryExecution()
    return Held(
        session=frame.sparkSession,
        frame=frame,
        execution=execution,
        keys=keys,
        partitions=partitions,
        shape=plans.shape(execution.executedPlan()),
        verdict=judge(execution.analyzed().toJSON()),
    )
