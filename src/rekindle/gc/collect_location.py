"""gc of many runs, in parallel where the store is far away, and of what lies beside them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from rekindle.gc.collect_run import GcReport, GcRules, RunCollector
from rekindle.gc.policy import Retention, is_ripe
from rekindle.storage.local_disk import LEFTOVER_SECONDS, LocalDisk
from rekindle.storage.store import Store

# A run by pipeline, name and number.
Place = tuple[str, str, int]

# What the clock and the probe of a process that died left at the location.
SCRATCH = ("_clock/", "_probe/")


def tend_all(store: Store, places: Sequence[Place], rules: GcRules) -> Iterator[GcReport]:
    """Each run in turn. One that fails is told of in its report and stops no other."""
    janitors = {
        pipeline: RunCollector(store, pipeline, rules) for pipeline in dict.fromkeys(place[0] for place in places)
    }

    def tend(place: Place) -> GcReport:
        pipeline, run, number = place
        return janitors[pipeline].tend(run, number)

    yield from _each(store, tend, places, rules.limits.parallel)
    for janitor in janitors.values():
        janitor.forget_old()


def _each(
    store: Store, tend: Callable[[Place], GcReport], places: Sequence[Place], parallel: int
) -> Iterator[GcReport]:
    """In order; no more are begun than can be worked at."""
    if isinstance(store, LocalDisk) or parallel < 2:
        yield from map(tend, places)
        return
    with ThreadPoolExecutor(parallel, "rekindle-gc") as pool:
        begun: deque[Future[GcReport]] = deque()
        for place in places:
            begun.append(pool.submit(tend, place))
            if len(begun) > 2 * parallel:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def tidy_location(store: Store, terms: Retention) -> int:
    """Remove what processes that died left beside the pipelines; how many objects. A young one may be in use."""
    now, count = store.now(), 0
    for folder in SCRATCH:
        for page in store.walk(folder):
            ages = {entry.name: now - entry.modified for entry in page}
            old = [name for name, age in ages.items() if age > LEFTOVER_SECONDS and is_ripe(age * 1000, terms)]
            for name in old:
                store.delete(folder + name)
            count += len(old)
    return count
