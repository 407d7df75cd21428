"""A run that is done and asked for again: is what it published still what it would publish now?

Rules
- Being done is decided by the key alone: nothing is computed or published again because of what is found here. It is
  said, with the parts that differ, and what to type.
- The code of the steps is compared always: that needs no engine, so that a scheduler that asks again pays nothing.
- Inputs, plans and settings are compared where a session is given and no step is eager: the pipeline is prepared for
  it, no Spark job is started. Where that fails, it is said that it could not be compared.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping

from rekindle.engine.adapter import PreparedPipeline
from rekindle.master.facts.run_spec import Fingerprint
from rekindle.master.rules.opening import changed_parts
from rekindle.master.state.run_state import RunState
from rekindle.observe.words import UNCOMPARED
from rekindle.pipeline.declared import Declared
from rekindle.pipeline.identity.changes import describe_change
from rekindle.pipeline.identity.fingerprint import parts

PYTHON = "python"
# What can be told from a function alone, and compared with what another process told.
CODE = frozenset({"code", "helper", "constant", "closure", "default", "package"})


def differences(
    steps: Iterable[Declared], known: RunState, prepare: Callable[[], PreparedPipeline] | None
) -> tuple[str, ...]:
    """What is not as it was when the run published; a sentence each. `prepare` is None where there is no session."""
    declared = tuple(steps)
    found = _of_code(declared, known)
    if prepare is None or any(step.is_eager for step in declared):
        return found
    try:
        prepared = prepare()
    except Exception as error:
        why = next(iter(str(error).splitlines()), type(error).__name__)
        return (*found, f"{UNCOMPARED}: {why}")
    prepared.engine.close()
    return _of_all(known, prepared)


def _of_all(known: RunState, prepared: PreparedPipeline) -> tuple[str, ...]:
    graph = known.spec.graph.difference(prepared.spec.graph)
    found = [f"the graph: {graph}"] if graph else []
    for step, new in prepared.spec.fingerprints.items():
        found += _sentences(step, known.spec.fingerprints.get(step, {}), new)
    return tuple(dict.fromkeys(found))


def _of_code(steps: Iterable[Declared], known: RunState) -> tuple[str, ...]:
    """By step: which steps were fused into which is not known without an engine, and does not matter."""
    old: dict[str, Fingerprint] = {}
    for fingerprint in known.spec.fingerprints.values():
        for part, value in fingerprint.items():
            step, _, rest = part.partition(".")
            if rest.partition(":")[0] in CODE:
                python = {PYTHON: fingerprint[PYTHON]} if PYTHON in fingerprint else {}
                old.setdefault(step, python)[part] = value
    found = []
    for one in steps:
        if (was := old.pop(one.name, None)) is not None:
            told = {f"{one.name}.{part}": value for part, value in parts(one.function).items()}
            now = {part: value for part, value in told.items() if part.partition(".")[2].partition(":")[0] in CODE}
            found += _sentences(one.name, was, now | ({PYTHON: platform.python_version()} if PYTHON in was else {}))
    return tuple(dict.fromkeys((*found, *(f"the step {step} is gone" for step in old))))


def _sentences(step: str, old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Nothing where another Python compiles the same code to something else."""
    return [f"{step}: {told}" for told in describe_change(old, new)] if changed_parts(dict(old), dict(new)) else []
