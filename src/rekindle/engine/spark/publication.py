"""One committed result on its way into one target, and how its files get into a directory."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from rekindle.engine.pointers import POINTERS, Part, Pointer, identify, version_of
from rekindle.engine.spark import copying
from rekindle.engine.spark.copying import Copy
from rekindle.engine.targets import Target
from rekindle.errors import Refused
from rekindle.master.events import Fence


@dataclass(frozen=True, slots=True)
class Publication:
    """`files` are (absolute path, bytes) of everything that is committed, in the order of its partitions; `schema` is
    Spark's JSON; `owner` is the pipeline whose runs the fence counts: only fences of one owner can be compared; `holes`
    names what was left out."""

    sink: str
    owner: str
    target: Target
    fence: Fence
    files: tuple[tuple[str, int], ...]
    schema: str
    holes: str = ""

    def part(self) -> Part:
        return Part(self.fence, identify(self.files), tuple(length for _, length in self.files), self.holes)

    def copies(self, part: Part) -> list[Copy]:
        """Our files under the names of `part`, which is ours or was copied from the same files."""
        named = zip(self.files, part.files(), strict=True)
        return [Copy(path, length, name) for (path, length), (name, _) in named]


def write(spark: SparkSession, what: Publication, directory: str, scratch: str, copies: list[Copy]) -> set[str]:
    """Copy the files, or write one without rows if there are none. Returns names that do not belong to them."""
    there = copying.complete(spark, directory, scratch, copies)
    wanted = {copy.name for copy in copies}
    if not copies:
        name = f"part-empty-{version_of(what.fence)}.parquet"
        copying.write_empty(spark, directory, name, what.schema)
        wanted = {name}
    return there - wanted


def check_owner(owner: str, base: str, top: Pointer | None) -> None:
    """Fences of two pipelines cannot be compared, so a target belongs to the first one that published into it."""
    if top is not None and top.owner != owner:
        raise Refused(
            f"{base} is published by {top.owner}, and {owner} wants to",
            f"use another target, or remove {base}/{POINTERS} if {top.owner} will never publish again",
        )
