"""The policy of digests, as a user may say it."""

from __future__ import annotations

from typing import Any

import pytest

import rekindle as rk


def test_a_word_that_is_no_policy_is_refused_where_it_stands() -> None:
    pipeline = rk.Pipeline("daily")
    said: Any = "sometimes"
    with pytest.raises(rk.GraphRefused, match=r"test_digest_option\.py:\d+: digest='sometimes'.*\n.*'always'"):

        @pipeline.source(digest=said)
        def orders(spark: Any) -> Any:
            return spark

    assert pipeline.check() == ()


def test_the_run_s_own_word_is_checked_too() -> None:
    with pytest.raises(rk.GraphRefused, match="RunOptions: digest='often'"):
        rk.Pipeline("daily").run(None, "nowhere", options=rk.RunOptions(digest="often"))
