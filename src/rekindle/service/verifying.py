"""A second look at what a run keeps and published: are the files what was written, and would the same be made again?

Rules
- The journal is read and nothing is appended; nobody becomes the run's master. A living run may be looked at: what it
  released meanwhile is no damage.
- Files are compared with the names, lengths and digests of the journal. Without the pipeline's code that is all.
- Partitions are made again from what the run keeps now. Where that is gone, damaged or changed, nothing is compared,
  and it is said. Where no digest was kept, what is made is compared with the rows that the file has now.
- A step that is known to be indeterminate is not made again: nothing would follow from it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rekindle.engine.location import run_root
from rekindle.engine.verified import (
    FileCheck,
    PublishedFiles,
    RecomputedPartitions,
    StoredFiles,
    VerificationSetup,
    Verifier,
)
from rekindle.errors import Refused
from rekindle.journal.history import read
from rekindle.master.state.run_state import Phase, RunState, Segment
from rekindle.model.kinds import Determinism, FailureDomain
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.observe.show_words import brief
from rekindle.observe.verified import (
    ComparisonBasis,
    ComparisonResult,
    DigestComparison,
    RunVerification,
    StepVerification,
    difference,
    total,
)
from rekindle.observe.words import count_text
from rekindle.pipeline.identity.changes import describe_change
from rekindle.remedies import CommandRemedy
from rekindle.results import manifest
from rekindle.results.result_paths import RESULTS, directory_of
from rekindle.runtime.counted import commits_of, last_counted
from rekindle.runtime.opening import RunConstants, codec
from rekindle.service.reproducing import inputs_of, refuse_fused, refuse_other_graph, run_of, state_of_run
from rekindle.service.running import RunRequest, wanted_of
from rekindle.service.vertices import vertex_of
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store

VERIFY = partial(CommandRemedy, "verify", "", "")
NO_DIGEST = "no digest was recorded; names, lengths and Parquet checksums are correct"
NOT_READ = "its schema has a type without a digest; names and lengths are correct, and no file was read"
ON_EXECUTORS = "kept on executors, not in files"
NOTHING = FileCheck({}, {})

# How many partitions of each step are made again: so many, such a share of them, or all.
Sample = int | float | None


@dataclass(frozen=True, slots=True)
class VerifiedRun:
    """A run, where it lies, and what reads it: `session` is one of the engine's, or a function that gives one."""

    pipeline: str
    run: str
    location: str
    storage: Mapping[str, str]
    session: Any

    @property
    def store(self) -> Store:
        return open_store(self.location, self.storage)

    def state(self) -> RunState:
        return state_of_run(self.store, self.pipeline, self.run)

    def opened(self) -> Any:
        return self.session() if callable(self.session) else self.session


def verify(wish: RunRequest, make: Callable[[], Verifier], step: str | None, sample: Sample) -> RunVerification:
    """Files, rows made again, and what was published, of one kept step or of all."""
    _refuse_sample(sample)
    place = VerifiedRun(wish.pipeline, run_of(wish.store, wish), wish.location, wish.options.storage, wish.session)
    state = place.state()
    if step is not None:
        refuse_fused(wish, state, step)
    chosen = _chosen(state, step)
    looking = _look(place, state, make)
    bench = looking.engine.bench(looking.session, wanted_of(wish, state.run, state.order, RunConstants.of(state)))
    refuse_other_graph(state, bench.spec.graph)
    judged = looking.files(_with_inputs(state, chosen))
    for name in chosen:
        judged.append(looking.again(bench, name, sample))
        if name in state.published:
            judged.append(looking.published(bench, name))
    return _verified(state, judged)


def verify_files(place: VerifiedRun, make: Callable[[], Verifier], step: str | None) -> RunVerification:
    """The stored files alone, without the pipeline's code."""
    state = place.state()
    chosen = _chosen(state, step)
    return _verified(state, _look(place, state, make).files(chosen))


def _verified(state: RunState, judged: list[StepVerification]) -> RunVerification:
    order = list(state.steps)
    judged.sort(key=lambda one: order.index(one.step))
    is_given_up = state.gave_up_for_good is not None
    return RunVerification(state.pipeline, state.run, state.phase is Phase.SUCCEEDED or is_given_up, tuple(judged))


def _look(place: VerifiedRun, state: RunState, make: Callable[[], Verifier]) -> _Looking:
    last = last_counted(read(place.store, f"{place.pipeline}/{place.run}", codec()).events)
    return _Looking(place=place, state=state, engine=make(), session=place.opened(), last=last)


