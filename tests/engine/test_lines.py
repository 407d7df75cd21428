"""The line of a step that made what a plan names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from rekindle.pipeline.source_lines import with_lines


def salted(orders: Any, f: Any) -> Any:
    spread = orders.withColumn("salt", f.rand())
    return spread.dropDuplicates(["id"]).limit(3)


def asked(spark: Any) -> Any:
    return spark.sql(
        """
        select first_value(id), collect_list(s)
        from orders
        """
    )


def at(function: Callable[..., Any], text: str) -> str:
    lines, first = inspect.getsourcelines(function)
    return f"test_lines.py:{first + next(number for number, line in enumerate(lines) if text in line)}"


def test_a_doubt_has_the_line_that_made_it() -> None:
    doubts = ("Rand", "Deduplicate by some of the columns", "GlobalLimit without a total order")
    assert with_lines(doubts, [salted]) == (
        f"Rand at {at(salted, 'f.rand')}",
        f"Deduplicate by some of the columns at {at(salted, 'dropDuplicates')}",
        f"GlobalLimit without a total order at {at(salted, 'limit')}",
    )


def test_a_query_in_text_is_searched_too() -> None:
    assert with_lines(("First", "CollectList"), [salted, asked]) == (
        f"First at {at(asked, 'first_value')}",
        f"CollectList at {at(asked, 'first_value')}",
    )


def test_what_is_not_found_has_no_line() -> None:
    assert with_lines(("Uuid",), [salted]) == ("Uuid",)
    assert with_lines(("Rand",), [eval("lambda orders: orders.rand()"), len]) == ("Rand",)
