"""One process of the corpus: a Spark, every program loaded once, its fingerprint printed as a line of JSON."""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from identity_corpus.every import PROGRAMS
from identity_corpus.programs import Program
from local_spark import local_spark
from rekindle.engine.spark.plan.identity import KeptStep, Member, fingerprint
from rekindle.engine.spark.script import given
from rekindle.engine.spark.session import attach

STEP = "priced"


def loaded(program: Program, folder: Path) -> dict[str, Any]:
    """The names of the program, imported or run as a script."""
    path = folder / program.name / f"prog_{program.name}.py"
    sys.path.insert(0, str(path.parent))
    try:
        if program.is_script:
            names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
            exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), names)
            return names
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return vars(module)
    finally:
        sys.path.remove(str(path.parent))


def told(program: Program, folder: Path, df: DataFrame) -> dict[str, str]:
    names = loaded(program, folder)
    sys.path.insert(0, str(folder / program.name))
    try:
        frame = names["step"](df)
        function = given(frame, STEP, "corpus") if program.is_frame else names["step"]
        return fingerprint(KeptStep(frame, ("id",), 2, (Member(STEP, function),)), STEP)
    finally:
        sys.path.remove(str(folder / program.name))


def rows(spark: SparkSession) -> DataFrame:
    return spark.range(9).selectExpr("id", "cast(id as int) x")


def main(arguments: Sequence[str]) -> None:
    folder, jar, *wanted = arguments
    settings = {"spark.sql.session.timeZone": "UTC", **({"spark.jars": jar} if jar else {})}
    spark = local_spark(settings, "OFF")
    attach(spark)
    for program in PROGRAMS:
        if wanted and program.name not in wanted:
            continue
        try:
            said: dict[str, Any] = {"name": program.name, "parts": told(program, Path(folder), rows(spark))}
        except Exception:
            said = {"name": program.name, "error": traceback.format_exc()}
        print(json.dumps(said), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
