"""Which committed files an error tells of: missing, short or damaged ones are lost, and the master must know.

An error that names a file of a kept result is looked into. A file that is not there is lost; so is a block that no
executor has. One that could not be decoded, or whose checksum is wrong, is lost too: its producer makes it again. One
that is there and was only not found a moment ago is not: the storage was slow, and trying again is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyspark.sql import SparkSession

from rekindle.engine.spark.failures import cause_of
from rekindle.engine.spark.jvm import file_calls
from rekindle.engine.spark.run import blocks
from rekindle.model.failures import FailureKind
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.parts import Parts
from rekindle.results import manifest

FILE = re.compile(r"results/([A-Za-z_]\w*)/(g\d+/e\d+-a\d+)/(part-\d+_(\d+)[\w.]*)")


def lost_in(session: SparkSession, root: str, errors: Iterable[str]) -> Parts:
    """The result partitions that these errors prove to be gone."""
    found: dict[str, Partitions] = {}
    for error in set(errors):
        kind = cause_of(error).root.kind
        if kind not in (FailureKind.RESULT_MISSING, FailureKind.RESULT_CORRUPT, FailureKind.EVICTED):
            continue
        for step, folder, name, number in set(FILE.findall(error)):
            path = f"{root}/results/{step}/{folder}/{name}"
            if kind is FailureKind.RESULT_CORRUPT or not _is_there(session, path):
                found[step] = found.get(step, EMPTY) | Partitions((int(number),))
    return Parts(found, {})


def _is_there(session: SparkSession, path: str) -> bool:
    if manifest.is_block(path):
        return not blocks.gone(session, [path])
    return file_calls.file_length(session, path) >= 0
