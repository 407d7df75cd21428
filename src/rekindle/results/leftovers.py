"""Which files in the directory of a closed attempt belong to what counts. The rest are leftovers: of speculative
losers, of tasks that died while they wrote, of late commits, and of partitions that were released or dropped.

Names only: nothing is opened. Hadoop's checksum of a local file (`.name.crc`) belongs to its file.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

import msgspec

from rekindle.master.state.run_state import Segment
from rekindle.results.manifest import DATA, LABEL, MARKER, counted


def counted_tasks(segments: Iterable[Segment]) -> dict[int, int] | None:
    """Partition to the Spark task whose commit counts; None where a manifest is none of ours, so that nothing in the
    directory can be called a leftover."""
    tasks: dict[int, int] = {}
    try:
        for segment in segments:
            commits = counted(segment.manifest, segment.partitions)
            tasks.update((one.partition, one.task) for one in commits)
    except (zlib.error, msgspec.MsgspecError):
        return None
    return tasks


def is_counted(name: str, tasks: Mapping[int, int]) -> bool:
    """Whether a name below an attempt's directory belongs to what counts."""
    name = without_checksum(name)
    if name == LABEL:
        return True
    if found := DATA.fullmatch(name):
        return tasks.get(int(found.group(2))) == int(found.group(1))
    if found := MARKER.fullmatch(name):
        return tasks.get(int(found.group(1))) == int(found.group(2))
    return False


def without_checksum(name: str) -> str:
    """The file that a checksum is of; any other name is itself."""
    folder, slash, file = name.rpartition("/")
    is_checksum = file.startswith(".") and file.endswith(".crc")
    return f"{folder}{slash}{file[1:-4]}" if is_checksum else name
