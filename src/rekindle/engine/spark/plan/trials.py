"""Run each step twice over a sample: its rows as they are, and shuffled and cut into other partitions.

A step that gives other rows the second time is not determinate, whatever its plan or its author says. One that gives
the same may still differ on other rows: a trial finds faults and proves nothing. Sources are read once, for a sample;
a step is tried over what the steps before it made of theirs the first time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from rekindle.engine.spark.failures import first_line
from rekindle.engine.spark.jvm import plan_calls
from rekindle.engine.spark.plan import kept_frames
from rekindle.engine.spark.plan.describe import describe
from rekindle.engine.spark.plan.layout import Layout, verdict_of
from rekindle.engine.spark.session import attach, clone, same_active_session
from rekindle.errors import RekindleError
from rekindle.model.kinds import Determinism
from rekindle.pipeline.constants import TimeAndSeed
from rekindle.pipeline.declared import Declared, Role
from rekindle.pipeline.source_lines import with_lines
from rekindle.pipeline.step_trial import Trial

FIRST, SECOND = {"spark.sql.shuffle.partitions": "3"}, {"spark.sql.shuffle.partitions": "5"}
PIECES = 7
EXAMPLE_CHARACTERS_MAX = 120


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows that a later step is tried with."""

    rows: list[Row]
    schema: StructType


def try_steps(
    spark: SparkSession, steps: Sequence[Declared], parameters: Mapping[str, Any], constants: TimeAndSeed, rows: int
) -> Iterator[Trial]:
    """Each step in turn, producers first. `rows` is how many of each source, and at most so many of each step, are
    given on."""
    attach(spark)
    first, second = clone(spark, FIRST), clone(spark, SECOND)
    samples: dict[str, Sample] = {}
    for one in steps:
        if one.role is Role.SOURCE:
            try:
                read = describe(one, first, {}, parameters, constants)
                samples[one.name] = Sample(read.limit(rows).collect(), read.schema)
            except RekindleError:
                raise
            except Exception as error:
                yield Trial(step=one.name, place=one.place, level=Determinism.UNKNOWN, failure=first_line(error))
        elif lacks := [name for name in one.inputs if name not in samples]:
            yield Trial(
                step=one.name,
                place=one.place,
                level=Determinism.UNKNOWN,
                failure=f"it reads {', '.join(lacks)}, which failed",
            )
        else:
            given = {name: samples[name] for name in one.inputs}
            with same_active_session(spark):
                trial, made = _Tried(one, first, second, parameters, constants).over(given)
            if made is not None:
                samples[one.name] = Sample(made.rows[:rows], made.schema)
            yield trial


@dataclass(frozen=True, slots=True)
class _Tried:
    """One step, in the two sessions it is tried in."""

    one: Declared
    first: SparkSession
    second: SparkSession
    parameters: Mapping[str, Any]
    constants: TimeAndSeed

    def over(self, given: Mapping[str, Sample]) -> tuple[Trial, Sample | None]:
        told = Trial(step=self.one.name, place=self.one.place, level=Determinism.UNKNOWN)
        try:
            level, doubts = self._judged(given)
            told = replace(told, level=level, doubts=doubts)
            frame = self._made(self.first, {name: _as_it_is(self.first, one) for name, one in given.items()})
            rows = frame.collect()
            again = self._made(self.second, {name: _shuffled(self.second, one) for name, one in given.items()})
            one, other = (Counter(map(text_of_value, found)) for found in (rows, again.collect()))
            differs = (one - other) or (other - one)
        except RekindleError:
            raise
        except Exception as error:
            return replace(told, failure=first_line(error)), None
        example = next(iter(differs), "")[:EXAMPLE_CHARACTERS_MAX]
        trial = replace(told, rows=len(rows), different=differs.total(), example=example)
        return trial, Sample(rows, frame.schema)

    def _judged(self, given: Mapping[str, Sample]) -> tuple[Determinism, tuple[str, ...]]:
        """By its plan over stand-ins, as a run would judge it; the user's word counts before."""
        stands = {name: _stand_in(self.first, name, one.schema) for name, one in given.items()}
        verdict = verdict_of(self._made(self.first, stands))
        doubts = with_lines(verdict.because, [self.one.function])
        match self.one.declared_deterministic:
            case True:
                return Determinism.DECLARED, doubts
            case False:
                return Determinism.INDETERMINATE, doubts
            case None:
                return verdict.level, doubts

    def _made(self, session: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        return describe(self.one, session, inputs, self.parameters, self.constants)


def _as_it_is(session: SparkSession, sample: Sample) -> DataFrame:
    return session.createDataFrame(sample.rows, sample.schema)


def _shuffled(session: SparkSession, sample: Sample) -> DataFrame:
    rows = list(sample.rows)
    random.Random(len(rows)).shuffle(rows)
    return session.createDataFrame(rows, sample.schema).repartition(PIECES)


def _stand_in(session: SparkSession, step: str, schema: StructType) -> DataFrame:
    return kept_frames.stand_in(session, step, plan_calls.schema_of(session, schema.json()), Layout((), 1))


def text_of_value(value: Any) -> str:
    """Exact to the last bit, without the order of a map, which is none."""
    match value:
        case float():
            return value.hex()
        case dict():
            entries = sorted(f"{text_of_value(key)}: {text_of_value(one)}" for key, one in value.items())
            return f"{{{', '.join(entries)}}}"
        case list() | tuple():
            return f"[{', '.join(map(text_of_value, value))}]"
        case _:
            return repr(value)
