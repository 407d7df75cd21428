"""The conformance suite: the same rows for every backend. `make stores` runs it at full size."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from doubles.stores import IgnoresConditions
from rekindle.errors import Refused, StoreRefused
from rekindle.storage.memory import MemoryStore
from rekindle.storage.probe import probe
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store
from store_checks import CHECKS, races
from support.azurite import Azurite
from support.broken_s3 import BrokenS3
from support.hadoop import HadoopCluster
from support.s3 import S3Server

MARKS = {"s3": pytest.mark.s3, "hdfs": pytest.mark.hdfs, "azure": pytest.mark.s3}
REMOTE = [pytest.param(name, marks=mark) for name, mark in MARKS.items()]


@pytest.fixture(params=["memory", "disk", *REMOTE])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "disk":
        return open_store(str(tmp_path / "store"))
    server: S3Server | HadoopCluster | Azurite = request.getfixturevalue(request.param)
    return open_store(server.url(uuid.uuid4().hex), server.store_settings)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.replace("_", " "))
def test_a_store_keeps_its_word(store: Store, check: Callable[[Store], None]) -> None:
    check(store)


def test_one_of_24_racing_writers_wins(store: Store) -> None:
    assert races(store, writers=24, count=10) == (10, 10)


def test_the_probe_accepts_it_and_leaves_nothing(store: Store) -> None:
    probe(store)
    assert store.list_after("_probe/") == []


def test_a_store_that_ignores_conditions_is_refused_by_name() -> None:
    with pytest.raises(StoreRefused, match="the store memory:bad let a second writer"):
        probe(IgnoresConditions(name="memory:bad"))


@pytest.mark.s3
def test_rclone_is_refused_by_name() -> None:
    with BrokenS3() as server:
        store = open_store(server.url("location"), server.store_settings)
        with pytest.raises(StoreRefused, match=f"{server.bucket}/location"):
            probe(store)


def test_an_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Refused, match="abfs, abfss, file, gs, hdfs, s3"):
        open_store("ftp://host/path")


def test_a_url_of_azure_names_its_account_and_no_option_another_one() -> None:
    url = "abfss://lake@mine.dfs.core.windows.net/runs"
    assert open_store(url, {"account_name": "mine", "account_key": "aGV5"}).name == url
    with pytest.raises(Refused, match="names the account mine, and the option account_name yours"):
        open_store(url, {"account_name": "yours", "account_key": "aGV5"})


def test_a_scheme_that_spark_does_not_have_is_refused_at_once() -> None:
    with pytest.raises(Refused, match="abfss"):
        open_store("az://container/path")
