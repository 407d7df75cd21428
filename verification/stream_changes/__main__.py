"""`make stream-changes`: changed code over one checkpoint. What do we say beforehand, and what becomes of the rows?

- The first code reads half of the input, as a stream of ours. The changed code is judged by `plan_stream`.
- Bare Spark then runs the changed code over a copy of that checkpoint, and over a checkpoint of its own from the
  beginning. Rows of the second half that are equal in both are honest: each batch is the old code's or the new code's,
  and the state means what the new code means. Others are a mixture.
- A mixture is silent where the verdict was that the code is the same, or compatible. Exit 0 only if there is none.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

import rekindle as rk
from build_jar import JAR
from local_spark import local_spark
from rekindle.engine.spark.session import clone
from rekindle.engine.spark.stream.stream_engine import SETTINGS
from rekindle.errors import Refused
from rekindle.journal.keys import STREAMS
from rekindle.streams.region_changes import ChangeVerdict
from stream_changes.code_changes import CHANGES, PROGRAMS, CodeChange

FILES, HALF, ROWS = 4, 2, 12
OURS_ALONE = "spark.sql.streaming.checkpointFileManagerClass"
BARE = {key: value for key, value in SETTINGS.items() if key != OURS_ALONE}
# A batch is a file, in every query.
SESSION = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.jars": str(JAR),
}
GOES_ON = (ChangeVerdict.SAME.value, ChangeVerdict.COMPATIBLE.value)
HONEST, MIXTURE, REFUSED, OTHER = "honest rows", "MIXTURE", "refused", "honest rows in other columns"


class ChangeSeen(NamedTuple):
    """What was said of a change, and what Spark did."""

    verdict: str
    outcome: str
    told: str
    has_effect: bool

    @property
    def goes_on(self) -> bool:
        return self.verdict in GOES_ON


class ChangesPlace:
    """The folder of a campaign: input, programs, first streams, and what bare Spark makes of them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._texts = {"@IN@": repr(str(folder / "in")), "@MORE@": repr(str(folder / "more"))}
        self._first: dict[str, tuple[Counter[str], Mapping[str, str]]] = {}

    def feed(self, numbers: range) -> None:
        """Keys come again in later files, and times go on from file to file."""
        for number in numbers:
            for stream, shift in (("in", 0), ("more", 1)):
                path = self._folder / stream / f"{number}.json"
                path.parent.mkdir(exist_ok=True)
                rows = [number * (ROWS - 4) + one for one in range(ROWS)]
                path.write_text("".join(json.dumps(_row(n, number, shift)) + "\n" for n in rows))
                os.utime(path, (1000 + number, 1000 + number))

    def load(self, base: str, code: str, folder: str) -> ModuleType:
        for word, text in {**self._texts, "@OUT@": repr(str(self._folder / f"out-{base}"))}.items():
            code = code.replace(word, text)
        path = self._folder / folder / "program.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
        found = importlib.util.spec_from_file_location("program", path)
        assert found is not None and found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        return module

    def start(self, base: str) -> None:
        """The first half, with the first code."""
        module = self.load(base, PROGRAMS[base], f"code-{base}")
        options = rk.RunOptions(quiet=True, available_now=True, say=lambda line: None)
        module.pipeline.run(self._spark, str(self._folder / f"state-{base}"), options=options)

    def verdict(self, one: CodeChange) -> tuple[str, str]:
        with self._changed(one) as (session, module):
            try:
                plan = module.pipeline.plan_stream(session, str(self._folder / f"state-{one.base}"))
            except Refused as refused:
                return REFUSED, refused.message
        change = next((each for each in plan.changes if each.region == "out"), None)
        return (change.verdict.value, "; ".join(change.told)) if change else ("a new region", "")

    def seen(self, one: CodeChange) -> ChangeSeen:
        verdict, told = self.verdict(one)
        work = self._folder / "bare" / one.name.replace(" ", "-").replace("/", "-").replace(">", "")
        (checkpoint,) = (self._folder / f"state-{one.base}" / "live" / STREAMS).glob("*/checkpoints/out")
        shutil.copytree(checkpoint, work / "over" / "checkpoint")
        usual, columns = self._usual(one.base)
        with self._changed(one) as (session, module):
            frame = module.frame(session)
            fresh, over = _query(module.frame(session), work / "fresh"), _query(frame, work / "over")
            wrong = _ended(fresh)
            assert not wrong, f"{one.name}: {wrong}"
            failed = _ended(over)
        now = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        expected = self._rows(work / "fresh", one.cut)
        has_effect = expected != usual
        if failed:
            return ChangeSeen(verdict, REFUSED, f"{told} | Spark: {failed}", has_effect)
        rows = self._rows(work / "over", 0)
        if rows != expected:
            missing, extra = expected - rows, rows - expected
            return ChangeSeen(verdict, MIXTURE, f"{told} | -{missing.total()} +{extra.total()} rows", has_effect)
        is_other = any(now.get(name) != kind for name, kind in columns.items())
        return ChangeSeen(verdict, OTHER if is_other else HONEST, told, has_effect)

    def _usual(self, base: str) -> tuple[Counter[str], Mapping[str, str]]:
        """What the first code makes of the second half, and its columns."""
        if base not in self._first:
            module = self.load(base, PROGRAMS[base], f"code-{base}")
            frame = module.frame(clone(self._spark, BARE))
            work = self._folder / "bare" / f"usual-{base}"
            wrong = _ended(_query(frame, work))
            assert not wrong, f"{base}: {wrong}"
            columns = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
            self._first[base] = self._rows(work, HALF), columns
        return self._first[base]

    @contextmanager
    def _changed(self, one: CodeChange) -> Iterator[tuple[SparkSession, ModuleType]]:
        """A session with the settings of a change, and its code, with its variables around them."""
        before = {name: os.environ.get(name) for name in one.variables}
        os.environ.update(one.variables)
        try:
            moved = "-moved" if one.is_moved else ""
            module = self.load(one.base, one.code(PROGRAMS), f"code-{one.base}{moved}")
            yield clone(self._spark, {**BARE, **one.conf}), module
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def _rows(self, work: Path, first: int) -> Counter[str]:
        """The rows of the batches from this one on, by the log of Spark's own sink."""
        names = []
        for log in (work / "out" / "_spark_metadata").glob("*"):
            if log.name.isdecimal() and int(log.name) >= first:
                names += [json.loads(line)["path"] for line in log.read_text().splitlines()[1:]]
        if not names:
            return Counter()
        read = self._spark.read.parquet(*names)
        return Counter(row.text for row in read.select(F.to_json(F.struct("*")).alias("text")).collect())


