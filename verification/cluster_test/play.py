"""The shop on the stage, and what Spark's event logs say that ran of it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import stage as parts
from cluster_test.driver import Answer, Order
from rekindle.model.partitions import Partitions
from support.eventlog import Kind

HERE = Path(__file__).parent
SHOP = parts.Play(HERE / "driver.py", HERE / "user_pipeline.py", Order, Answer)
Stage = parts.Stage[Order, Answer]
Session = parts.Session[Order, Answer]
Figures = dict[str, int | float | str]
STEPS = ("scored", "people", "enriched", "by_product", "report", "ledger")
N = 64
Ran = dict[str, Partitions]
# What bare Spark made of some code and some input, and on which stages that was the right output.
_MADE: dict[tuple[str, str], dict[str, str]] = {}
_RIGHT: defaultdict[Path, list[dict[str, str]]] = defaultdict(list)


def bare(stage: Stage, session: Session) -> dict[str, str]:
    """The digests of what bare Spark makes of a session's code and the input as it lies now. It is computed once: the
    same code over the same input gives the same on every stage."""
    files = sorted((str(path.relative_to(stage.input)), path.stat().st_size) for path in stage.input.rglob("*.parquet"))
    key = session.user_code.read_text(), str(files)
    if key not in _MADE:
        _MADE[key] = session.do(Order("plain", is_bare=True)).digests
    _RIGHT[stage.folder].append(_MADE[key])
    return _MADE[key]


def right_outputs(stage: Stage) -> list[dict[str, str]]:
    """All that was asked for on this stage."""
    return _RIGHT[stage.folder]


def finals(session: Session, order: str) -> Ran:
    """The result partitions whose final Spark task was launched for one order, by step, from Spark's event log. What
    the driver printed only tells which partition a task of a pruned job stands for."""
    return _by_step((step, number) for step, number, _ in _final_tasks(session, order))


def finished(session: Session, order: str, until_ms: float = math.inf) -> Ran:
    """Those of them that ended well, by then."""
    tasks = _final_tasks(session, order)
    return _by_step((step, number) for step, number, ms in tasks if ms is not None and ms <= until_ms)


def _by_step(found: Iterable[tuple[str, int]]) -> Ran:
    numbers: dict[str, set[int]] = {}
    for step, number in found:
        numbers.setdefault(step, set()).add(number)
    return {step: Partitions(some) for step, some in numbers.items()}


def again(session: Session, order: str) -> dict[str, int]:
    """Final Spark tasks that ended well although one of the same result partition had, by step."""
    found: Counter[tuple[str, int]] = Counter()
    for step, number, ended_ms in _final_tasks(session, order):
        found[step, number] += ended_ms is not None
    twice: Counter[str] = Counter()
    for (step, _), count in found.items():
        twice[step] += max(0, count - 1)
    return dict(+twice)


def _final_tasks(session: Session, order: str) -> Iterator[tuple[str, int, int | None]]:
    """Step, partition, and when it ended well, if it did."""
    text = section(session.driver.text(), order)
    asked = parts.opened(text)
    for tag, tasks in parts.tagged(session.log(), "rekindle-", run_of(text)).items():
        for task in tasks:
            if task.kind is Kind.RESULT:
                yield tag.split("-")[1], asked[tag][task.partition], task.finished_ms if task.is_success else None


def section(text: str, order: str) -> str:
    """What a driver said while it worked on one order; the last time, if it was asked twice."""
    after = text.rsplit(f"order {order}\n", 1)
    return after[1].split("\norder ", 1)[0] if len(after) == 2 else ""


def run_of(text: str) -> str:
    """The run's name, from the line that the driver prints when it starts an attempt."""
    found = [line.split()[1] for line in text.splitlines() if line.startswith("run ")]
    return found[-1] if found else "no run"


def shown(ran: Ran) -> dict[str, str]:
    return {step: str(ran[step]) for step in STEPS if ran.get(step)}


def whole(*steps: str) -> dict[str, str]:
    return dict.fromkeys(steps, f"0-{N - 1}")
