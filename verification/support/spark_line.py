"""Tests of what not every Spark line has: they are skipped on the others, with that reason and no other one."""

from __future__ import annotations

import pytest

from build_jar import HERE
from rekindle.engine.spark_lines import SparkFeature

LACKING = "this Spark has no "


def needs(feature: SparkFeature) -> pytest.MarkDecorator:
    return pytest.mark.skipif(feature in HERE.lacks, reason=f"{LACKING}{feature.value}")