def _chosen(state: RunState, step: str | None) -> list[str]:
    if step is None:
        return list(state.steps)
    name, partition = vertex_of(state, step, state.run, lambda vertex: VERIFY(vertex.partition("[")[0]))
    if partition is not None:
        raise Refused(f"{step} is a partition; verify works on whole steps", VERIFY(name))
    return [name]


def _with_inputs(state: RunState, chosen: list[str]) -> list[str]:
    """Also what these are made from: whatever is damaged there would be blamed on them."""
    wanted = {one for name in chosen for one in (name, *state.layout.producers[name])}
    return [name for name in state.steps if name in wanted]


def _refuse_sample(sample: Sample) -> None:
    is_share = isinstance(sample, float)
    if sample is not None and not (0 < sample <= 1 if is_share else sample >= 1):
        raise Refused(f"a sample of {sample} is not valid", "a number of partitions, or a share such as 0.1")


def sampled(among: Partitions, sample: Sample, pick: random.Random) -> Partitions:
    """Those to make again, chosen by chance: who asks every night will have seen all of them one day."""
    if sample is None:
        return among
    count = sample if isinstance(sample, int) else math.ceil(sample * len(among))
    return Partitions(pick.sample(list(among), min(count, len(among))))


@dataclass(slots=True, kw_only=True)
class _Looking:
    """One pass over a run. `last` is what counted last of each step; `found` what the files of a step hold now;
    `suspect` are partitions that are not what they were."""

    place: VerifiedRun
    state: RunState
    engine: Verifier
    session: Any
    last: Mapping[str, tuple[Segment, ...]]
    found: dict[str, FileCheck] = field(default_factory=dict)
    suspect: dict[str, Partitions] = field(default_factory=dict)

    def files(self, steps: Iterable[str]) -> list[StepVerification]:
        judged = [self._files(name) for name in steps]
        self.suspect |= {one.step: one.different for one in judged}
        return judged

    def _files(self, name: str) -> StepVerification:
        segments = self.state.steps[name].segments
        if not segments:
            why = "its files were released" if self.last.get(name) else "no partition of it is committed"
            return StepVerification(
                step=name, way=ComparisonBasis.FILES, answer=ComparisonResult.NOT_COMPARABLE, why=why
            )
        if not self._is_in_files(name):
            return StepVerification(
                step=name,
                way=ComparisonBasis.FILES,
                answer=ComparisonResult.NOT_COMPARABLE,
                why=f"it is {ON_EXECUTORS}",
            )
        kept = [(one, commit) for one, commit in commits_of(segments) if commit.has_rows]
        below = f"{RESULTS}/{name}/"
        paths = [f"{directory_of(one.attempt)}/{commit.name}".removeprefix(below) for one, commit in kept]
        stored = StoredFiles(
            f"{run_root(self.place.location, self.place.pipeline, self.place.run)}/{RESULTS}/{name}",
            tuple((commit.partition, path, commit.bytes) for (_, commit), path in zip(kept, paths, strict=True)),
            manifest.schema_of(segments[0].manifest),
        )
        looked = self.engine.look(self.session, stored)
        left = self._left(name) & Partitions(looked.faults) if looked.faults else EMPTY
        faults = {number: fault for number, fault in looked.faults.items() if number not in left}
        self.found[name] = replace(looked, faults=faults)
        known = {commit.partition: one.digests.digest(commit.partition) for one, commit in kept}
        wanted = {number: digest for number, digest in known.items() if number not in left}
        return _judged(name, ComparisonBasis.FILES, wanted, self.found[name])

    def _is_in_files(self, name: str) -> bool:
        return self.state.layout.graph.steps[name].kind.survives(FailureDomain.APPLICATION)

    def _left(self, name: str) -> Partitions:
        """What stopped to count, or counts with another file, since this pass began."""
        now = {commit.partition: one.attempt for one, commit in commits_of(self.place.state().steps[name].segments)}
        before = commits_of(self.state.steps[name].segments)
        return Partitions(commit.partition for one, commit in before if now.get(commit.partition) != one.attempt)

    def again(self, bench: VerificationSetup, name: str, sample: Sample) -> StepVerification:
        """Made again, as far as it can be compared."""
        known = self._known(name)
        every = Partitions(known)
        hindered, because = self._hindered(name, every)
        vouched = self.state.steps[name].accepted_stale & every
        because = because or ("other code computed it, and the user accepted the change" if vouched else "")
        is_whole = name in bench.whole
        free = every - hindered - vouched
        if is_whole and free != self.state.layout.graph.whole[name]:
            free, because = EMPTY, because or "it can only be recomputed as a whole, and not all of it can be compared"
        if why := self._cannot(bench, name) or ("" if free else because or "it has neither a digest nor a file"):
            return StepVerification(
                step=name, way=ComparisonBasis.AGAIN, answer=ComparisonResult.NOT_COMPARABLE, why=why
            )
        chosen = free if is_whole else sampled(free, sample, random.Random())
        made = bench.again(name, chosen, tuple(inputs_of(self.state, name, chosen)))
        if made.failure and (gone := self._gone_meanwhile(name, chosen)):
            return StepVerification(
                step=name,
                way=ComparisonBasis.AGAIN,
                answer=ComparisonResult.NOT_COMPARABLE,
                why=f"it reads {gone}, which was deleted meanwhile",
            )
        judged = _compared(name, made, chosen, known)
        self._suspect_files(name, judged.different)
        return _told(judged, self._level(bench, name), f"{len(chosen):,} of {len(every):,}", because)

    def _gone_meanwhile(self, name: str, chosen: Partitions) -> str:
        """What of its inputs a living run released or made again since this pass began."""
        reads = self.state.layout.read_by(name, chosen)
        left = {producer: read & self._left(producer) for producer, read in reads.items()}
        return ", ".join(f"{producer}[{brief(gone)}]" for producer, gone in left.items() if gone)

    def _known(self, name: str) -> dict[int, bytes | None]:
        """The digest of every partition that counted last: the journal's or, of a file without one, what it holds now;
        None for one without rows. What has none of these cannot be compared."""
        now = self.found.get(name, NOTHING).digests
        known: dict[int, bytes | None] = {}
        for segment, commit in commits_of(self.last.get(name, ())):
            digest = segment.digests.digest(commit.partition) or now.get(commit.partition)
            if digest is not None or not commit.has_rows:
                known[commit.partition] = digest
        return known

    def _hindered(self, name: str, wanted: Partitions) -> tuple[Partitions, str]:
        """Those that cannot be made again, because what they read is not there, or is not what it was."""
        layout, hit, because = self.state.layout, EMPTY, ""
        for producer, reads in layout.read_by(name, wanted).items():
            kept = self.state.steps[producer]
            gone, bad = reads - kept.available, reads & self.suspect.get(producer, EMPTY)
            held = EMPTY if self._is_in_files(producer) else reads - gone
            what = "released" if gone <= kept.released else "not there"
            for found, word in ((gone, what), (bad, "damaged"), (held, ON_EXECUTORS)):
                if found:
                    hit = hit | (layout.readers_of(producer, found).get(name, EMPTY) & wanted)
                    because = because or f"it reads {producer}[{brief(found)}], which is {word}"
        return hit, because

    def _cannot(self, bench: VerificationSetup, name: str) -> str:
        """Why it would say nothing if the step were made again."""
        if self._level(bench, name) is Determinism.INDETERMINATE:
            return "it is indeterminate: the same input may give other rows"
        changes = describe_change(self.state.spec.fingerprints.get(name, {}), bench.spec.fingerprints[name])
        return f"since the run, {'; '.join(changes)}" if changes else ""

    def _level(self, bench: VerificationSetup, name: str) -> Determinism:
        """The worst of the step's group; of one that is made whole, that of all its rows."""
        if name in bench.whole:
            return bench.whole[name]
        graph = self.state.layout.graph
        found = [graph.steps[one].determinism for one in self.state.layout.members(name)]
        found += [graph.exchanges[one].determinism for one in graph.groups[name].exchanges]
        return max(found, key=list(Determinism).index)

    def _suspect_files(self, name: str, different: Partitions) -> None:
        """Where no digest is kept, the file may be the wrong one of the two."""
        segments = self.state.steps[name].segments
        unknown = Partitions(
            commit.partition for one, commit in commits_of(segments) if one.digests.digest(commit.partition) is None
        )
        self.suspect[name] = self.suspect.get(name, EMPTY) | (different & unknown)

    def published(self, bench: VerificationSetup, name: str) -> StepVerification:
        """What the target holds of this run."""
        target = bench.published(name, self.state.order)
        if target is None or target.files is None:
            return _not_there(name, target)
        if target.is_written_again:
            why = f"{target.shown} was written from the kept rows: its files are not those that are kept"
            return StepVerification(
                step=name, way=ComparisonBasis.PUBLISHED, answer=ComparisonResult.NOT_COMPARABLE, why=why
            )
        kept = [(one, commit) for one, commit in commits_of(self.last.get(name, ())) if commit.has_rows]
        kept.sort(key=lambda row: row[1].partition)
        if [length for _, length in target.files] != [commit.bytes for _, commit in kept]:
            why = (
                f"{target.shown} names {count_text(len(target.files), 'file')} with other lengths than those committed"
            )
            return StepVerification(
                step=name, way=ComparisonBasis.PUBLISHED, answer=ComparisonResult.DIFFERENT, why=why
            )
        files = tuple((commit.partition, *file) for (_, commit), file in zip(kept, target.files, strict=True))
        schema = manifest.schema_of(self.last[name][0].manifest) if kept else ""
        looked = self.engine.look(self.session, StoredFiles(target.folder, files, schema)) if kept else NOTHING
        wanted = {commit.partition: one.digests.digest(commit.partition) for one, commit in kept}
        return _judged(name, ComparisonBasis.PUBLISHED, wanted, looked)


