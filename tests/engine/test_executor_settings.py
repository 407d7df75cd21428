"""What settings about executors and exchanges change: told where they change something, and nowhere else."""

from __future__ import annotations

import pytest

from rekindle.engine.executor_settings import executor_notes, settings_in

DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}
CACHED_IDLE = "spark.dynamicAllocation.cachedExecutorIdleTimeout"
TRACKED_IDLE = "spark.dynamicAllocation.shuffleTracking.timeout"
GONE = {"spark.decommission.enabled": "true"}
MOVED = {**GONE, "spark.storage.decommission.enabled": "true"}
SERVICE = {"spark.shuffle.service.enabled": "true"}


@pytest.mark.parametrize(
    ("settings", "in_blocks", "told"),
    [
        pytest.param({}, ("a",), [], id="Spark as it comes"),
        pytest.param(DYNAMIC, (), [], id="dynamic allocation, all results are files"),
        pytest.param(DYNAMIC, ("a", "b"), ["keeps each executor that has some of the caching and memory results"]),
        pytest.param({**DYNAMIC, CACHED_IDLE: "60s"}, ("a",), ["idle for 60s with the caching and memory results"]),
        pytest.param({**DYNAMIC, CACHED_IDLE: "60s"}, (), [], id="an idle time for blocks, and none"),
        pytest.param({**DYNAMIC, TRACKED_IDLE: "5min"}, (), ["idle for 5min with its map outputs"]),
        pytest.param({**DYNAMIC, TRACKED_IDLE: "5min", **SERVICE}, (), [], id="the shuffle service has the outputs"),
        pytest.param({TRACKED_IDLE: "5min"}, (), [], id="an idle time without dynamic allocation"),
        pytest.param(GONE, (), ["map outputs of a decommissioned executor go with it"]),
        pytest.param(GONE, ("a",), ["map outputs", "caching and memory results of a on a decommissioned"]),
        pytest.param(MOVED, ("a",), [], id="all is moved"),
        pytest.param(
            {**MOVED, "spark.storage.decommission.rddBlocks.enabled": "false"}, ("a",), ["results of a on a "]
        ),
        pytest.param(
            {**MOVED, "spark.storage.decommission.shuffleBlocks.enabled": "false"}, ("a",), ["map outputs of a de"]
        ),
        pytest.param({"spark.speculation": "true"}, (), ["side effects of Python happen twice"]),
        pytest.param({"spark.shuffle.manager": "sort"}, (), [], id="Spark's own shuffle manager by its short name"),
        pytest.param(
            {"spark.shuffle.manager": "org.apache.spark.shuffle.celeborn.SparkShuffleManager"},
            (),
            ["exchanges are those of org.apache.spark.shuffle.celeborn.SparkShuffleManager, whose checksums"],
        ),
        pytest.param({"spark.io.encryption.enabled": "true"}, (), ["not the files of kept results"]),
        pytest.param(DYNAMIC, None, ["keeps each executor that has some of the caching and memory results ("]),
    ],
)  # fmt: skip
def test_what_is_told(settings: dict[str, str], in_blocks: tuple[str, ...] | None, told: list[str]) -> None:
    found = executor_notes(settings, in_blocks)
    assert len(found) == len(told) and all(part in one for part, one in zip(told, found, strict=True)), found


def test_settings_of_a_file() -> None:
    text = "# spark.a 1\n\nspark.b  2 3\nspark.c=4\nspark.d = 5\n  spark.e\tx=y\nspark.f\n"
    assert settings_in(text) == {"spark.b": "2 3", "spark.c": "4", "spark.d": "5", "spark.e": "x=y"}
