"""The settings as the master wants them, to be recorded when a run starts, and as gc wants them."""

from __future__ import annotations

from rekindle.config import Config
from rekindle.failover.backoff import Backoff, Exponential, FailureRate, FixedDelay, NoRestart
from rekindle.failover.restart import Strategy
from rekindle.gc.collect_run import GcRules
from rekindle.gc.policy import Retention
from rekindle.gc.remover import Limits
from rekindle.master.facts.config import BackoffSpec, MasterConfig
from rekindle.storage.store import PAGE


def master_config(config: Config) -> MasterConfig:
    """Failover strategy, restart backoff and limits of a run that starts now."""
    return MasterConfig(
        strategy=Strategy(config.strategy),
        backoff=BackoffSpec.of(_backoff(config)),
        poison_tries_max=config.poison_tries_max,
        poison_step_max=config.poison_step_max,
        attempts_per_step_max=config.attempts_per_step_max,
        is_released_early=config.is_released_early,
        budget_bytes=config.budget_bytes,
        keep_ms=round(config.keep_hours * 3_600_000),
    )


def rules_of(config: Config, *, is_dry: bool = False) -> GcRules:
    """How gc works."""
    hour_ms = 3_600_000
    return GcRules(
        terms=Retention(
            round(config.grace_hours * hour_ms),
            round(config.retention_hours * hour_ms),
            round(config.versions_hours * hour_ms),
        ),
        limits=Limits(min(config.gc_batch, PAGE), config.gc_parallel, config.gc_files_per_second),
        stale_seconds=config.stale_seconds,
        is_dry=is_dry,
    )


def _backoff(config: Config) -> Backoff:
    match config.backoff:
        case "exponential":
            return Exponential(
                initial_ms=config.initial_ms,
                factor=config.factor,
                delay_ms_max=config.delay_ms_max,
                jitter=config.jitter,
                reset_after_ms=config.reset_after_ms,
                attempts_max=config.attempts_max,
            )
        case "fixed":
            return FixedDelay(config.attempts_max, config.delay_ms)
        case "rate":
            return FailureRate(config.failures_max, config.interval_ms, config.delay_ms)
        case "none":
            return NoRestart()
        case _:
            raise AssertionError(f"{config.backoff} is not a restart backoff")