def _judged(name: str, way: ComparisonBasis, wanted: Mapping[int, bytes | None], looked: FileCheck) -> StepVerification:
    faults = {
        number: f"{fault.damage.value}: {fault.path}{f' ({fault.said})' if fault.said else ''}"
        for number, fault in looked.faults.items()
    }
    return DigestComparison(wanted, looked.digests, faults).judge(name, way, NO_DIGEST if looked.is_read else NOT_READ)


def _compared(
    name: str, made: RecomputedPartitions, chosen: Partitions, known: Mapping[int, bytes | None]
) -> StepVerification:
    if made.failure:
        return StepVerification(
            step=name,
            way=ComparisonBasis.AGAIN,
            answer=ComparisonResult.DIFFERENT,
            why=f"it fails now: {made.failure}",
            different=chosen,
        )
    if not made.nothing:
        return StepVerification(
            step=name,
            way=ComparisonBasis.AGAIN,
            answer=ComparisonResult.NOT_COMPARABLE,
            why="its schema has a type without a digest",
        )
    wanted = {number: known[number] or made.nothing for number in chosen}
    if made.is_bound:
        return _as_a_whole(name, made, wanted)
    found = {number: made.digests.get(number, made.nothing) for number in chosen}
    return DigestComparison(wanted, found, {}).judge(name, ComparisonBasis.AGAIN, "no digest was recorded")


