"""Caching and memory results on Spark's block manager: how they are stored, and which of them are still there.

Rules
- What is there is asked of Spark: before an attempt that reads blocks, after each executor that went, and when a read
  failed. It is never assumed.
- A name of a block speaks of this application alone; to another one everything is gone.
- A memory result may be discarded, for want of room or when room is needed. What had to be made again for that is
  stored as a caching one, on disk where memory has no room: nothing is made a third time for want of memory.
- Of two blocks of one partition the one that was told last counts; a loss is told once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from rekindle.engine.spark.jvm import driver_calls, result_calls
from rekindle.master.facts.stimuli import AttemptEnded, CommitsSeen, Stimulus
from rekindle.master.state.commands import Input, StartAttempt
from rekindle.master.state.run_state import Segment
from rekindle.model.ids import AttemptId
from rekindle.model.kinds import ResultKind
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.parts import NOTHING, Parts
from rekindle.results import manifest
from rekindle.results.result_paths import directory_of

IN_BLOCKS = (ResultKind.CACHING, ResultKind.MEMORY)


@dataclass(frozen=True, slots=True)
class Storing:
    """How the blocks of one attempt are stored."""

    uses_disk: bool
    replicas: int


class InputBlocksLost(Exception):
    """What an attempt should read is not there any more, and it was not started. `lost` is news; what the master knows
    to be gone is `absent`: it believed that an exchange which is held here has it."""

    def __init__(self, lost: Mapping[str, Partitions], absent: Mapping[str, Partitions] | None = None) -> None:
        gone = {**lost, **(absent or {})}
        super().__init__(f"inputs are lost: {', '.join(f'{step}[{at}]' for step, at in gone.items())}")
        self.lost = Parts(lost, {})
        self.has_lost_plan = bool(absent)


def gone(spark: SparkSession, paths: Sequence[str]) -> frozenset[str]:
    """Those of these blocks, named as errors name them, that nobody has. One call."""
    if not paths:
        return frozenset()
    return frozenset(result_calls.blocks_gone(spark, paths))


def gone_in(spark: SparkSession, root: str, counted: Mapping[str, Iterable[Segment]]) -> dict[str, Partitions]:
    """The partitions, by step, that these segments keep in blocks which nobody has."""
    named = {
        path: (step, number)
        for step, segments in counted.items()
        for segment in segments
        for number, path in blocks_of(root, segment)
    }
    found: dict[str, list[int]] = {}
    for path in gone(spark, list(named)):
        step, number = named[path]
        found.setdefault(step, []).append(number)
    return {step: Partitions(numbers) for step, numbers in found.items()}


def blocks_of(root: str, segment: Segment) -> list[tuple[int, str]]:
    """(partition, path) of what counts of a segment and lies in blocks."""
    return _paths(root, segment.attempt, segment.partitions, segment.manifest)


def _paths(root: str, attempt: AttemptId, partitions: Partitions, packed: bytes) -> list[tuple[int, str]]:
    if not manifest.is_in_blocks(packed):
        return []
    return [
        (commit.partition, f"{root}/{directory_of(attempt)}/{commit.name}")
        for commit in manifest.with_rows(packed, partitions)
    ]


class Blocks:
    """The blocks that count of one run in this application. Not for two threads at once."""

    def __init__(self, spark: SparkSession, root: str, kinds: Mapping[str, ResultKind]) -> None:
        self._spark = spark
        self._root = root
        self._kinds = {step: kind for step, kind in kinds.items() if kind in IN_BLOCKS}
        self._counts: dict[str, dict[int, str]] = {step: {} for step in self._kinds}
        self._made: dict[str, Partitions] = dict.fromkeys(self._kinds, EMPTY)
        self._asked: dict[AttemptId, Partitions] = {}
        self._newest: dict[str, int] = {}
        self._listener: Any = None
        self._removed = 0

    def listen(self) -> None:
        """Begin to note executors that go."""
        if self._kinds:
            self._listener = driver_calls.listen_to_blocks(self._spark)
            self._removed = result_calls.removed_executors(self._spark)

    def close(self) -> None:
        if self._listener is not None:
            driver_calls.unlisten(self._spark, self._listener)
            self._listener = None

    def storing(self, command: StartAttempt, replicas: int) -> Storing | None:
        """How an attempt that starts now stores its blocks; None if it writes files."""
        step = command.attempt.step
        if step not in self._kinds:
            return None
        self._asked[command.attempt] = command.partitions
        self._newest[step] = max(self._newest.get(step, 0), command.attempt.generation)
        is_again = not self._made[step].is_disjoint(command.partitions)
        return Storing(is_again or self._kinds[step] is ResultKind.CACHING, replicas)

    def note(self, stimulus: Stimulus) -> None:
        """What is about to be reported."""
        match stimulus:
            case CommitsSeen(attempt=attempt, partitions=partitions, manifest=packed) if attempt.step in self._kinds:
                self._made[attempt.step] = self._made[attempt.step] | partitions
                if attempt.generation == self._newest[attempt.step]:  # What an older one still stores counts nowhere.
                    self._counts[attempt.step].update(_paths(self._root, attempt, partitions, packed))
            case AttemptEnded(attempt=attempt, failures=failures, was_cancelled=was_cancelled, lost=lost):
                self._forget(lost)
                asked = self._asked.pop(attempt, EMPTY)
                if attempt.step in self._kinds and not failures and not was_cancelled:
                    self._made[attempt.step] = self._made[attempt.step] | asked
            case _:
                pass

    def lost(self) -> Parts:
        """What went with executors since this was last asked."""
        if not any(self._counts.values()):
            return NOTHING
        removed = result_calls.removed_executors(self._spark)
        if removed == self._removed:
            return NOTHING
        self._removed = removed
        missing = gone(self._spark, [path for paths in self._counts.values() for path in paths.values()])
        found = {
            step: Partitions(number for number, path in paths.items() if path in missing)
            for step, paths in self._counts.items()
        }
        lost = Parts({step: partitions for step, partitions in found.items() if partitions}, {})
        self._forget(lost)
        return lost

    def missing(self, inputs: Iterable[Input]) -> dict[str, Partitions]:
        """What of these inputs is gone. It may be asked in any thread."""
        return gone_in(self._spark, self._root, {one.step: one.segments for one in inputs}) if self._kinds else {}

    def release(self, attempt: AttemptId) -> None:
        """Remove all blocks of an attempt, by name."""
        if attempt.step in self._kinds:
            directory = f"{self._root}/{directory_of(attempt)}"
            result_calls.release_blocks(self._spark, directory)
            paths = self._counts[attempt.step]
            for number in [number for number, path in paths.items() if path.startswith(f"{directory}/")]:
                del paths[number]

    def _forget(self, lost: Parts) -> None:
        for step, partitions in lost.results.items():
            for number in partitions if step in self._counts else ():
                self._counts[step].pop(number, None)
