"""What a second look at a run says, without Spark: three answers, and why."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import rekindle as rk
from doubles.verified_runs import NOTHING, Kept, digest_of, files, pipeline
from rekindle.api import verify_files
from rekindle.engine.verified import DamagedFile, DamageKind, PublishedFiles
from rekindle.failover.backoff import NoRestart
from rekindle.journal.keys import listed
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.master.state.run_state import RunState
from rekindle.model.kinds import Determinism, KeepUntil, ResultKind
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.observe.verified import ComparisonBasis, ComparisonResult, RunVerification
from rekindle.service.verifying import Sample, VerifiedRun, sampled
from rekindle.storage.stores import open_store

ONE_TRY = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(NoRestart())))
OTHER = b"other rows".ljust(24)
GONE = DamagedFile(DamageKind.MISSING, "g0/e1-a1/part-1_00001.parquet")
EQUAL, DIFFERENT, UNSURE = ComparisonResult.EQUAL, ComparisonResult.DIFFERENT, ComparisonResult.NOT_COMPARABLE


class World:
    """One location and one engine."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.kept = Kept()
        patch.setattr("rekindle.api.spark_adapter", lambda: self.kept)

    def run(self, **settings: Any) -> Kept:
        for name, value in settings.items():
            setattr(self.kept, name, value)
        try:
            pipeline().run("session", str(self.folder), options=ONE_TRY)
        except rk.RunFailed:
            assert self.kept.broken
        return self.kept

    def verify(self, step: str | None = None, sample: Sample = None) -> RunVerification:
        before = files(self.folder)
        found = pipeline().verify("session", str(self.folder), step, sample=sample)
        assert files(self.folder) == before, "nothing is written"
        return found

    def answers(
        self, step: str | None = None, sample: Sample = None
    ) -> dict[tuple[str, ComparisonBasis], tuple[ComparisonResult, str]]:
        return {(one.step, one.way): (one.answer, one.why) for one in self.verify(step, sample).judged}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def place_of(world: World) -> VerifiedRun:
    [run] = listed(open_store(str(world.folder)), "daily").values()
    return VerifiedRun("daily", run, str(world.folder), {}, lambda: "session")


def published(*lengths: int, by: int = 1) -> PublishedFiles:
    return PublishedFiles(
        "files /out", "file:/out/v1", tuple((f"part-{at}", size) for at, size in enumerate(lengths)), by
    )


def test_everything_as_it_was_is_equal(world: World) -> None:
    kept = world.run(target=published(100, 101, 102))
    assert world.answers() == {
        ("keyed", ComparisonBasis.FILES): (EQUAL, "3 partitions"),
        ("keyed", ComparisonBasis.AGAIN): (EQUAL, "4 partitions; 4 of 4 partitions recomputed"),
        ("scored", ComparisonBasis.FILES): (EQUAL, "3 partitions"),
        ("scored", ComparisonBasis.AGAIN): (EQUAL, "4 partitions; 4 of 4 partitions recomputed"),
        ("scored", ComparisonBasis.PUBLISHED): (EQUAL, "3 partitions"),
    }
    keyed, _, target = kept.looked
    assert keyed.folder.endswith("/results/keyed")
    assert keyed.files[1] == (1, "g0/e1-a1/part-1_00001.parquet", 101)
    assert target.files == ((0, "part-0", 100), (1, "part-1", 101), (2, "part-2", 102))


def test_other_rows_in_a_file_are_seen_and_the_reader_of_them_is_not_blamed(world: World) -> None:
    kept = world.run()
    kept.files["keyed", 1] = OTHER
    found = world.verify()
    judged = found.of("keyed", ComparisonBasis.FILES)
    assert judged is not None and judged.different == Partitions((1,))
    assert judged.details == (f"keyed[1] other rows: now {_rows(OTHER)}, recorded {_rows(digest_of('keyed', 1))}",)
    again = found.of("scored", ComparisonBasis.AGAIN)
    assert again is not None and again.answer is UNSURE
    assert again.why == "3 partitions; 3 of 4 partitions recomputed: it reads keyed[1], which is damaged"
    assert [(step, wanted) for step, wanted, _ in kept.asked] == [
        ("keyed", Partitions.first(4)),
        ("scored", Partitions((0, 2, 3))),
    ]


