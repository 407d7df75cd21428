"""A certain no and an unknown answer, from a real S3 server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from doubles.dropping_proxy import DroppingProxy
from rekindle.errors import StoreDenied, StoreFailed
from rekindle.journal.history import read
from rekindle.storage.store import Put, Store
from rekindle.storage.stores import open_store
from support.facts import CODEC, RUN, Noted, open_run, texts
from support.s3 import S3Server

pytestmark = pytest.mark.s3


def store_at(server: S3Server, **other: str) -> Store:
    return open_store(server.url(uuid.uuid4().hex), server.store_settings | other)


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[DroppingProxy]:
    with DroppingProxy(s3.endpoint) as running:
        yield running


def test_nobody_there_is_unknown_for_a_write_and_a_failure_for_a_read(s3: S3Server) -> None:
    store = store_at(s3, endpoint="http://127.0.0.1:1")
    assert store.put_if_absent("one", b"1") is Put.UNKNOWN
    with pytest.raises(StoreFailed, match="did not read one") as failed:
        store.get("one")
    assert type(failed.value) is StoreFailed, "a retry can help"


def test_no_rights_is_a_certain_no(s3: S3Server) -> None:
    with pytest.raises(StoreDenied, match="did not write one"):
        store_at(s3, secret_access_key="wrong").put_if_absent("one", b"1")


def test_no_bucket_is_a_certain_no(s3: S3Server) -> None:
    store = open_store("s3://nowhere/x", s3.store_settings)
    with pytest.raises(StoreDenied, match="did not write one"):
        store.put_if_absent("one", b"1")
    with pytest.raises(StoreDenied, match="did not list:"):
        store.list_folders("")


def test_an_answer_that_got_lost_is_unknown_and_the_object_is_there(s3: S3Server, proxy: DroppingProxy) -> None:
    store = store_at(s3, endpoint=proxy.endpoint)
    proxy.drops = 1
    assert store.put_if_absent("one", b"1") is Put.UNKNOWN
    assert store.get("one") == b"1"
    assert store.put_if_absent("one", b"1") is Put.EXISTS


def test_an_append_whose_answer_got_lost_counts_once(s3: S3Server, proxy: DroppingProxy) -> None:
    store = store_at(s3, endpoint=proxy.endpoint)
    journal, _ = open_run(store)
    for number in range(5):
        proxy.drops = number % 3
        journal.append(Noted(str(number)))
    assert texts(read(store, RUN, CODEC)) == ["0", "1", "2", "3", "4"]
    assert journal.position.sequence == 6