def _row(n: int, number: int, shift: int) -> dict[str, object]:
    second = number * 15 + n % 15
    return {"n": n, "m": (n * 7 + shift) % 11, "at": f"2026-01-01 10:{second // 60:02d}:{second % 60:02d}"}


def _query(frame: DataFrame, work: Path) -> StreamingQuery | str:
    """By Spark alone: its file sink has a log of the files of each batch. The text if it does not start."""
    writer = frame.writeStream.format("parquet").option("path", str(work / "out")).trigger(availableNow=True)
    try:
        return writer.option("checkpointLocation", str(work / "checkpoint")).start()
    except Exception as error:
        return str(error)


def _ended(query: StreamingQuery | str) -> str:
    """Empty, or why it failed."""
    if isinstance(query, str):
        return query.splitlines()[0][:90]
    try:
        query.awaitTermination()
    except Exception as error:
        return " ".join(str(error).split())[:90]
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream-changes")
    parser.add_argument("--only", default="", help="kinds whose name has this text")
    asked = parser.parse_args()
    changes = [one for one in CHANGES if asked.only in one.name]
    began, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="stream-changes-"))
    spark = local_spark(SESSION, "OFF")
    counts = Counter[str]()
    try:
        place = ChangesPlace(spark, folder)
        place.feed(range(HALF))
        for base in dict.fromkeys(one.base for one in changes):
            place.start(base)
        place.feed(range(HALF, FILES))
        for one in changes:
            seen = place.seen(one)
            counts[seen.outcome] += 1
            counts["silent"] += seen.goes_on and seen.outcome == MIXTURE
            counts["late"] += seen.goes_on and seen.outcome == REFUSED
            counts["needless"] += not seen.goes_on and seen.outcome == HONEST
            counts["without"] += not seen.has_effect
            effect = "" if seen.has_effect else " (same rows as before)"
            print(f"{one.name}: {seen.verdict}; Spark: {seen.outcome}{effect} [{seen.told}]", flush=True)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"RESULT stream-changes kinds={len(changes)} silent_mixtures={counts['silent']} refused_late={counts['late']} "
        f"refused_needlessly={counts['needless']} spark_mixtures={counts[MIXTURE]} spark_refused={counts[REFUSED]} "
        f"without_effect={counts['without']} minutes={(time.monotonic() - began) / 60:.1f}"
    )
    return 1 if counts["silent"] else 0


if __name__ == "__main__":
    sys.exit(main())
