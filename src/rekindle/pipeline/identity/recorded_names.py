"""Names of Rekindle's own code in fingerprints: a file that moves keeps the name it had when it was first recorded.

A step may hold something of Rekindle's, such as a target or `rk.seed`, and what Spark is given is wrapped in classes of
ours. With another name for one of them, every step that has it would count as changed in the next release.
"""

from __future__ import annotations

_RECORDED = {
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


def recorded_module(module: str) -> str:
    """The name under which fingerprints know a module."""
    return _RECORDED.get(module, module)