def _rows(digest: bytes) -> str:
    return f"{int.from_bytes(digest[:8]):,} rows, digest {digest.hex()}"


def test_a_file_with_a_fault_is_named_with_its_path(world: World) -> None:
    world.run().faults["scored", 1] = GONE
    judged = world.verify("scored").of("scored", ComparisonBasis.FILES)
    assert judged is not None and judged.details == (f"scored[1] the file is missing: {GONE.path}",)


def test_one_step_is_verified_with_the_files_of_what_it_is_made_from(world: World) -> None:
    world.run()
    assert list(world.answers("keyed")) == [("keyed", ComparisonBasis.FILES), ("keyed", ComparisonBasis.AGAIN)]
    world.kept.faults["keyed", 2] = GONE
    found = world.verify("scored")
    assert [(one.step, one.way) for one in found.judged][:2] == [
        ("keyed", ComparisonBasis.FILES),
        ("scored", ComparisonBasis.FILES),
    ]
    assert found.different(ComparisonBasis.FILES) == {"keyed": Partitions((2,))}


def test_without_digests_the_files_tell_little_and_what_is_made_again_all(world: World) -> None:
    """The control: other rows in a file without a digest are not seen by looking at it."""
    kept = world.run(digested=frozenset())
    kept.files["keyed", 1] = OTHER
    answers = world.answers()
    assert answers["keyed", ComparisonBasis.FILES][0] is UNSURE
    assert answers["keyed", ComparisonBasis.AGAIN][0] is DIFFERENT
    assert answers["scored", ComparisonBasis.AGAIN] == (
        UNSURE,
        "3 partitions; 3 of 4 partitions recomputed: it reads keyed[1], which is damaged",
    )


def test_what_is_made_again_and_differs_is_different(world: World) -> None:
    kept = world.run()
    kept.made["scored", 0] = OTHER
    kept.made["scored", 3] = OTHER
    found = world.verify()
    assert found.different(ComparisonBasis.AGAIN) == {"scored": Partitions((0, 3))}
    assert found.answer is DIFFERENT and found.is_over


@pytest.mark.parametrize("level", list(Determinism))
def test_how_far_a_step_is_trusted_is_said(world: World, level: Determinism) -> None:
    kept = world.run(level=level)
    kept.made["scored", 0] = OTHER
    answer, why = world.answers()["scored", ComparisonBasis.AGAIN]
    match level:
        case Determinism.INDETERMINATE:
            assert (answer, why) == (UNSURE, "it is indeterminate: the same input may give other rows")
            assert kept.asked == [], "nothing would follow from it"
        case Determinism.DETERMINATE:
            assert (answer, why) == (DIFFERENT, "scored[0] of 4 partitions; 4 of 4 partitions recomputed")
        case _:
            assert answer is DIFFERENT and f", {level.value}; " in why


def test_code_that_changed_and_inputs_that_are_gone_are_not_compared(world: World) -> None:
    kept = world.run(keep=KeepUntil.RUN_END)
    kept.code = "2"
    answers = world.answers()
    assert answers["keyed", ComparisonBasis.FILES] == (UNSURE, "its files were released")
    assert answers["keyed", ComparisonBasis.AGAIN][0] is EQUAL, "it reads a source, and its digests are in the journal"
    assert answers["scored", ComparisonBasis.AGAIN] == (UNSURE, "since the run, the code changed: 1 -> 2")
    kept.code = "1"
    assert world.answers()["scored", ComparisonBasis.AGAIN] == (UNSURE, "it reads keyed[0-3], which is released")


def test_what_was_released_without_a_digest_cannot_be_compared(world: World) -> None:
    world.run(keep=KeepUntil.RUN_END, digested=frozenset())
    answer, why = world.answers()["keyed", ComparisonBasis.AGAIN]
    assert (answer, why) == (EQUAL, "1 partition; 1 of 1 partitions recomputed"), "the one without rows"
    assert world.answers()["scored", ComparisonBasis.PUBLISHED][0] is UNSURE


