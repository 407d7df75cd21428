"""The Spark lines: releases of Spark that one jar of ours is for, and what the older ones lack.

Rules
- A line is chosen by the version that the session itself tells, never by what is installed beside it.
- A release that is not listed is refused, also a newer one: whether its plans mean the same has not been looked at.
- What a line lacks is said here and nowhere else; whoever needs it asks here, and says so in a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rekindle.errors import Refused
from rekindle.remedies import TextRemedy


class SparkFeature(Enum):
    """Something of Spark that not every line has. The text completes "this Spark has no …"."""

    CHECKSUMS = "checksums of map outputs"
    FENCED_STATE = "checkpoint format 2 for state"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLine:
    """`name` is its version of Scala and its first release of Spark, as in the name of its jar."""

    name: str
    releases: tuple[str, ...]
    lacks: frozenset[SparkFeature] = frozenset()

    @property
    def scala(self) -> str:
        return self.name.partition("-")[0]

    @property
    def jar(self) -> str:
        return f"rekindle-spark-{self.name}.jar"


LINES = (
    SparkLine(name="2.12-3.5", releases=("3.5",), lacks=frozenset(SparkFeature)),
    SparkLine(name="2.13-4.0", releases=("4.0",), lacks=frozenset({SparkFeature.CHECKSUMS})),
    SparkLine(name="2.13-4.1", releases=("4.1", "4.2", "4.3")),
)
RELEASES = tuple(release for line in LINES for release in line.releases)
SUPPORTED = f"{RELEASES[0]} and {RELEASES[1]} to {RELEASES[-1]}"


def release_of(version: str) -> str:
    """3.5 of `3.5.4-amzn-0`."""
    return ".".join(version.split(".")[:2])


def line_of(version: str, scala: str = "") -> SparkLine:
    """The line of a release of Spark. Raises `Refused`, naming what to do. `scala` is the version of Scala that the
    session runs on, where somebody asked it."""
    found = next((line for line in LINES if release_of(version) in line.releases), None)
    if found is None:
        raise Refused(
            f"this Rekindle has no jar for Spark {version}; it supports Spark {SUPPORTED}", hint=_way_out(version)
        )
    if scala and release_of(scala) != found.scala:
        raise Refused(
            f"this Spark {version} runs on Scala {scala}; Rekindle's jar for it is for Scala {found.scala}",
            hint=TextRemedy(f"use a Spark {version} that was built for Scala {found.scala}, as the PySpark package is"),
        )
    return found


def _way_out(version: str) -> TextRemedy:
    numbers = tuple(int(one) for one in release_of(version).split(".") if one.isdecimal())
    newest = tuple(int(one) for one in RELEASES[-1].split("."))
    if numbers > newest:
        return TextRemedy(f"update Rekindle, or use PySpark {RELEASES[-1]}: pip install 'pyspark=={RELEASES[-1]}.*'")
    return TextRemedy(f"use a supported PySpark: pip install 'pyspark=={RELEASES[0]}.*' or newer")
