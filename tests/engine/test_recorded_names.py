"""What a step may hold of Rekindle's own has in its fingerprint the name that the first locations have."""

from __future__ import annotations

import typing
from typing import Any

import pytest

import rekindle as rk
from rekindle.engine.spark.plan.given import FrameCode
from rekindle.engine.spark.plan.packed import PackedFunction
from rekindle.gc.collect_run import GcRules
from rekindle.gc.policy import Retention
from rekindle.pipeline.identity import fingerprint, recorded_names
from rekindle.pipeline.identity.pickle_reader import UnbuiltObject
from rekindle.pipeline.identity.recorded_names import recorded_name

# As release 0.1.0 recorded them. Nothing is taken away here, and no name becomes another one.
AS_RECORDED = {
    "rekindle.api": "Pipeline previous read_kafka read_newest read_result",
    "rekindle.engine.constants": "run_time seed",
    "rekindle.engine.pickled": "Made",
    "rekindle.engine.spark.packed": "Packed",
    "rekindle.engine.spark.script": "Given",
    "rekindle.engine.targets": "Directory Files Replace Table directory files replace table",
    "rekindle.errors": "Fenced GraphRefused Refused RekindleError RunFailed StillOwned StoreFailed",
    "rekindle.failover.restart": "Strategy",
    "rekindle.failover.waste": "Terms",
    "rekindle.master.config": "BackoffSpec MasterConfig",
    "rekindle.onramp": "run",
    "rekindle.pipeline.declared": "Shard",
    "rekindle.publish.delta": "delta",
    "rekindle.publish.each_batch": "each_batch",
    "rekindle.publish.each_partition": "EachPartition each_partition",
    "rekindle.publish.iceberg": "iceberg",
    "rekindle.publish.kafka": "kafka",
    "rekindle.remedies": "CommandRemedy StartKind StartRemedy TextRemedy",
    "rekindle.runtime.janitor.remover": "Limits",
    "rekindle.runtime.janitor.tend": "Rules",
    "rekindle.runtime.loop": "Watcher",
    "rekindle.runtime.options": "RunOptions",
}
# What a run tells, and a step has no use for.
TOLD = {"Plan", "RunSummary", "StepSummary", "StreamPlan", "StreamSummary"}
CALLED = rk.each_partition(lambda rows: None, "/a")


def _classes(found: Any, seen: dict[str, Any]) -> None:
    """Classes of ours, those of their fields included."""
    for one in typing.get_args(found):
        _classes(one, seen)
    if isinstance(found, type) and found.__module__.startswith("rekindle.") and found.__name__ not in {*seen, *TOLD}:
        seen[found.__name__] = found
        for one in [*typing.get_type_hints(found).values(), *found.__bases__]:
            _classes(one, seen)


def test_everything_that_a_step_may_hold_has_the_name_it_was_recorded_by() -> None:
    seen: dict[str, Any] = {one.__name__: one for one in (FrameCode, PackedFunction, UnbuiltObject)}
    for name in sorted(set(rk.__all__) - TOLD - {"__version__"}):
        value = getattr(rk, name)
        _classes(value, seen) if isinstance(value, type) else seen.setdefault(name, value)
    for kind in (rk.files("/a"), rk.table("a.b"), rk.replace("/a", atomic=False), rk.directory("/a"), CALLED):
        _classes(type(kind), seen)
    names: dict[str, list[str]] = {}
    for name, value in seen.items():
        module, _, recorded = recorded_name(value.__module__, name).rpartition(".")
        names.setdefault(module, []).append(recorded)
    assert {module: " ".join(sorted(many)) for module, many in sorted(names.items())} == AS_RECORDED


def test_a_file_that_moved_without_its_name_changes_what_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    target = rk.files("/out")

    def step(orders: Any) -> Any:
        return orders, target, rk.seed, rk.RunOptions

    before = fingerprint.parts(step)
    monkeypatch.setattr(recorded_names, "_MODULES", {})
    assert fingerprint.parts(step) != before


def test_a_class_with_another_name_changes_what_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(orders: Any) -> Any:
        return orders, GcRules, Retention

    before = fingerprint.parts(step)
    monkeypatch.setattr(recorded_names, "_CLASSES", {})
    assert fingerprint.parts(step) != before
