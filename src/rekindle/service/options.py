"""How a run is made: what the user may say beside the pipeline and its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from rekindle.config import Config
from rekindle.gc.collect_run import Rules
from rekindle.journal.lease import STALE_SECONDS
from rekindle.master.facts.config import MasterConfig
from rekindle.observe.plan import Plan
from rekindle.runtime.watcher import Watcher, ignore
from rekindle.service.limits import master_config, rules_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is made; none of it is part of its key.

    new             start a new run although one of these parameters exists
    run             the name of the run to resume, where it is not the newest of these parameters; with `new`, the name
                    that the new run gets, so that a second call of the same words goes on with it
    accept_change   steps whose committed partitions count although their code or input changed
    replace         sources that are read again although they changed
    without         partitions that failed and are left out, such as "enriched[173]": published with a hole
    republish       publish again what is published already, where what it was made from changed
    take_target     sinks whose targets were published into from another location: they are this one's from now on
    force           take the run over from a master that still shows life
    storage         how to reach the store, in obstore's words: endpoint, access_key_id, secret_access_key, region …
    digest          which results get digests: `auto` where it is not proved that the same comes back, `always`, `never`
    budget_bytes    what the results of a run that starts now may take: above it, results that nobody needs go before
                    the run ends; 0 is no limit, None what `config` says
    config          failover strategy, restart backoff and limits
    watcher         is told every decision after it counts
    on_plan         is told the plan before it is executed
    sweep           how old waste of the pipeline is removed beside the run, as gc would; None if it is not
    """

    new: bool = False
    run: str = ""
    accept_change: Sequence[str] = ()
    replace: Sequence[str] = ()
    without: Sequence[str] = ()
    republish: bool = False
    take_target: Sequence[str] = ()
    force: bool = False
    storage: Mapping[str, str] = field(default_factory=dict)
    digest: str = "auto"
    budget_bytes: int | None = None
    config: MasterConfig = field(default_factory=MasterConfig)
    stale_seconds: float = STALE_SECONDS
    watcher: Watcher = ignore
    on_plan: Callable[[Plan], None] | None = None
    sweep: Rules | None = field(default_factory=lambda: rules_of(Config()))

    @property
    def limits(self) -> MasterConfig:
        """What is recorded when a run starts."""
        if self.budget_bytes is None:
            return self.config
        return msgspec.structs.replace(self.config, budget_bytes=self.budget_bytes)


def as_settings_say(config: Config) -> RunOptions:
    """The options of a start about which nothing else was said."""
    return RunOptions(
        storage=config.storage,
        digest=config.digest,
        config=master_config(config),
        stale_seconds=config.stale_seconds,
        sweep=rules_of(config) if config.is_swept else None,
    )
