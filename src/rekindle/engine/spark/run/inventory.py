"""Is what counts still there? One listing per attempt directory, and no look into a file; blocks are asked for.

A run learns of a missing file when it reads it; a plan looks first, so that it need not be wrong. A file that is there
and damaged is found only by reading it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import file_calls
from rekindle.engine.spark.run import blocks
from rekindle.master.state.run_state import Segment
from rekindle.model.ids import AttemptId
from rekindle.model.partitions import Partitions
from rekindle.results import manifest
from rekindle.results.result_paths import directory_of


def missing(spark: SparkSession, root: str, counted: Mapping[str, Sequence[Segment]]) -> dict[str, Partitions]:
    """The partitions, by step, whose files are gone or have another length than was journaled."""
    listed: dict[AttemptId, dict[str, int]] = {}
    found = blocks.gone_in(spark, root, counted)
    for step, segments in counted.items():
        gone: list[int] = []
        for segment in segments:
            if manifest.is_in_blocks(segment.manifest):
                continue
            if segment.attempt not in listed:
                listed[segment.attempt] = files_in(spark, f"{root}/{directory_of(segment.attempt)}")
            files = listed[segment.attempt]
            gone += [
                commit.partition
                for commit in manifest.with_rows(segment.manifest, segment.partitions)
                if files.get(commit.name) != commit.bytes
            ]
        if gone:
            found[step] = Partitions(gone)
    return found


def files_in(spark: SparkSession, directory: str) -> dict[str, int]:
    """The length of each file below a directory, by its path below it."""
    lines = file_calls.list_files(spark, directory).splitlines()
    rows = (line.rsplit("\t", 1) for line in lines)
    return {path: int(length) for path, length in rows}
