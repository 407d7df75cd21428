"""A table of a catalog is determinate where it is read at one version, and unknown elsewhere."""

from __future__ import annotations

import json

import pytest

from rekindle.engine.spark.plan.determinism import judge
from rekindle.model.kinds import Determinism


def plan(*classes: str) -> str:
    """Operators in a row, each above the next one, as Spark's JSON has them."""
    nodes = [{"class": f"org.apache.spark.sql.{name}", "num-children": 1} for name in classes]
    nodes[-1]["num-children"] = 0
    return json.dumps(nodes)


@pytest.mark.parametrize("leaf", ["DataSourceV2Relation", "DataSourceV2ScanRelation"])
def test_a_table_is_known_where_it_is_read_at_one_version(leaf: str) -> None:
    told = plan("SubqueryAlias", leaf)
    assert judge(told, reads_kept=False, reads_pinned=True).level is Determinism.DETERMINATE
    assert judge(told, reads_kept=False).because == (leaf,)


def test_what_stands_above_it_is_judged_as_always() -> None:
    told = plan("GlobalLimit", "DataSourceV2ScanRelation")
    assert judge(told, reads_kept=False, reads_pinned=True).level is Determinism.UNKNOWN
