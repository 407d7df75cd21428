"""PySpark's private members, and what a call into the JVM raises. Only the other modules of this room use this one."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

JavaObject = Any

# What a call raises if the JVM says no, and if it does not answer; and the first of the two alone.
CallFailed = Py4JError
JavaException = Py4JJavaError


class Package:
    """The classes of a Java package, each asked for by its whole name.

    Part by part (`jvm.rekindle.spark`) Py4J asks for a class with the name of each part before it takes it for a
    package, and the JVM looks into every jar for that: a third of all CPU of a driver with many small queries.
    """

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._client, self._name = spark.sparkContext._gateway._gateway_client, name

    def __getattr__(self, name: str) -> Any:
        return JavaClass(f"{self._name}.{name}", self._client)


def ours(spark: SparkSession) -> Any:
    """Our own Java classes."""
    return Package(spark, "rekindle.spark")


def is_class(spark: SparkSession, name: str) -> bool:
    """Whether the JVM knows a class, by its whole name."""
    return isinstance(getattr(spark.sparkContext._jvm, name), JavaClass)


def session_of(spark: SparkSession) -> JavaObject:
    return spark._jsparkSession


def context_of(context: SparkContext) -> Any:
    return context._jsc.sc()


def frame_java(frame: DataFrame) -> JavaObject:
    return frame._jdf


def frame_of(session: SparkSession, made: JavaObject) -> DataFrame:
    return DataFrame(made, session)
