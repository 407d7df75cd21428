"""What an engine makes of a checked pipeline before it runs: one value, without a word of the engine's own.

All that an adapter can do stands in `engine_adapter.py`, which also finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from rekindle.engine.port import Engine
from rekindle.master.facts.run_spec import DeclaredStep, RunSpec
from rekindle.master.state.commands import StartAttempt
from rekindle.master.state.run_state import Segment
from rekindle.model.machine import CommandPort
from rekindle.model.partitions import Partitions
from rekindle.pipeline.constants import TimeAndSeed
from rekindle.pipeline.declared import Declared
from rekindle.publish.stream_compactions import BatchFile
from rekindle.publish.target import PointerStore
from rekindle.streams.pinned_inputs import InputLook, PinnedInput
from rekindle.streams.region_health import RegionHealth
from rekindle.streams.shard_splits import FrozenRegion, ShardSplit
from rekindle.streams.source_starts import SourcePosition, StartRequest
from rekindle.streams.stream_commands import StreamCommand
from rekindle.streams.stream_spec import StreamSpec
from rekindle.streams.stream_stimuli import StreamStimulus

# The store that stands behind a target's location.
Stores = Callable[[str], PointerStore]
Tasks = Callable[[StartAttempt], int | None]
ColumnsIn = Callable[[str], dict[str, str]]
Missing = Callable[[Mapping[str, Sequence[Segment]]], Mapping[str, Partitions]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareRequest:
    """What is to be prepared: checked steps, producers first, with the parameters and constants of one run, and where
    its results lie. `order` is the run's number among all runs of the pipeline in `place`, its location; `takes` are
    sinks whose targets another location published into, and are this one's from now on; `key` tells the parameters: an
    append replaces what the same key appended before; `published` are the steps that the run has published already."""

    pipeline: str
    order: int
    steps: Sequence[Declared]
    parameters: Mapping[str, Any]
    constants: TimeAndSeed
    settings: Mapping[str, str]
    root: str
    stores: Stores
    place: str = ""
    takes: frozenset[str] = frozenset()
    key: str = ""
    published: frozenset[str] = frozenset()

    @property
    def declared(self) -> tuple[DeclaredStep, ...]:
        """All its steps, as the journal has them."""
        return tuple(
            DeclaredStep(
                name=one.name,
                role=one.role.value,
                reads=one.inputs,
                target=one.target.shown if one.target is not None else "",
            )
            for one in self.steps
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """What a stream's run is prepared with. `generation` tells its checkpoints from those of every other run, and
    `replaced` how many each region had before the one that it has; `starts` are regions that get a new one now, and
    where that begins to read; `positions` is where those begin that regions got before. `pins` are the batch inputs
    that its regions read so far, by step, and `taken` those of which they are to read what is newer; `splits` is where
    checkpoints of shards begin that go on from others. `stall_ms` is how long a batch may take; `compact_batches` is of
    how many batches the files are made few, 0 for never; `memory_bytes` is how much of a memory result is in memory;
    `owner` is this process, as heartbeats name it; `is_asked_to_stop` is asked at each poll; with `available_now` every
    query ends when it has read what there is."""

    wanted: PrepareRequest
    generation: str
    stall_ms: int
    compact_batches: int = 0
    memory_bytes: int = 0
    owner: str = ""
    replaced: Mapping[str, int] = field(default_factory=dict)
    starts: Mapping[str, StartRequest] = field(default_factory=dict)
    positions: Mapping[str, tuple[SourcePosition, ...]] = field(default_factory=dict)
    splits: Mapping[str, ShardSplit] = field(default_factory=dict)
    pins: Mapping[str, PinnedInput] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()
    available_now: bool = False
    is_asked_to_stop: Callable[[], str] = lambda: ""


class ResultFiles(NamedTuple):
    """Files of batches of one result, below its directory."""

    base: str
    files: tuple[BatchFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRecords:
    """Batches of one result, those after one up to another, of which some are records of a topic: the directory of the
    result, its region with the generation of its checkpoint, and the columns of its rows with their types."""

    base: str
    region: str
    generation: str
    topic: str
    columns: Mapping[str, str]
    after: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPipeline:
    """A pipeline as it will run.

    spec          its steps, and what of them is computed together
    why           what became of every declared step
    bases         the places whose stores decide who publishes
    cores         how many tasks the engine can work on at once, 0 where it cannot tell
    missing       looks which partitions of these segments have lost their files
    tasks         how many tasks of all stages an attempt would take, None where that is not known before it starts
    copy          brings files of an earlier run into this one
    columns_in    the columns of a schema as a manifest has it, told as those of the spec are
    settings      those that were wanted, and what could only be pinned when the sources were known
    tables        sentences about tables with a log of their own: which version is read, how they are published to
    executors     sentences about what settings of executors and exchanges change for the run
    """

    engine: Engine
    spec: RunSpec
    why: Mapping[str, str]
    cores: int = 0
    missing: Missing = lambda counted: {}
    tasks: Tasks = lambda command: None
    settings: Mapping[str, str] = field(default_factory=dict)
    bases: tuple[str, ...] = ()
    copy: CopyFiles = lambda copies: frozenset(one.source for one in copies)
    columns_in: ColumnsIn = lambda schema: {}
    tables: tuple[str, ...] = ()
    executors: tuple[str, ...] = ()


class StreamEngine(CommandPort[StreamCommand, StreamStimulus], Protocol):
    """The streaming queries of one Spark application: the world of a stream's master."""

    @property
    def application(self) -> str:
        """The name of the application; never used twice."""
        ...

    def health(self) -> Mapping[str, RegionHealth]:
        """How the queries are, by region, as the last poll saw them. Nothing of it is a fact."""
        ...

    def notes(self) -> Sequence[str]:
        """Sentences about what was done in the background, since it was last asked."""
        ...

    def freeze(self, region: str, number: int, generation: int) -> FrozenRegion:
        """Raise the fence of a region to this number, so that no query with a lower one adds to this checkpoint, and
        then read where that stands."""
        ...

    def hold(self, region: str, is_held: bool) -> None:
        """Let the next batch of a region that makes a result wait, or go on."""
        ...

    def forget(self, region: str, through: int) -> None:
        """Batches of the result of a region up to this one are released."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedStream:
    """A streaming pipeline as it will run. `batches` are the last ones that each checkpoint has committed, -1 for none;
    `positions` is where new checkpoints begin to read, and `begins` says for regions without a batch what each of their
    streams begins with. `result_bytes` is how many a batch of each result had lately. `noted` are the streams with
    names that have a position in their checkpoint, or had one.
    `notes` are sentences for its plan, `bases` is where the files of its targets lie. `inputs` are its batch inputs;
    `keep` keeps what those that are pinned are made of, before the journal names it."""

    engine: StreamEngine
    spec: StreamSpec
    batches: Mapping[str, int]
    positions: Mapping[str, tuple[SourcePosition, ...]] = field(default_factory=dict)
    begins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    result_bytes: Mapping[str, int] = field(default_factory=dict)
    noted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    inputs: tuple[InputLook, ...] = ()
    keep: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class FileCopy:
    """One file: where it is, how long it is, and its name below the directory that it is copied to."""

    source: str
    bytes: int
    name: str


# Copies files into a run; gives those that are not what was committed, by their sources.
CopyFiles = Callable[[Sequence[FileCopy]], frozenset[str]]


@dataclass(frozen=True, slots=True)
class VersionRequest:
    """Which version is read: by name or number, or by time; the newest where neither is said."""

    version: str | int | None = None
    as_of: datetime | str | None = None


NEWEST = VersionRequest()


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenWriter:
    """A streaming query of a script, not started: the engine's writer, its name, and the line of the script.
    `checkpoint` is where its checkpoint lies, or empty; `table` is the table that it is started into, or empty."""

    writer: Any
    name: str
    place: str
    checkpoint: str = ""
    table: str = ""


class RunAdapter(Protocol):
    """The part of an adapter that runs need."""

    def pinned_settings(self, session: Any) -> dict[str, str]:
        """What must stay as it is for the partitions of a run to stay the same, as the session has it now."""
        ...

    def prepare(self, session: Any, wanted: PrepareRequest) -> PreparedPipeline:
        """Compile, analyse, fingerprint. Starts nothing."""
        ...

    def streaming_sinks(self, session: Any, wanted: PrepareRequest) -> frozenset[str]:
        """The sinks, by their names in the code, that read a source which is a stream. Starts nothing."""
        ...

    def prepare_stream(self, session: Any, wanted: StreamRequest) -> PreparedStream:
        """Compile the regions of a streaming pipeline. Starts nothing."""
        ...

    def read_newest(self, session: Any, path: str, stores: Stores, wanted: VersionRequest) -> Any:
        """A version that was published to `files(path)`."""
        ...

    def read_kafka(self, session: Any, topic: str, brokers: str, options: Mapping[str, str]) -> Any:
        """The records of a topic, without those that a stream sent twice."""
        ...

    def read_result(
        self, session: Any, found: Sequence[ResultFiles | ResultRecords], brokers: str, options: Mapping[str, str]
    ) -> Any:
        """Batches of the result of a step of a stream. Brokers, and options of their client, are those of a topic."""
        ...

    def read_previous(self, session: Any, path: str, stores: Stores, schema: Any) -> Any:
        """The version before the key of the run whose steps are built."""
        ...

    def run_stores(self) -> Stores | None:
        """The stores of the run whose steps are built, None outside of a run."""
        ...