def test_a_run_that_did_not_finish_is_verified_as_far_as_it_came(world: World) -> None:
    world.run(broken={"scored": 2})
    answers = world.answers()
    assert answers["scored", ComparisonBasis.FILES] == (EQUAL, "2 partitions")
    assert answers["scored", ComparisonBasis.AGAIN] == (EQUAL, "3 partitions; 3 of 3 partitions recomputed")
    assert ("scored", ComparisonBasis.PUBLISHED) not in answers and not world.verify().is_over


def test_what_lies_on_executors_has_no_files_and_nothing_is_made_from_it(world: World) -> None:
    world.run(kind=ResultKind.CACHING)
    answers = world.answers()
    assert answers["keyed", ComparisonBasis.FILES] == (UNSURE, "it is kept on executors, not in files")
    assert answers["keyed", ComparisonBasis.AGAIN][0] is EQUAL, "it reads a source, and its digests are in the journal"
    assert answers["scored", ComparisonBasis.AGAIN] == (
        UNSURE,
        "it reads keyed[0-3], which is kept on executors, not in files",
    )
    assert answers["scored", ComparisonBasis.FILES][0] is EQUAL


def test_a_step_that_fails_now_is_different(world: World) -> None:
    world.run(failure="ValueError: no such customer")
    answer, why = world.answers()["keyed", ComparisonBasis.AGAIN]
    assert answer is DIFFERENT and why.startswith("it fails now: ValueError: no such customer")


def test_bound_partitions_are_compared_as_a_whole(world: World) -> None:
    kept = world.run(whole={"scored": Determinism.DETERMINATE}, is_bound=True, level=Determinism.INDETERMINATE)
    exchanged = {("scored", 0): digest_of("scored", 1), ("scored", 1): digest_of("scored", 0)}
    kept.made |= exchanged
    answer, why = world.answers("scored", sample=1)["scored", ComparisonBasis.AGAIN]
    assert answer is EQUAL and why.startswith("all rows of 4 partitions, whose numbers hold in one Spark application")
    kept.made["scored", 1] = OTHER
    assert world.answers("scored")["scored", ComparisonBasis.AGAIN][0] is DIFFERENT
    kept.faults["keyed", 0] = GONE
    assert world.answers("scored")["scored", ComparisonBasis.AGAIN] == (UNSURE, "it reads keyed[0], which is damaged")


def test_a_target_that_holds_another_run_or_nothing(world: World) -> None:
    kept = world.run(target=PublishedFiles("files /out", "file:/out", None, 7))
    assert world.answers()["scored", ComparisonBasis.PUBLISHED] == (UNSURE, "files /out holds what run 7 published")
    kept.target = PublishedFiles("files /out", "file:/out", None, None)
    assert world.answers()["scored", ComparisonBasis.PUBLISHED] == (
        DIFFERENT,
        "files /out no longer holds a publication",
    )
    kept.target = published(100, 101)
    answer, why = world.answers()["scored", ComparisonBasis.PUBLISHED]
    assert answer is DIFFERENT and why == "files /out names 2 files with other lengths than those committed"
    kept.target = None
    assert world.answers()["scored", ComparisonBasis.PUBLISHED][0] is UNSURE


def test_damage_in_what_was_published(world: World) -> None:
    kept = world.run(target=published(100, 101, 102), keep=KeepUntil.RUN_END)
    kept.faults["scored", 1] = DamagedFile(DamageKind.UNREADABLE, "part-1", "bad page")
    found = world.verify()
    assert found.different(ComparisonBasis.PUBLISHED) == {"scored": Partitions((1,))}
    judged = found.of("scored", ComparisonBasis.PUBLISHED)
    assert judged is not None and judged.details == ("scored[1] the file cannot be read: part-1 (bad page)",)


