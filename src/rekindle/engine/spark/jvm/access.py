"""PySpark's private members, and what a call into the JVM raises. Only the other modules of this room use this one."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

JavaObject = Any

# What a call raises if the JVM says no, and if it does not answer; and the first of the two alone.
CallFailed = Py4JError
JavaException = Py4JJavaError


def root(spark: SparkSession) -> Any:
    """Every package of the JVM."""
    return spark.sparkContext._jvm


def ours(spark: SparkSession) -> Any:
    """Our own Java classes."""
    return root(spark).rekindle.spark


def session_of(spark: SparkSession) -> JavaObject:
    return spark._jsparkSession


def context_of(context: SparkContext) -> Any:
    return context._jsc.sc()


def frame_java(frame: DataFrame) -> JavaObject:
    return frame._jdf


def frame_of(session: SparkSession, made: JavaObject) -> DataFrame:
    return DataFrame(made, session)
