"""Results of earlier runs that a new run would compute again: which, and their files for it.

Rules
- What is the same is decided by the core (`master/rules/reuse.py`). The newest run that has anything gives all of it.
- A run has files of its own: what it reuses is linked or copied to it before its journal names it. So nobody shares a
  file, and neither run keeps anything for the other.
- A file that is gone by then is computed, and whatever was made from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from rekindle.engine.adapter import FileCopy
from rekindle.errors import RekindleError
from rekindle.journal.keys import last_claims, listed
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.facts.stimuli import ReusedResult
from rekindle.master.rules.opening import attempts_of
from rekindle.master.rules.reuse import reusable
from rekindle.master.state.graph_index import GraphIndex
from rekindle.master.state.run_state import RunState
from rekindle.results.manifest import joined, with_rows
from rekindle.results.result_paths import directory_of
from rekindle.runtime.opening import peek
from rekindle.storage.store import Store

EARLIER_RUNS_MAX = 5


@dataclass(frozen=True, slots=True)
class EarlierResults:
    """What a run can give: of each step its result, in the order of the steps, and why it gives no other; `run` is its
    name."""

    run: str
    state: RunState
    results: tuple[ReusedResult, ...]
    not_given: Mapping[str, str]

    def without(self, lost: Iterable[str], spec: RunSpec) -> EarlierResults:
        """Without these steps, and without all that was made from them."""
        gone, upstream = set(lost), GraphIndex(spec.graph).upstream
        left = tuple(one for one in self.results if gone.isdisjoint(upstream[one.step]))
        return replace(self, results=left)

    def copies(self, root: str) -> Iterator[tuple[str, FileCopy]]:
        """Step and file, from its place below the root of the earlier run to the one below the root of the new one."""
        for attempt, one in attempts_of(self.results).items():
            for segment in self.state.steps[one.step].segments:
                for commit in with_rows(segment.manifest, segment.partitions):
                    source = f"{root}/{directory_of(segment.attempt)}/{commit.name}"
                    yield one.step, FileCopy(source, commit.bytes, f"{directory_of(attempt)}/{commit.name}")


def find(store: Store, pipeline: str, run: str, key: Mapping[str, str], spec: RunSpec) -> EarlierResults | None:
    """The newest run that has something; None if none of the last ones does."""
    same_key = last_claims(store, pipeline, key, EARLIER_RUNS_MAX + 1)
    names = [(number, name) for number, name in listed(store, pipeline).items() if name != run]
    for number, name in list(reversed(names))[:EARLIER_RUNS_MAX]:
        try:
            state = peek(store, pipeline, name)
        except RekindleError:
            continue  # Another run's trouble is none of this one's.
        if state is None:
            continue
        found = _given(number, name, state, spec, has_same_key=name in same_key)
        if found.results:
            return found
    return None


def _given(number: int, run: str, state: RunState, spec: RunSpec, *, has_same_key: bool) -> EarlierResults:
    """What this run can give: of what is the same, all whose files can stand in the directory of one attempt."""
    reasons = reusable(spec, state, has_same_key=has_same_key)
    made = {name: joined(state.steps[name].segments) for name, why in reasons.items() if not why}
    results = tuple(
        ReusedResult(
            step=name,
            number=number,
            partitions=state.steps[name].committed,
            manifest=whole[0],
            digests=whole[1],
            size_bytes=whole[2],
            rows=state.size_of(name).rows,
        )
        for name, whole in made.items()
        if whole is not None
    )
    given = EarlierResults(run, state, results, {name: why for name, why in reasons.items() if why})
    return given.without((name for name, whole in made.items() if whole is None), spec)
