"""A DataFrame of a user's script in the place of a step's function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.jvm.plan_calls import in_session
from rekindle.engine.spark.plan.packed import home_of


@dataclass(eq=False)
class FrameCode:
    """Stands where a step has its function. Its state, by which its code is told, is the Python in the frame's plan;
    names are relative to the module of the first function of it, as they are for a step."""

    frame: DataFrame
    functions: tuple[Any, ...]

    def __post_init__(self) -> None:
        self.__module__, self.__file__ = home_of(self.functions)

    def __call__(self, spark: SparkSession) -> DataFrame:
        return in_session(self.frame, spark)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.functions
