"""A target may depend on the parameters of the run. It is complete, or refused by name, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

import rekindle as rk
from rekindle.errors import GraphRefused, ParameterRefused, Refused
from rekindle.pipeline.run_targets import TargetFunction
from rekindle.publish.targets import Target


def orders(spark: Any, day: str) -> Any: ...


def country_orders(spark: Any, day: str, country: str = "de") -> Any: ...


def out(orders: Any) -> Any: ...


def pipeline_to(*targets: Target | TargetFunction, source: Callable[..., Any] = orders) -> rk.Pipeline:
    made = rk.Pipeline("daily")
    made.add_source(source, name="orders")
    for number, target in enumerate(targets):
        made.add_sink(out, target, name=f"out_{number}")
    return made


def shown(target: Target | TargetFunction, *, source: Callable[..., Any] = orders, **parameters: Any) -> str:
    """The target of the run with these parameters, as the user reads it."""
    wish = pipeline_to(target, source=source)._wish(None, "/runs", None, parameters)
    return wish.targets["out_0"]


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (rk.files("/lake/gold/day={day}"), "files /lake/gold/day=2026-11-01"),
        (rk.files("s3a://lake/gold/{day:%Y/%m}/{day}"), "files s3a://lake/gold/2026/11/2026-11-01"),
        (rk.directory("/lake/gold/day={day}"), "directory /lake/gold/day=2026-11-01"),
        (rk.replace("/lake/{day}", atomic=False), "directory /lake/2026-11-01, replaced in place"),
        (rk.table("gold.orders_{day:%Y%m%d}"), "table gold.orders_20261101"),
        (rk.files("/lake/{{day}}/{day}"), "files /lake/{day}/2026-11-01"),
        (lambda day: rk.files(f"/lake/{str(day)[:7]}"), "files /lake/2026-11"),
        (lambda day, root="/lake": rk.files(f"{root}/{day}"), "files /lake/2026-11-01"),
        (rk.files("/lake/gold"), "files /lake/gold"),
    ],
)
@pytest.mark.parametrize("day", ["2026-11-01", date(2026, 11, 1)])
def test_a_parameter_in_a_target(target: Target | TargetFunction, found: str, day: str | date) -> None:
    """A date and its text give one target: a shell can give only the text."""
    assert shown(target, day=day) == found


def test_the_default_of_the_steps_is_the_value_of_a_brace() -> None:
    target = rk.files("/lake/{country}/{day}")
    assert shown(target, source=country_orders, day="d") == "files /lake/de/d"
    assert shown(target, source=country_orders, day="d", country="fr") == "files /lake/fr/d"


def test_only_a_target_may_ask_for_a_parameter() -> None:
    assert shown(rk.files("/lake/{tenant}/{day}"), day="d", tenant="acme") == "files /lake/acme/d"
    with pytest.raises(ParameterRefused, match="nothing in this pipeline asks for the parameter tenant"):
        shown(rk.files("/lake/{day}"), day="d", tenant="acme")


@pytest.mark.parametrize(
    ("target", "text", "hint"),
    [
        (rk.files("/lake/day={dya}"), "the target of out_0 names dya, which is not a parameter", "did you mean day?"),
        (lambda tag: rk.files(f"/{tag}"), "the target of out_0 names tag, which is not a", "location, tag=…"),
        (rk.files("/lake/day={day"), "/lake/day={day has a brace without its counterpart", "write {{ and }}"),
        (rk.files("/lake/{}"), "{} is not a parameter", "write {day} for the parameter day"),
        (rk.files("/lake/{day.year}"), "{day.year} is not a parameter", "write {day}"),
        (rk.files("/lake/{day!r}"), "{day!r} is not a parameter", "write {day}"),
        (rk.files("/lake/{count:%Y}"), "{count:%Y} writes a date, and the parameter count is '7'", "such as 2026"),
        (lambda day: rk.files("/lake/day={day}"), "files /lake/day={day}, with a brace in it", 'rk.files(f"'),
        (lambda day: f"/lake/{day}", "returned '/lake/2026-11-01', which is not a target", "rk.table("),
        (lambda day: rk.files(f"/lake/{day.year}"), "could not be made: AttributeError: 'str'", "correct the function"),
        (lambda day: rk.files(day), "'2026-11-01' is not an absolute path", "write the whole path"),
        (rk.files("{day}/x"), "'2026-11-01/x' is not an absolute path", "write the whole path"),
        (rk.table("gold.t_{day}"), "'gold.t_2026-11-01' is not a table name", "write table"),
        (lambda *day: rk.files("/x"), "a parameter that cannot be given by name", "lambda day: rk.files"),
    ],
)
def test_what_names_no_parameter_is_refused(target: Target | TargetFunction, text: str, hint: str) -> None:
    def counted(spark: Any, day: str, count: int = 7) -> Any: ...

    with pytest.raises(GraphRefused) as caught:
        pipeline_to(target, source=counted).check(day="2026-11-01")
    assert text in str(caught.value) and hint in str(caught.value)
    assert "test_targets_by_parameter.py:" in str(caught.value), "with the line"


@pytest.mark.parametrize("value", ["../other", "a/b", "..", ".", "", " ", "a\\b", "{x}", "a\nb", "\x00"])
def test_a_value_leads_to_no_other_directory(value: str) -> None:
    with pytest.raises(GraphRefused, match=r"the parameter day is .*which cannot be part of a target"):
        shown(rk.files("/lake/gold/day={day}"), day=value)


def test_two_defaults_are_no_default() -> None:
    made = pipeline_to(rk.files("/lake/{country}"), source=country_orders)

    @made.source
    def others(spark: Any, country: str = "fr") -> Any: ...

    with pytest.raises(GraphRefused, match="names country, for which steps have different defaults"):
        made.check(day="d")
    made.check(day="d", country="fr")


def test_a_sink_without_a_target_is_refused_before_anything_runs() -> None:
    """The function below a bare `@pipeline.sink` is taken for one that chooses a target, and nothing is published."""
    made = pipeline_to(rk.files("/lake/{day}"))
    made.sink(out)
    with pytest.raises(GraphRefused, match="a sink needs a target, and out is not one"):
        made.check(day="d")


def test_a_target_that_is_nothing_of_the_kind_is_refused_at_once() -> None:
    with pytest.raises(Refused, match="a sink needs a target, and '/lake/gold' is not one"):
        rk.Pipeline("daily").sink("/lake/gold")  # type: ignore[arg-type]
