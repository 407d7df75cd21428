"""Fixtures on real processes: each starts when the first test asks for it, and is ended by process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from rekindle.testing.cluster import LocalCluster
from support.s3 import S3Server

# Whatever a test starts as a user would, its driver listens here and nowhere else.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """A standalone cluster of one master and two workers, shared by the session."""
    with LocalCluster() as running:
        yield running


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """An S3 server with an empty bucket, shared by the session: tests use prefixes of their own."""
    with S3Server() as running:
        yield running
