"""gc of many runs, in parallel where the store is far away, and of what lies beside them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from rekindle.errors import StoreFailed
from rekindle.gc.audit_log import AuditLog
from rekindle.gc.collect_run import GcReport, GcRules, RunCollector
from rekindle.gc.collect_stream import StreamTargetCollector
from rekindle.gc.collect_target import GcTarget, TargetCollector
from rekindle.gc.inspect_run import look_at
from rekindle.gc.policy import Retention, RunCondition, is_ripe
from rekindle.gc.targets import noted_targets
from rekindle.journal.keys import find_identity, numbered, streams_of
from rekindle.publish.stream_entries import owner_of
from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.store import LEFTOVER_SECONDS, Store

# A run by pipeline, name and number.
Place = tuple[str, str, int]

# The store in which a target lies, by where its versions are.
OpenTarget = Callable[[str], Store]

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


def tend_targets(store: Store, pipeline: str, rules: GcRules, open_target: OpenTarget) -> Iterator[GcReport]:
    """Each target that runs of a pipeline published to."""
    bases, place = noted_targets(store, pipeline), find_identity(store, pipeline)
    if not bases or place is None:
        return
    now, over = store.now(), dict[int, bool]()

    def is_over(number: int) -> bool:
        if number not in over:
            run = numbered(store, pipeline, number)
            look = None if run is None else look_at(store, f"{pipeline}/{run}", now, rules.stale_seconds)
            over[number] = look is None or look.facts.found in (RunCondition.SUCCEEDED, RunCondition.CLOSED)
        return over[number]

    diary = AuditLog(store, pipeline, round(now * 1000))
    collector = TargetCollector(rules, diary, now, is_over)
    streams = StreamTargetCollector(rules, diary, now, streams_of(store, pipeline))
    for base in bases:
        target = open_target(base)
        if _is_of_stream(target):
            yield streams.tend(target, pipeline, base)
        else:
            yield collector.tend(target, GcTarget(pipeline=pipeline, place=place, base=base))


def _is_of_stream(target: Store) -> bool:
    """Of a store that fails nothing is known: whoever tends it says so, and the others are tended."""
    try:
        return owner_of(target) is not None
    except StoreFailed:
        return False


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
