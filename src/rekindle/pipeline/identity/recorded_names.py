"""Names of Rekindle's own code in fingerprints: a file that moves and a class that is renamed keep the name they had
when they were first recorded.

A step may hold something of Rekindle's, such as a target or `rk.seed`, and what Spark is given is wrapped in classes of
ours. With another name for one of them, every step that has it would count as changed in the next release.
"""

from __future__ import annotations

_MODULES = {
    "rekindle.engine.spark.plan.given": "rekindle.engine.spark.script",
    "rekindle.engine.spark.plan.packed": "rekindle.engine.spark.packed",
    "rekindle.gc.collect_run": "rekindle.runtime.janitor.tend",
    "rekindle.gc.policy": "rekindle.failover.waste",
    "rekindle.gc.remover": "rekindle.runtime.janitor.remover",
    "rekindle.master.facts.config": "rekindle.master.config",
    "rekindle.pipeline.constants": "rekindle.engine.constants",
    "rekindle.pipeline.identity.pickle_reader": "rekindle.engine.pickled",
    "rekindle.publish.directory": "rekindle.engine.targets",
    "rekindle.publish.files": "rekindle.engine.targets",
    "rekindle.publish.replace": "rekindle.engine.targets",
    "rekindle.publish.table": "rekindle.engine.targets",
    "rekindle.runtime.watcher": "rekindle.runtime.loop",
    "rekindle.service.options": "rekindle.runtime.options",
}
_CLASSES = {
    "rekindle.engine.spark.plan.given.FrameCode": "Given",
    "rekindle.engine.spark.plan.packed.PackedFunction": "Packed",
    "rekindle.gc.collect_run.GcRules": "Rules",
    "rekindle.gc.policy.Retention": "Terms",
    "rekindle.pipeline.identity.pickle_reader.UnbuiltObject": "Made",
}


def recorded_name(module: str, name: str) -> str:
    """The full name under which fingerprints know a class or a function; `name` is its qualified name in its module."""
    outer, dot, inner = name.partition(".")
    return f"{_MODULES.get(module, module)}.{_CLASSES.get(f'{module}.{outer}', outer)}{dot}{inner}"