def test_a_sample_is_made_again_and_no_more(world: World) -> None:
    kept = world.run()
    assert world.answers("keyed", sample=2)["keyed", ComparisonBasis.AGAIN] == (
        EQUAL,
        "2 partitions; 2 of 4 partitions recomputed",
    )
    assert len(kept.asked[-1][1]) == 2
    world.verify("keyed", sample=0.3)
    assert len(kept.asked[-1][1]) == 2, "a share is rounded up"
    _, wanted, inputs = kept.asked[-1]
    assert inputs == () and wanted <= Partitions.first(4)


@pytest.mark.parametrize("sample", [0, -1, 0.0, 1.5])
def test_a_sample_without_meaning_is_refused(world: World, sample: Sample) -> None:
    world.run()
    with pytest.raises(rk.Refused, match="is not valid"):
        world.verify(sample=sample)


def test_samples_reach_every_partition() -> None:
    pick, seen = random.Random(1), EMPTY
    for _ in range(100):
        chosen = sampled(Partitions.first(20), 0.1, pick)
        assert len(chosen) == 2
        seen = seen | chosen
    assert seen == Partitions.first(20)
    assert sampled(Partitions.first(3), 10, pick) == sampled(Partitions.first(3), None, pick) == Partitions.first(3)


def test_files_alone_need_no_pipeline(world: World) -> None:
    kept = world.run()
    place = place_of(world)
    found = verify_files(place, "keyed")
    assert [(one.step, one.way, one.answer) for one in found.judged] == [("keyed", ComparisonBasis.FILES, EQUAL)]
    kept.faults["keyed", 0] = GONE
    assert verify_files(place).answer is DIFFERENT


def test_what_a_living_run_released_meanwhile_is_no_damage(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state that was read first has partitions that the next look does not have any more."""
    kept = world.run()
    kept.faults["keyed", 0] = GONE
    assert world.answers()["keyed", ComparisonBasis.FILES][0] is DIFFERENT
    began = VerifiedRun.state(place_of(world))

    def later(place: VerifiedRun) -> RunState:
        keyed = replace(began.steps["keyed"], segments=())
        return replace(began, steps=began.steps | {"keyed": keyed})

    looks = iter([lambda place: began, later])
    monkeypatch.setattr(VerifiedRun, "state", lambda place: next(looks)(place))
    assert verify_files(place_of(world), "keyed").answer is EQUAL


def test_what_a_living_run_released_while_something_was_made_again_is_no_difference(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run(failure="the file is missing")
    assert world.answers()["scored", ComparisonBasis.AGAIN][0] is DIFFERENT
    began = VerifiedRun.state(place_of(world))
    gone = replace(began, steps=began.steps | {"keyed": replace(began.steps["keyed"], segments=())})
    looks = iter([began])
    monkeypatch.setattr(VerifiedRun, "state", lambda place: next(looks, gone))
    assert world.answers()["scored", ComparisonBasis.AGAIN] == (
        UNSURE,
        "it reads keyed[0-3], which was deleted meanwhile",
    )


def test_what_other_code_made_and_the_user_kept_is_not_compared(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.run()
    began = VerifiedRun.state(place_of(world))
    kept = replace(began.steps["scored"], accepted_stale=Partitions.first(4))
    monkeypatch.setattr(VerifiedRun, "state", lambda place: replace(began, steps=began.steps | {"scored": kept}))
    why = "other code computed it, and the user accepted the change"
    assert world.answers()["scored", ComparisonBasis.AGAIN] == (UNSURE, why)


def test_a_partition_or_an_unknown_step_is_refused(world: World) -> None:
    world.run()
    with pytest.raises(rk.Refused, match=r"keyed\[1\] is a partition.*\n.*pipeline\.verify\(…, 'keyed'\)"):
        world.verify("keyed[1]")
    with pytest.raises(rk.Refused, match="did you mean keyed"):
        world.verify("kyed")
    with pytest.raises(rk.Refused, match="orders has no result partitions"):
        world.verify("orders")


def test_the_digest_of_no_rows_stands_for_an_empty_partition(world: World) -> None:
    kept = world.run()
    kept.made["keyed", 3] = OTHER
    assert world.verify().different(ComparisonBasis.AGAIN) == {"keyed": Partitions((3,))}
    assert digest_of("keyed", 3) == NOTHING
