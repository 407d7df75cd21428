"""The whole pipeline is checked before anything runs: each fault has its line and says what to type next."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import rekindle as rk
from rekindle.errors import ParameterRefused

Declare = Callable[[rk.Pipeline], None]


def orders(spark: Any) -> Any: ...


def clean(orders: Any) -> Any: ...


def line_of(function: Callable[..., Any]) -> str:
    return f"test_checking.py:{inspect.getsourcelines(function)[1]}"


def refusal(declare: Declare, **parameters: str) -> str:
    pipeline = rk.Pipeline("daily")
    pipeline.add_source(orders)
    with pytest.raises(rk.GraphRefused) as caught:
        declare(pipeline)
        pipeline.check(**parameters)
    return str(caught.value)


def test_steps_come_producers_first_in_whatever_order_they_were_declared() -> None:
    pipeline = rk.Pipeline("daily")
    pipeline.add_sink(lambda clean: None, rk.directory("/out/daily"), name="daily")
    pipeline.add_step(clean)
    pipeline.add_source(orders)
    assert pipeline.check() == ("orders", "clean", "daily")


def reads_unknown(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, inputs=["ordres"])


def reads_misspelt(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(lambda orders, ordrs: None, name="both")


def reads_nothing(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(lambda day="today": None, name="alone")


def reads_a_sink(pipeline: rk.Pipeline) -> None:
    pipeline.add_sink(clean, rk.files("/out/clean"))
    pipeline.add_step(lambda clean: None, name="after")


def source_with_input(pipeline: rk.Pipeline) -> None:
    pipeline.add_source(lambda orders: None, name="more")


def same_name(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, name="orders")


def illegal_name(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, name="clean-eu")


def no_name(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(lambda orders: None)


def name_of_the_session(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, name="spark")


def circle(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(lambda orders, there: None, name="here")
    pipeline.add_step(lambda here: None, name="there")


def itself(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(lambda orders, again: None, name="again")


def caching_for_nothing(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, result="caching")


def memory_for_ever(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, result="memory", keep_until="forever")
    pipeline.add_step(lambda clean: None, name="after")


def caching_sink(pipeline: rk.Pipeline) -> None:
    pipeline.add_sink(clean, rk.table("gold.daily"), result="caching")


def copies_of_files(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, result="blocking", replicas=2)


def no_copy(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, result="caching", replicas=0)
    pipeline.add_step(lambda clean: None, name="after")


def unknown_kind(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, result="bloking")  # type: ignore[arg-type]


def keys_of_nothing(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, result="pipelined", partition_by="id")
    pipeline.add_step(lambda clean: None, name="after")


def keys_twice(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, partition_by=["id", "id"])


def no_partitions(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, partitions=0)


def pipelined_into_nothing(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, result="pipelined")


def eager_and_pipelined(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, result="pipelined", eager=True)
    pipeline.add_step(lambda clean: None, name="after")


def pipelined_for_ever(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, result="pipelined", keep_until="forever")
    pipeline.add_step(lambda clean: None, name="after")


def pipelined_and_reused(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, result="pipelined", reuse=True)
    pipeline.add_step(lambda clean: None, name="after")


def pipelined_with_a_strategy(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, result="pipelined", failover="individual")
    pipeline.add_step(lambda clean: None, name="after")


def unknown_failover(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, failover="full")  # type: ignore[arg-type]


def one_target_twice(pipeline: rk.Pipeline) -> None:
    pipeline.add_sink(clean, rk.table("gold.daily"))
    pipeline.add_sink(clean, rk.table("gold.daily"), name="again")


def unknown_option(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, partition="id")  # type: ignore[call-arg]


def unknown_until(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, keep_until="tomorrow")  # type: ignore[arg-type]


def names_no_parameter(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, inputs={"order": "orders"})


def more_inputs_than_parameters(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(clean, inputs=["orders", "orders"])


def keywords(pipeline: rk.Pipeline) -> None:
    pipeline.add_step(lambda orders, **rest: None, name="any")


def no_target(pipeline: rk.Pipeline) -> None:
    pipeline.sink(clean)


@pytest.mark.parametrize(
    ("declare", "line", "text", "hint"),
    [
        (reads_unknown, clean, "clean reads ordres, but there is no such step", "did you mean orders"),
        (reads_misspelt, reads_misspelt, "ordrs of both is neither a step", "did you mean orders"),
        (reads_nothing, reads_nothing, "step alone has no input", "@pipeline.source"),
        (
            reads_a_sink,
            reads_a_sink,
            "no step can read a sink",
            "make clean a step, and publish it by a sink that reads it; or read what clean reads: orders",
        ),
        (source_with_input, source_with_input, "a source cannot read steps", "@pipeline.step"),
        (same_name, clean, "orders is declared twice, first at test_checking.py:", 'name="orders_2"'),
        (illegal_name, clean, "'clean-eu' is not a valid name of a step", 'name="clean_eu"'),
        (no_name, no_name, "this step has no name", 'name="…"'),
        (name_of_the_session, clean, "spark is not a valid name of a step", 'name="spark_step"'),
        (circle, circle, "form a cycle: ", "rename the parameter"),
        (itself, itself, "form a cycle: again", "rename the parameter"),
        (caching_for_nothing, clean, "clean has result='caching', but no step reads it", "result='blocking'"),
        (memory_for_ever, clean, "clean cannot be kept forever: result='memory'", "result='blocking'"),
        (caching_sink, clean, "clean is a sink and needs files", "its input may have result='caching'"),
        (copies_of_files, clean, "replicas of clean is not allowed", "result='caching'"),
        (no_copy, clean, "replicas=0 of clean", "replicas=2"),
        (unknown_kind, clean, "result='bloking' of clean is not a result kind", "did you mean blocking"),
        (keys_of_nothing, clean, "partition_by of clean is not allowed", "result='blocking'"),
        (keys_twice, clean, "names a column twice", "partition_by=['id']"),
        (no_partitions, clean, "partitions=0 of clean", "partitions=200"),
        (pipelined_into_nothing, clean, "clean is pipelined, but no step reads it", "result='blocking'"),
        (eager_and_pipelined, clean, "clean is eager, so it must be kept", "leave out"),
        (pipelined_for_ever, clean, "clean is pipelined, so it has no result to keep", "result='blocking'"),
        (pipelined_and_reused, clean, "clean is pipelined, so reuse and failover", "result='blocking'"),
        (pipelined_with_a_strategy, clean, "clean is pipelined, so reuse and failover", "result='blocking'"),
        (unknown_failover, clean, "failover='full' is not known", "'individual'"),
        (one_target_twice, clean, "again publishes to table gold.daily, and so does clean", "another target"),
        (unknown_option, clean, "there is no option partition", "did you mean partition"),
        (unknown_until, clean, "keep_until='tomorrow' is not known", "'run end'"),
        (names_no_parameter, clean, "inputs= names order, which is not a parameter", "did you mean orders"),
        (more_inputs_than_parameters, clean, "inputs= names 2 steps, but the function takes 1", "*args"),
        (keywords, keywords, "**rest is not allowed", "name each input"),
        (no_target, clean, "a sink needs a target", "rk.table"),
    ],
    ids=lambda value: getattr(value, "__name__", "").replace("_", " ") if callable(value) else "",
)
def test_a_fault_has_its_line_and_what_to_type_next(
    declare: Declare, line: Callable[..., Any], text: str, hint: str
) -> None:
    message = refusal(declare)
    file, number = line_of(line).split(":")
    lines = range(int(number), int(number) + len(inspect.getsourcelines(line)[0]))
    assert any(message.startswith(f"{file}:{one}: ") for one in lines), message
    assert text in message
    assert hint in message.split("next: ", 1)[1]


def test_all_faults_are_told_at_once() -> None:
    def several(pipeline: rk.Pipeline) -> None:
        pipeline.add_step(clean, result="caching", partitions=0)

    message = refusal(several)
    assert message.startswith("this pipeline has 2 errors:")
    assert message.count("next: ") == 2


def test_a_parameter_of_the_run_is_given_or_has_a_default() -> None:
    def by_day(pipeline: rk.Pipeline) -> None:
        pipeline.add_step(lambda orders, day, limit=3: None, name="of_day")

    assert "day of of_day is neither" in refusal(by_day)
    pipeline = rk.Pipeline("daily")
    pipeline.add_source(orders)
    by_day(pipeline)
    assert pipeline.check(day="2026-07-30") == ("orders", "of_day")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"dya": "2026-07-30"}, "did you mean day"),
        ({"day": ["a"]}, "day is a list"),
    ],
    ids=["nobody asks for it", "a list has no place in a key"],
)
def test_parameters_that_do_not_fit_are_refused(given: dict[str, Any], text: str) -> None:
    pipeline = rk.Pipeline("daily")
    pipeline.add_source(lambda spark, day="today": None, name="orders")
    pipeline.add_step(clean)
    with pytest.raises(ParameterRefused, match=text):
        pipeline.check(**given)


@pytest.mark.parametrize("name", ["", "a-b", "_keys", "1st", "a/b", "é"])
def test_a_pipeline_has_a_name_that_a_directory_can_have(name: str) -> None:
    with pytest.raises(rk.GraphRefused, match="is not a valid name of a pipeline"):
        rk.Pipeline(name)
