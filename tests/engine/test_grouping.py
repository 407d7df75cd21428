"""`result="auto"` as rows: what is kept, what is fused into what, and the reason that is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rekindle.model.kinds import Determinism, KeepUntil
from rekindle.pipeline.check import check
from rekindle.pipeline.declared import Argument, Binding, Declared, Role
from rekindle.pipeline.grouping import GroupingDecision, StepPlacement, StepPlanFacts, decide, members_of
from rekindle.publish.targets import files

PLAIN = StepPlanFacts()
WIDE = StepPlanFacts(exchanges=1, is_narrow=False)
PYTHON = StepPlanFacts(has_python=True, determinism=Determinism.UNKNOWN, because=("PythonUDF",))
RANDOM = StepPlanFacts(determinism=Determinism.INDETERMINATE, because=("Rand",))
BROADCAST = StepPlanFacts(is_narrow=False)
UNPINNED = StepPlanFacts(is_pinned=False)
ITSELF = StepPlanFacts(is_input_itself=True)


def step(name: str, *inputs: str, **more: Any) -> Declared:
    """A source if it reads nothing, a sink if it has a target."""
    role = Role.SINK if "target" in more else Role.STEP if inputs else Role.SOURCE
    arguments = tuple(Argument(one, Binding.INPUT, one) for one in inputs)
    return Declared(name=name, role=role, function=lambda *frames: None, arguments=arguments, place="a.py:1", **more)


def decided(*steps: Declared, **looks: StepPlanFacts) -> dict[str, GroupingDecision]:
    return decide(check(steps), {one.name: looks.get(one.name, PLAIN) for one in steps})


def fates(decisions: Mapping[str, GroupingDecision]) -> dict[str, StepPlacement]:
    return {name: decision.fate for name, decision in decisions.items()}


@pytest.mark.parametrize(
    ("middle", "look", "fate", "why"),
    [
        ({}, PLAIN, StepPlacement.FUSED, "pipelined into end"),
        ({}, WIDE, StepPlacement.KEPT, "it contains an exchange"),
        ({}, PYTHON, StepPlacement.KEPT, "it runs Python functions"),
        ({}, RANDOM, StepPlacement.FUSED, "pipelined into end"),
        ({}, BROADCAST, StepPlacement.FUSED, "pipelined into end"),
        ({"keys": ("id",)}, PLAIN, StepPlacement.KEPT, "partition_by or partitions is set"),
        ({"partitions": 8}, PLAIN, StepPlacement.KEPT, "partition_by or partitions is set"),
        ({"keep": KeepUntil.FOREVER}, PLAIN, StepPlacement.KEPT, "keep_until='forever'"),
        ({"is_reusable": True}, PLAIN, StepPlacement.KEPT, "reuse or failover is set"),
        ({"is_pessimistic": False}, PLAIN, StepPlacement.KEPT, "reuse or failover is set"),
        ({"is_eager": True}, PLAIN, StepPlacement.KEPT, "it starts Spark jobs while it is built"),
        ({"result": "blocking"}, PLAIN, StepPlacement.KEPT, "result='blocking'"),
        ({"result": "pipelined"}, WIDE, StepPlacement.FUSED, "pipelined into end"),
        ({"result": "pipelined"}, PYTHON, StepPlacement.FUSED, "pipelined into end"),
    ],
)
def test_a_step_with_one_reader(middle: dict[str, Any], look: StepPlanFacts, fate: StepPlacement, why: str) -> None:
    found = decided(step("source"), step("middle", "source", **middle), step("end", "middle"), middle=look, end=WIDE)
    assert found["middle"] == GroupingDecision(fate, why)
    assert found["source"].fate is StepPlacement.FUSED
    assert found["end"].fate is StepPlacement.KEPT


@pytest.mark.parametrize(
    ("middle", "look", "fate", "why"),
    [
        (
            {},
            PLAIN,
            StepPlacement.FUSED,
            "pipelined into left and right, computed in each of them: it is determinate and narrow",
        ),
        (
            {},
            RANDOM,
            StepPlacement.KEPT,
            "left and right read it and must see one version, and it is not determinate: Rand",
        ),
        ({}, BROADCAST, StepPlacement.KEPT, "left and right read it and it is not narrow"),
        (
            {"result": "pipelined"},
            PYTHON,
            StepPlacement.KEPT,
            "left and right read it and must see one version, and it is not determinate",
        ),
        ({"result": "pipelined"}, WIDE, StepPlacement.FUSED, "pipelined into left and right, computed in each"),
    ],
)
def test_a_step_with_two_readers(middle: dict[str, Any], look: StepPlanFacts, fate: StepPlacement, why: str) -> None:
    found = decided(
        step("source"),
        step("middle", "source", **middle),
        step("left", "middle"),
        step("right", "middle"),
        middle=look,
    )
    assert found["middle"].fate is fate
    assert found["middle"].why.startswith(why)


def test_a_random_step_below_one_with_two_readers_is_computed_once_with_it() -> None:
    steps = (
        step("source"),
        step("dice", "source"),
        step("shown", "dice"),
        step("left", "shown"),
        step("right", "shown"),
    )
    found = decided(*steps, dice=RANDOM, shown=RANDOM)
    assert found["shown"].why.startswith("left and right read it and must see one version")
    assert found["dice"] == GroupingDecision(StepPlacement.FUSED, "pipelined into shown")
    assert members_of("shown", steps, found) == ("source", "dice", "shown")
    assert members_of("left", steps, found) == ("left",)


def test_a_random_step_that_one_plan_reaches_in_two_ways_is_promoted() -> None:
    """Spark would compute it twice inside one plan, and join two versions of it."""
    steps = (step("source"), step("dice", "source"), step("a", "dice"), step("b", "dice"), step("end", "a", "b"))
    found = decided(*steps, dice=RANDOM, a=RANDOM, b=RANDOM, end=WIDE)
    assert found["dice"].fate is StepPlacement.KEPT
    assert members_of("end", steps, found) == ("a", "b", "end")


def test_a_kept_step_that_a_reader_computes_once_more_brings_what_is_below_it() -> None:
    steps = (step("source"), step("middle", "source", result="blocking"), step("names", "middle"), step("end", "names"))
    looks = {one.name: PLAIN for one in steps}
    copies = {("names", "middle"): "it asks for the names of files"}
    found = decide(check(steps), looks, copies)
    assert found["middle"] == GroupingDecision(StepPlacement.KEPT, "result='blocking'")
    assert (
        found["source"].why == "pipelined into middle and end, computed in each of them: it is determinate and pinned"
    )
    assert members_of("middle", steps, found, copies) == ("source", "middle")
    assert members_of("end", steps, found, copies) == ("source", "middle", "names", "end")
    assert members_of("end", steps, found) == ("names", "end")
    found = decide(check(steps), looks | {"source": BROADCAST}, copies)
    assert found["source"].why == "middle and end read it and it is not narrow, so it is computed once"


@pytest.mark.parametrize(
    ("look", "fate", "why"),
    [
        (
            PLAIN,
            StepPlacement.FUSED,
            "pipelined into left and right, computed in each of them: it is determinate and pinned",
        ),
        (UNPINNED, StepPlacement.KEPT, "its input cannot be pinned to one version"),
        (WIDE, StepPlacement.KEPT, "it contains an exchange"),
    ],
)
def test_a_source(look: StepPlanFacts, fate: StepPlacement, why: str) -> None:
    found = decided(step("source"), step("left", "source"), step("right", "source"), source=look)
    assert found["source"] == GroupingDecision(fate, why)


def test_what_nothing_reads() -> None:
    found = decided(step("source"), step("unread"), step("end", "source"), unread=UNPINNED)
    assert found["unread"] == GroupingDecision(StepPlacement.LEFT_OUT, "no step reads it")
    assert found["end"] == GroupingDecision(StepPlacement.KEPT, "no step reads it, so it is a result of the run")


def test_a_sink_that_hands_on_its_input_publishes_the_kept_result_without_a_copy() -> None:
    found = decided(
        step("source"), step("clean", "source"), step("daily", "clean", target=files("/out/daily")), daily=ITSELF
    )
    assert found["clean"] == GroupingDecision(StepPlacement.KEPT, "sink daily publishes it")
    assert found["daily"] == GroupingDecision(StepPlacement.PUBLISHES, "publishes clean to files /out/daily", "clean")


@pytest.mark.parametrize(
    ("clean", "sink", "look"),
    [
        ({}, {}, PLAIN),
        ({}, {"partitions": 4}, ITSELF),
        ({"result": "pipelined"}, {}, ITSELF),
    ],
    ids=["it makes something else", "it has a layout of its own", "its input is not to be kept"],
)
def test_a_sink_that_keeps_its_own_result(clean: dict[str, Any], sink: dict[str, Any], look: StepPlanFacts) -> None:
    found = decided(
        step("source"),
        step("clean", "source", **clean),
        step("daily", "clean", target=files("/out/daily"), **sink),
        daily=look,
    )
    assert fates(found) == {"source": StepPlacement.FUSED, "clean": StepPlacement.FUSED, "daily": StepPlacement.KEPT}


def test_a_source_goes_to_a_sink_as_the_sink() -> None:
    found = decided(step("source"), step("daily", "source", target=files("/out/daily")), daily=ITSELF)
    assert fates(found) == {"source": StepPlacement.FUSED, "daily": StepPlacement.KEPT}


def test_a_second_sink_over_one_result_keeps_its_own() -> None:
    found = decided(
        step("source"),
        step("clean", "source"),
        step("daily", "clean", target=files("/out/daily")),
        step("again", "clean", target=files("/out/again")),
        daily=ITSELF,
        again=ITSELF,
    )
    assert fates(found) == {
        "source": StepPlacement.FUSED,
        "clean": StepPlacement.KEPT,
        "daily": StepPlacement.PUBLISHES,
        "again": StepPlacement.KEPT,
    }
