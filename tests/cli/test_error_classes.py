"""Every error class is met by a user here, for real: what leads to it, its code, what it says, what to type next, and
how the command ends. A class that has no row fails the last test."""

from __future__ import annotations

import errno
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from pyspark.sql import SparkSession

import rekindle
from doubles.stores import IgnoresConditions
from doubles.user import PIPELINE, Typed
from doubles.user import user as user  # A user without Spark.
from rekindle import errors
from rekindle.cli.boundary import ExitCode, guarded
from rekindle.engine.adapter import PreparedPipeline, PrepareRequest
from rekindle.engine.spark.plan.group import GroupSpec
from rekindle.engine.spark.plan.sources import pin
from rekindle.engine.spark.run.engine import refuse_change
from rekindle.errors import SparkDied
from rekindle.journal import keys
from rekindle.journal.history import Position, folder_of, read
from rekindle.journal.journal import Journal
from rekindle.journal.keys import listed
from rekindle.journal.owner import Owner
from rekindle.master.facts import stimuli as st
from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.facts.run_spec import RunSpec
from rekindle.master.state import commands as cmd
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.kinds import FailureDomain
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.model.parts import Parts
from rekindle.runtime.opening import close, codec
from rekindle.service import running
from rekindle.storage.memory import MemoryStore
from rekindle.storage.store import Put
from rekindle.storage.stores import open_store
from rekindle.testing.drawing import draw
from support.instant import Broken, Deaf, Instant, InstantEngine

ROWS: dict[type[errors.RekindleError], Row] = {}


@dataclass(frozen=True, slots=True)
class Scene:
    """What a situation can use."""

    user: Typed
    folder: Path
    patch: pytest.MonkeyPatch
    request: pytest.FixtureRequest

    @property
    def journal(self) -> list[Path]:
        """The records of the only run, oldest first."""
        (folder,) = self.folder.glob("daily/*/journal")
        return sorted(folder.iterdir())


Lead = Callable[[Scene], int]


@dataclass(frozen=True, slots=True)
class Row:
    """How a user gets there, and what they are told. `lead` gives the exit code of the last command."""

    lead: Lead
    says: str
    then: str
    code: ExitCode


def leads_to(
    kind: type[errors.RekindleError], says: str, then: str, code: ExitCode = ExitCode.REFUSED
) -> Callable[[Lead], Lead]:
    def note(lead: Lead) -> Lead:
        assert kind not in ROWS
        ROWS[kind] = Row(lead, says, then, code)
        return lead

    return note


@leads_to(errors.Refused, "clean is pipelined into counted", "rekindle run --accept-change counted --location")
def a_word_for_a_fused_step(scene: Scene) -> int:
    return scene.user.types("run", "--accept-change", "clean")


@leads_to(errors.ConfigRefused, "there is no setting failover.stratgy", "did you mean failover.strategy")
def a_setting_that_is_misspelt(scene: Scene) -> int:
    return scene.user.types("run", "--set", "failover.stratgy=full")


@leads_to(errors.NotFound, "no run of daily can be resumed", "start one: rekindle run --location")
def nothing_to_resume(scene: Scene) -> int:
    return scene.user.types("resume")


@leads_to(errors.GraphRefused, "ordres of clean is neither a step of this", "correct the line that is named")
def an_input_that_is_misspelt(scene: Scene) -> int:
    file = scene.user._file
    file.write_text(PIPELINE.replace("def clean(orders)", "def clean(ordres)"))
    return scene.user.types("plan")


@leads_to(errors.ParameterRefused, "nothing in this pipeline asks for the parameter dya", "did you mean day?")
def a_parameter_that_is_misspelt(scene: Scene) -> int:
    return scene.user.types("run", "--param", "dya=monday")


