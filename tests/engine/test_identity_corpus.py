"""A slice of `make identity-corpus`: the same code from another folder, and changed code, by fingerprint."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from identity_corpus.__main__ import write
from identity_corpus.driver import rows, told
from identity_corpus.every import PROGRAMS
from rekindle.master.rules.opening import changed_parts
from rekindle.pipeline.identity.changes import describe_change

CHANGED = {
    "method_state": "the attribute P.go.func of priced changed",
    "partial_bound": "wrapper.func of priced changed",
    "cached": "g, which priced uses, changed",
    "dispatched": "which priced uses, changed",
    "function_attribute": "the attribute row.rate of priced changed: 1 -> 2",
    "registered": "the Python function rate_by_name in the plan of priced changed",
    "column_of_udf": "the Python function f in the plan of priced changed",
    "attribute_around": "the attribute R._rate_ of priced changed: 1 -> 2",
    "metaclass": "M.rate, which priced uses, changed",
    "environment_used": "the environment variable CORPUS_RATE, which priced asks for, changed",
    "path_below": "the constant TABLE of priced changed",
    "column_of_rand": "the seeds changed: rand 1 -> rand 2",
    "large_seed": "the seeds changed: rand -12345678901234561 -> rand -12345678901234562",
    "alias_with_id": "the names of columns or tables changed",
    "frame_sample": "the seeds changed: sample 41 -> sample 42",
    "frame_attribute": "the attribute row.rate of priced changed: 1 -> 2",
}
# What a function of a package holds beside functions is a part of an added kind: runs of earlier releases lack it.
PARTS = {"cached": "priced.attribute:helper g"}
SAME = """
    environment_whole environment_in_script environment_copied folder folder_in_script folder_of_frame folder_by_path
    folder_above folder_as_url streams locks context weak sets_in_script drawn_seeds drawn_by_spark drawn_sample_by
    made_up_names made_up_views
""".split()
BY_NAME = {one.name: one for one in PROGRAMS}


@pytest.mark.parametrize("name", [*CHANGED, *SAME])
def test_the_same_code_is_the_same_and_changed_code_is_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    program = BY_NAME[name]
    monkeypatch.setattr(SparkSession, "_activeSession", spark)
    write(tmp_path / "one" / "project", "1", [program])
    first = told(program, tmp_path / "one" / "project", rows(spark))
    monkeypatch.setenv("CORPUS_OTHER", "yes")
    write(tmp_path / "two" / "of" / "another", "1", [program])
    again = told(program, tmp_path / "two" / "of" / "another", rows(spark))
    assert describe_change(first, again) == []
    if name in CHANGED:
        write(tmp_path / "three" / "project", "2", [program])
        after = told(program, tmp_path / "three" / "project", rows(spark))
        assert any(part.startswith(PARTS.get(name, program.part)) for part in changed_parts(first, after))
        assert any(CHANGED[name] in one for one in describe_change(first, after)), describe_change(first, after)


def test_a_run_of_an_earlier_release_is_judged_by_the_parts_it_has() -> None:
    """Its fingerprint says nothing about the new kinds of parts: they are unknown, and all others count as ever."""
    old = {"plan": "#1", "python": "3.11.7", "clean.code": "#2", "clean.constant:RATE": "1"}
    added = {"identity": "2", "clean.udf:rate": "#3", "seeds": "rand 7", "names": "#4", "clean.environment:X": "1"}
    assert changed_parts(old, old | added) == () and describe_change(old, old | added) == []
    for more in ({"clean.constant:RATE": "2"}, {"plan": "#9"}, {"spark.sql.ansi.enabled": "false"}, {"input": "1"}):
        assert changed_parts(old, old | added | more) == tuple(more)
    gone = {part: value for part, value in (old | added).items() if part != "clean.constant:RATE"}
    assert changed_parts(old, gone) == ("clean.constant:RATE",)
    # A run that was started since has them all, and one that is missing is a change.
    assert changed_parts(old | {"identity": "2"}, old | added) == tuple(sorted(added.keys() - {"identity"}))
