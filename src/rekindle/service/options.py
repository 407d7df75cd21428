"""How a run is made: what the user may say beside the pipeline and its parameters."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from rekindle.config import Config
from rekindle.errors import Refused
from rekindle.failover.restart import Strategy
from rekindle.gc.collect_run import GcRules
from rekindle.journal.lease import STALE_SECONDS
from rekindle.master.facts.config import MasterConfig
from rekindle.observe.plan import Plan
from rekindle.remedies import StartRemedy, TextRemedy
from rekindle.runtime.watcher import Watcher, ignore
from rekindle.service.limits import master_config, rules_of
from rekindle.streams.source_starts import StartRequest, start_request
from rekindle.streams.stream_spec import SourceStart


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of `run`, `plan` and the other calls. They are not part of the key of a run.

    new             start a new run although one with the same parameters exists
    run             the name of the run to resume, if it is not the newest with these parameters; with `new`, the name
                    of the new run, so that a second call with the same arguments resumes it
    accept_change   steps whose committed partitions are kept although their code or input changed
    replace         steps whose changed sources are read again; of a stream: steps whose batch inputs are read as they
                    are now, from the next batch on
    without         failed partitions to publish without, such as "enriched[173]"
    republish       publish sinks again whose inputs changed after they were published
    take_target     sinks whose targets are taken over from runs of another location
    compare_done    start a session to compare the inputs of a run that is done, too, where `spark` is a function
    reuse           a new run that keeps its results (`keep_ms` of `config`, results.keep_hours) takes those that an
                    earlier run kept and that it would compute again
    force           take the run over although its driver may still be alive
    storage         options of the storage client, as obstore names them: endpoint, access_key_id, region …
    digest          which results get digests: `auto` (those not proved to be determinate), `always` or `never`
    budget_bytes    size limit for the results of a new run: above it, results that no step needs are deleted before
                    the run ends; 0 is no limit, None takes the limit of `config`
    strategy        the failover strategy, `region`, `individual` or `full`; of a resumed run, from now on. None takes
                    that of `config` for a new run, and leaves that of a resumed one as it is
    config          failover strategy, restart backoff and limits of a new run
    quiet           `run` prints nothing; otherwise it prints the plan, the progress and the summary to stderr
    watcher         called with the events of each decision after they are journaled
    hook            a command that is told what happens, as a line of JSON on its standard input: started, failed,
                    recovered, published, succeeded, gave up
    on_plan         called with the plan before it is executed
    on_begun        called when the start is in the journal, before anything of it is executed
    sweep           how old waste of the pipeline is deleted in the background; None for not at all
    available_now   of a stream: every region ends when it has read the input that there is
    stop_on_give_up of a stream: all regions stop when one gave up; otherwise the others go on
    stall_seconds   of a new stream: a batch that takes longer counts as a failure of its region; 0 is for ever
    compact_batches of a stream: number of batches whose files are made few larger ones in the background; 0 is never
    keep_results_minutes
                    of a stream: how long batches of a result are kept that every region which reads it has committed
    result_bytes_max
                    of a stream: bytes of a result over which the region that makes it waits for those that read it; 0
                    is no bound
    memory_bytes_max
                    of a stream: bytes of a memory result that executors keep; the oldest batches go, and are made again
                    for a region that still needs them
    new_checkpoint  of a stream: regions that get a new checkpoint, which adds to the rows in their targets
    start_from      where those begin to read: `earliest` reads all input again, `latest` leaves out what is there, an
                    ISO time with its zone what is older, `offsets:{"topic": {"0": 42}}` what lies before in Kafka
    is_asked_to_stop    of a stream: a function that returns a reason to stop after the batches that run, or ""
    say             of a stream: called with each line of its plan and news, also with `quiet`
    """

    new: bool = False
    run: str = ""
    accept_change: Sequence[str] = ()
    replace: Sequence[str] = ()
    without: Sequence[str] = ()
    republish: bool = False
    take_target: Sequence[str] = ()
    compare_done: bool = False
    reuse: bool = True
    force: bool = False
    storage: Mapping[str, str] = field(default_factory=dict)
    digest: str = "auto"
    budget_bytes: int | None = None
    strategy: str | None = None
    config: MasterConfig = field(default_factory=MasterConfig)
    stale_seconds: float = STALE_SECONDS
    quiet: bool = False
    watcher: Watcher = ignore
    hook: str = ""
    on_plan: Callable[[Plan], None] | None = None
    on_begun: Callable[[], None] = lambda: None
    sweep: GcRules | None = field(default_factory=lambda: rules_of(Config()))
    available_now: bool = False
    stop_on_give_up: bool = False
    stall_seconds: float = 300.0
    compact_batches: int = 1_000
    keep_results_minutes: float = 60.0
    result_bytes_max: int = 0
    memory_bytes_max: int = 256_000_000
    new_checkpoint: Sequence[str] = ()
    start_from: str = ""
    is_asked_to_stop: Callable[[], str] = lambda: ""
    say: Callable[[str], None] | None = None

    @property
    def limits(self) -> MasterConfig:
        """What is recorded when a run starts."""
        budget = self.config.budget_bytes if self.budget_bytes is None else self.budget_bytes
        strategy = self.chosen_strategy or self.config.strategy
        return msgspec.structs.replace(self.config, budget_bytes=budget, strategy=strategy)

    @property
    def chosen_strategy(self) -> Strategy | None:
        """None if nothing was said."""
        if self.strategy is None:
            return None
        try:
            return Strategy(self.strategy)
        except ValueError:
            names = ", ".join(one.value for one in Strategy)
            raise Refused(f"there is no failover strategy {self.strategy!r}", f"use one of {names}") from None

    @property
    def starts(self) -> dict[str, StartRequest]:
        """The regions that get a new checkpoint, and where it begins to read."""
        if not self.new_checkpoint:
            if self.start_from:
                raise Refused(
                    f"{self.start_from!r} says where a new checkpoint begins to read, and no region gets one",
                    StartRemedy(to="go on with the checkpoints that are there", leaves=("from_",)),
                )
            return {}
        given = tuple(self.new_checkpoint)
        anew = StartRemedy(
            to="read all again", new_checkpoint=given, start_from=SourceStart.EARLIEST.value, leaves=("from_",)
        )
        if not self.start_from:
            raise Refused(
                f"a new checkpoint of {', '.join(given)} adds to the rows in its target, so say where it begins to "
                "read: from the earliest input all rows are added again, from the latest what came meanwhile is left "
                "out",
                anew,
            )
        try:
            start = start_request(self.start_from, round(time.time() * 1000))
        except ValueError as error:
            said = "say earliest, latest, a time such as 2026-01-31T06:00:00Z, or offsets"
            raise Refused(f"a new checkpoint cannot begin there: {error}", (TextRemedy(said), anew)) from None
        return dict.fromkeys(self.new_checkpoint, start)


def as_settings_say(config: Config) -> RunOptions:
    """The options of a start about which nothing else was said."""
    return RunOptions(
        storage=config.storage,
        digest=config.digest,
        reuse=config.is_reused,
        hook=config.hook,
        config=master_config(config),
        stale_seconds=config.stale_seconds,
        sweep=rules_of(config) if config.is_swept else None,
        stop_on_give_up=config.stops_on_give_up,
        stall_seconds=config.stall_seconds,
        compact_batches=config.compact_batches,
        keep_results_minutes=config.keep_results_minutes,
        result_bytes_max=config.result_bytes_max,
        memory_bytes_max=config.memory_bytes_max,
    )