@leads_to(errors.StreamFound, "daily is a stream, and only a pipeline that ends is rehearsed", "read it as a batch")
def a_stream_that_is_rehearsed_as_a_batch(scene: Scene) -> int:
    scene.request.getfixturevalue("spark")
    scene.patch.undo()
    stream = PIPELINE.replace(
        'def orders(spark, day="today"): ...',
        'def orders(spark):\n    return spark.readStream.format("rate").load()',
    )
    stream = stream.replace("def clean(orders): ...", "def clean(orders):\n    return orders")
    stream = stream.replace("def counted(clean): ...", "def counted(clean):\n    return clean")
    scene.user._file.write_text(stream)
    return scene.user.types("graph", "--if", "daily", "--execute")


@leads_to(errors.StepStartsJob, "counted starts a Spark job while it is built", "declare the step with eager=True")
def a_step_that_counts(scene: Scene) -> int:
    scene.request.getfixturevalue("spark")
    scene.patch.undo()
    described = PIPELINE.replace('def orders(spark, day="today"): ...', "def orders(spark):\n    return spark.range(4)")
    described = described.replace("def clean(orders): ...", "def clean(orders):\n    return orders")
    described = described.replace(
        "def counted(clean): ...", "def counted(clean):\n    return clean.where(f'id < {clean.count()}')"
    )
    scene.user._file.write_text(described)
    return scene.user.types("plan")


@leads_to(errors.InputChanged, "the input of orders changed while the run was on", "read it again: ")
def a_source_that_changes_during_the_run(scene: Scene) -> int:
    """Met in an attempt: the run names it among its failures. Here it comes to the boundary by itself."""
    session: SparkSession = scene.request.getfixturevalue("spark")
    folder = scene.folder / "in"
    session.range(4).repartition(2).write.parquet(str(folder))
    frame = session.read.parquet(str(folder))
    group = GroupSpec(
        step="orders", build=lambda session, inputs: frame, inputs=(), keys=(), partitions=2, source=str(pin(frame))
    )
    next(folder.glob("*.parquet")).unlink()
    return _meets(scene, lambda: refuse_change(group, frame))


def _meets(scene: Scene, act: Callable[[], None]) -> int:
    code = guarded(click.command(act), [])
    scene.user.out, scene.user.err = scene.user._capture.readouterr()
    return code


class Mute(MemoryStore):
    """Never says whether something was written."""

    def put_if_absent(self, key: str, body: bytes) -> Put:
        return Put.UNKNOWN


@leads_to(errors.StoreRefused, "let a second writer overwrite an object", "use a store with conditional writes")
def a_store_that_ignores_conditions(scene: Scene) -> int:
    store = IgnoresConditions()
    scene.patch.setattr(running, "open_store", lambda url, storage=None: store)
    return scene.user.types("run")


@leads_to(errors.AppendUnknown, "gave no definite answer for the key of run", "try again", ExitCode.RESUMABLE)
def a_store_that_gives_no_answer(scene: Scene) -> int:
    scene.patch.setattr(running, "open_store", lambda url, storage=None: Mute())
    scene.patch.setattr(keys, "PAUSES_SECONDS", (0.0,))
    return scene.user.types("run")


@leads_to(errors.StoreFailed, "No space left", "try the storage: rekindle doctor --location", ExitCode.RESUMABLE)
def a_disk_that_is_full(scene: Scene) -> int:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    scene.patch.setattr("os.fsync", full)
    return scene.user.types("run")


@leads_to(errors.StoreDenied, "did not", "then: rekindle run --location")
def a_location_that_cannot_be_written(scene: Scene) -> int:
    (scene.folder / "file").write_text("")
    scene.user._location = str(scene.folder / "file" / "below")
    return scene.user.types("run")


@leads_to(errors.JournalRefused, "record 1 of", "restore that object from a backup")
def a_record_that_was_changed(scene: Scene) -> int:
    scene.user.types("run")
    first = scene.journal[0]
    first.write_bytes(first.read_bytes().replace(b"monday", b"sunday").replace(b"daily", b"weekly"))
    return _shows(scene)


