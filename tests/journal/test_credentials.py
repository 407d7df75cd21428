"""A store on S3, Google Cloud or Azure for which nobody gave credentials. No server is asked."""

from __future__ import annotations

from typing import Any

import obstore
import pytest
from obstore import exceptions

from rekindle.errors import StoreDenied, StoreFailed
from rekindle.storage.store import Put, Store
from rekindle.storage.stores import open_store

KEYS = {"region": "eu-central-1", "access_key_id": "mine", "secret_access_key": "hush"}
ASKED = "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 4.1s - HTTP error"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    def fails(*given: Any, **options: Any) -> None:
        raise exceptions.GenericError(ASKED)

    for name in ("put", "get", "list", "list_with_delimiter"):
        monkeypatch.setattr(obstore, name, fails)
    return open_store("s3a://bucket/runs", KEYS)


def test_no_credentials_are_told_as_such(store: Store) -> None:
    with pytest.raises(StoreDenied, match="s3://bucket/runs did not list: no credentials were found") as denied:
        store.list_folders("")
    assert "169.254" not in str(denied.value)
    assert denied.value.hint.startswith("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (")


def test_without_credentials_a_write_is_certainly_not_done(store: Store) -> None:
    with pytest.raises(StoreDenied, match="no credentials were found"):
        store.put_if_absent("one", b"1")


def test_credentials_that_were_there_before_may_come_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as answers:
        answers.setattr(obstore, "put", lambda *given, **options: None)
        assert store.put_if_absent("one", b"1") is Put.CREATED
    assert store.put_if_absent("two", b"2") is Put.UNKNOWN
    with pytest.raises(StoreFailed, match=r"169\.254") as failed:
        store.list_folders("")
    assert type(failed.value) is StoreFailed


def test_whoever_could_read_had_credentials(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a write without an answer is asked again, and nobody is told to set what is set."""
    with monkeypatch.context() as answers:
        answers.setattr(obstore, "list", lambda *given, **options: [])
        assert store.list_after("pointers/") == []
    assert store.put_if_absent("two", b"2") is Put.UNKNOWN