def _as_a_whole(name: str, made: RecomputedPartitions, wanted: Mapping[int, bytes]) -> StepVerification:
    """All rows against all rows: the numbers mean nothing in another application."""
    before, now = total(wanted.values(), made.nothing), total(made.digests.values(), made.nothing)
    of = f"all rows of {count_text(len(wanted), 'partition')}, whose numbers hold in one Spark application only"
    if before == now:
        return StepVerification(step=name, way=ComparisonBasis.AGAIN, answer=ComparisonResult.EQUAL, why=of)
    return StepVerification(
        step=name,
        way=ComparisonBasis.AGAIN,
        answer=ComparisonResult.DIFFERENT,
        why=of,
        different=Partitions(wanted),
        details=(difference(before, now),),
    )


def _told(judged: StepVerification, level: Determinism, made: str, because: str) -> StepVerification:
    """With how many were made, what could not be, and how far the step is trusted."""
    doubt = "" if level is Determinism.DETERMINATE else f", {level.value}"
    why = f"{judged.why}{doubt}; {made} partitions recomputed{f': {because}' if because else ''}"
    is_partly = bool(because) and judged.answer is ComparisonResult.EQUAL
    return replace(judged, why=why, answer=ComparisonResult.NOT_COMPARABLE if is_partly else judged.answer)


def _not_there(name: str, target: PublishedFiles | None) -> StepVerification:
    if target is None:
        return StepVerification(
            step=name,
            way=ComparisonBasis.PUBLISHED,
            answer=ComparisonResult.NOT_COMPARABLE,
            why="the pipeline no longer publishes it",
        )
    if target.by is None:
        return StepVerification(
            step=name,
            way=ComparisonBasis.PUBLISHED,
            answer=ComparisonResult.DIFFERENT,
            why=f"{target.shown} no longer holds a publication",
        )
    return StepVerification(
        step=name,
        way=ComparisonBasis.PUBLISHED,
        answer=ComparisonResult.NOT_COMPARABLE,
        why=f"{target.shown} holds what run {target.by} published",
    )
