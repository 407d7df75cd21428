"""The weathers of `make weather`: settings of applications and clusters, what stirs beside a run, what must be seen."""

from __future__ import annotations

import secrets
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from build_jar import TEST_JAR
from rekindle.local_cluster.cluster import LocalCluster
from support.signals import cont, stop
from weather.seen import Seen

Until = Callable[[Callable[[Seen], bool]], None]
SECRET = secrets.token_hex(16)
SERVICE_PORT = 17_337
ENCRYPTED = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": SECRET,
    "spark.network.crypto.enabled": "true",
}


def nothing(cluster: LocalCluster, until: Until) -> None:
    """Settings alone make this weather."""


def decommissioned(cluster: LocalCluster, until: Until) -> None:
    """An executor is told to go: it moves what it has, and ends by itself."""
    before = len(cluster.executors())
    assert cluster.executors()[0].send(signal.SIGPWR), f"none of {before} executors was there to be told"
    until(lambda seen: seen.count("decommission") > 0)


def frozen(cluster: LocalCluster, until: Until) -> None:
    """An executor stands still until other ones run copies of its tasks, and wakes up beside them."""
    executor = cluster.executors()[0]
    stop(executor)
    try:
        until(lambda seen: seen.speculative > 0)
    finally:
        if executor.is_alive():
            cont(executor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """`settings` are those of an application, `daemons` those of the master and the workers. `stirs` is what happens
    while a run goes on, `is_seen` whether Spark's event logs show the weather. `is_alone` where a server of Spark
    listens on all addresses: it runs in a network of its own, on one worker. `keeps_maps`: map outputs outlive their
    executor."""

    name: str
    settings: Mapping[str, str]
    is_seen: Callable[[Seen], bool]
    daemons: Mapping[str, str] = field(default_factory=dict)
    stirs: Callable[[LocalCluster, Until], None] = nothing
    is_alone: bool = False
    keeps_maps: bool = False


WEATHERS = (
    Weather(
        name="dynamic",
        settings={
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.minExecutors": "0",
            "spark.dynamicAllocation.initialExecutors": "1",
            "spark.dynamicAllocation.maxExecutors": "4",
            "spark.dynamicAllocation.executorIdleTimeout": "1s",
            "spark.dynamicAllocation.cachedExecutorIdleTimeout": "2s",
            "spark.dynamicAllocation.shuffleTracking.timeout": "2s",
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
        },
        is_seen=lambda seen: seen.added >= 4 and seen.count("idle") + seen.count("killed") > 0,
    ),
    Weather(
        name="decommission",
        settings={
            "spark.decommission.enabled": "true",
            "spark.storage.decommission.enabled": "true",
            "spark.storage.decommission.replicationReattemptInterval": "1s",
        },
        daemons={"spark.decommission.enabled": "true"},
        stirs=decommissioned,
        is_seen=lambda seen: seen.count("decommission") > 0,
    ),
    Weather(
        name="speculation",
        settings={
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.3",
            "spark.speculation.minTaskRuntime": "100ms",
        },
        stirs=frozen,
        is_seen=lambda seen: seen.speculative > 0,
    ),
    Weather(
        name="shuffle-service",
        settings={"spark.shuffle.service.enabled": "true", "spark.shuffle.service.port": str(SERVICE_PORT)},
        daemons={"spark.shuffle.service.enabled": "true", "spark.shuffle.service.port": str(SERVICE_PORT)},
        is_seen=lambda seen: seen.properties.get("spark.shuffle.service.enabled") == "true",
        is_alone=True,
        keeps_maps=True,
    ),
    Weather(
        name="encrypted",
        settings={**ENCRYPTED, "spark.io.encryption.enabled": "true"},
        daemons=ENCRYPTED,
        is_seen=lambda seen: seen.properties.get("spark.network.crypto.enabled") == "true",
    ),
    Weather(
        name="other-shuffle",
        settings={
            "spark.shuffle.manager": "rekindle.test.SameChecksums",
            "spark.driver.extraClassPath": str(TEST_JAR),
            "spark.executor.extraClassPath": str(TEST_JAR),
        },
        is_seen=lambda seen: seen.properties.get("spark.shuffle.manager") == "rekindle.test.SameChecksums",
    ),
)
# Of all of them what needs nothing of a cluster: for a slice.
MIXED = Weather(
    name="mixed",
    settings={
        **WEATHERS[0].settings,
        **WEATHERS[2].settings,
        **WEATHERS[5].settings,
        "spark.io.encryption.enabled": "true",
    },
    is_seen=lambda seen: seen.added >= 2,
)