@leads_to(errors.NewerJournal, "a record has format 2, this Rekindle reads up to 1", "pip install -U rekindle")
def a_record_of_a_newer_rekindle(scene: Scene) -> int:
    scene.user.types("run")
    first = scene.journal[0]
    first.write_bytes(first.read_bytes().replace(b"RK1", b"RK2", 1))
    return _shows(scene)


def _shows(scene: Scene) -> int:
    code = guarded(rekindle_group(), ["show", "--location", str(scene.folder)])
    scene.user.out, scene.user.err = scene.user._capture.readouterr()
    return code


def rekindle_group() -> click.Command:
    return importlib.import_module("rekindle.cli.main").group  # type: ignore[no-any-return]


@leads_to(errors.RunClosed, "is closed", "start a new run: rekindle run --new --location")
def a_run_that_was_cleaned_up(scene: Scene) -> int:
    scene.user.types("run")
    store = open_store(str(scene.folder))
    (run,) = listed(store, "daily").values()
    close(store, f"daily/{run}", Instant("app-gc"))
    return scene.user.types("run")


@leads_to(errors.StillOwned, "belongs to process", "or take it over now: rekindle run --force --location")
def a_run_that_lives_elsewhere(scene: Scene) -> int:
    """Elsewhere is this process, which lives: it began the run and never said that it left."""
    scene.user.adapter.make = lambda folder: InstantEngine(open_store(str(folder)), dies_after=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rekindle.journal.lease.Lease.stop", lambda self, has_left=True: None)
        scene.user.types("run")
    return scene.user.types("run")


class Overtaken(InstantEngine):
    """While it works, something happens to the journal of its run."""

    def __init__(self, store: Any, happens: Callable[[str, Position], None]) -> None:
        super().__init__(store)
        self._happens = happens

    def poll(self, timeout_ms: int) -> list[st.Stimulus]:
        (run,) = listed(self._store, "daily").values()
        self._happens(f"daily/{run}", read(self._store, f"daily/{run}", codec()).position)
        return super().poll(timeout_ms)


@leads_to(errors.Fenced, "was taken over: record 2 belongs to epoch 2 (process 7 on other)", "rekindle show")
def a_run_that_another_process_took(scene: Scene) -> int:
    store = open_store(str(scene.folder))

    def takes(run: str, position: Position) -> None:
        Journal(store, run, codec(), position).open_epoch(Owner("other", 7), ())

    scene.user.adapter.make = lambda folder: Overtaken(store, takes)
    return scene.user.types("run")


@leads_to(
    errors.AppendRejected,
    "record 2 of run daily/",
    "read the journal again, and go on: rekindle resume --location",
    ExitCode.RESUMABLE,
)
def a_number_that_holds_something_else(scene: Scene) -> int:
    store = open_store(str(scene.folder))

    def litters(run: str, position: Position) -> None:
        store.put_if_absent(f"{folder_of(run)}{position.sequence + 1:020d}", b"not ours")

    scene.user.adapter.make = lambda folder: Overtaken(store, litters)
    return scene.user.types("run")


@leads_to(errors.RunFailed, "counted[1-3] no such column", "correct it, then: rekindle resume", ExitCode.RESUMABLE)
def a_step_that_fails_for_good(scene: Scene) -> int:
    scene.user.adapter.make = lambda folder: Broken(open_store(str(folder)))
    return scene.user.types("run")


class Leaking(InstantEngine):
    """Every attempt writes rows to partitions that the layout does not have."""

    def send(self, command: cmd.Command) -> None:
        super().send(command)
        if isinstance(command, cmd.StartAttempt):
            cause = Cause(FailureKind.INVARIANT, "LawViolated: Spark has 6 tasks, the layout 4 partitions")
            self._happened = [
                st.AttemptEnded(attempt=command.attempt, failures=(Failure("counted", EMPTY, cause, "s"),))
            ]


@leads_to(
    errors.RowsNotConserved,
    "Spark has 6 tasks, the layout 4 partitions",
    "rekindle run --new --conf spark.sql.adaptive.enabled=false",
    ExitCode.FAILED,
)
def a_write_that_breaks_a_law(scene: Scene) -> int:
    scene.user.adapter.make = lambda folder: Leaking(open_store(str(folder)))
    return scene.user.types("run")


class HalfPublished(InstantEngine):
    """Two sinks of one step. When the first is published, what both were made from is gone, and so is the second; what
    is made again is something else."""

    def send(self, command: cmd.Command) -> None:
        super().send(command)
        match command:
            case cmd.StartAttempt():
                digests = bytes(command.attempt.number for _ in command.partitions)
                self._happened = [
                    msgspec.structs.replace(one, digests=digests) if isinstance(one, st.CommitsSeen) else one
                    for one in self._happened
                ]
            case cmd.PublishSink(sink="weekly"):
                lost = Parts({"counted": Partitions((1,)), "weekly": Partitions((1,))})
                self._happened[-1] = st.PartsLost(lost, FailureDomain.STORAGE)
            case _:
                pass


@leads_to(
    errors.PublishedDiffers,
    "counted[1], which daily was published from, and weekly may have been, was recomputed with other rows: digest 04, "
    "published 01",
    "publish those sinks together: rekindle resume --republish --location",
    ExitCode.RESUMABLE,
)
def a_lost_input_of_a_published_sink(scene: Scene) -> int:
    adapter = scene.user.adapter
    graph = draw("counted[2]?@run_end =blocking=> daily[2]@run_end\ncounted =blocking=> weekly[2]@run_end")
    code = {name: {"code": "1"} for name in graph.steps}
    ours = adapter.prepare

    def prepare(session: Any, wanted: PrepareRequest) -> PreparedPipeline:
        spec = RunSpec(graph=GraphSpec.of(graph), fingerprints=code, sinks=("daily", "weekly"))
        return replace(ours(session, wanted), spec=spec)

    scene.patch.setattr(adapter, "prepare", prepare)
    adapter.make = lambda folder: HalfPublished(open_store(str(folder)))
    return scene.user.types("run")


@leads_to(SparkDied, "the driver JVM of Spark died; committed results are kept", "rekindle resume", ExitCode.RESUMABLE)
def a_spark_that_died(scene: Scene) -> int:
    scene.user.adapter.make = lambda folder: Deaf(open_store(str(folder)))
    scene.user.spark.has_died = True
    return scene.user.types("run")


ON_SPARK = (errors.StepStartsJob, errors.StreamFound, errors.InputChanged)


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.spark if kind in ON_SPARK else ()) for kind in ROWS],
    ids=lambda kind: f"{kind.code} {ROWS[kind].lead.__name__.replace('_', ' ')}",
)
def test_an_error_says_what_happened_and_what_to_type(
    kind: type[errors.RekindleError],
    user: Typed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    row = ROWS[kind]
    code = row.lead(Scene(user, tmp_path, monkeypatch, request))
    told, _, hint = user.err.partition("\nnext: ")
    assert told.startswith(f"error {kind.code}: "), user.err
    assert row.says in told and row.then in hint, user.err
    assert code == row.code
    assert "Traceback" not in user.out + user.err


def test_every_error_class_has_such_a_test() -> None:
    """Whichever module defines it. The base itself is never raised."""
    for module in pkgutil.walk_packages(rekindle.__path__, "rekindle."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert {*_below(errors.RekindleError)} == ROWS.keys()
    sources = (file.read_text() for file in Path(*rekindle.__path__).rglob("*.py"))
    assert not any("raise RekindleError(" in text for text in sources)


def _below(kind: type[errors.RekindleError]) -> Iterator[type[errors.RekindleError]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)
