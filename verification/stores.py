"""`make stores`: the conformance suite on every backend, at full size.

Local disk, a real S3 server, a real HDFS and an emulator of Azure must pass all checks and all races; a real server
that ignores conditions must be refused by the probe. It must also lose races when the probe is left out: otherwise it
would prove nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time

from rekindle.errors import StoreFailed, StoreRefused
from rekindle.storage.probe import probe
from rekindle.storage.store import Store
from rekindle.storage.stores import open_store
from store_checks import CHECKS, races
from support.azurite import Azurite
from support.broken_s3 import BrokenS3
from support.hadoop import HadoopCluster
from support.s3 import S3Server

WRITERS = 24


def conforms(label: str, store: Store, count: int) -> bool:
    """Run the suite on one store that must pass it."""
    probe(store)
    for check in CHECKS:
        check(store)
    started = time.monotonic()
    single, right = races(store, WRITERS, count)
    seconds = time.monotonic() - started
    print(f"{label:6} {len(CHECKS)} checks passed, {single}/{count} races had one winner, {seconds:.1f} s")
    return single == right == count


def is_refused(label: str, store: Store, count: int) -> bool:
    """The probe must refuse the broken store, which without it lets several writers win."""
    single = sum(_has_one_winner(store) for _ in range(count))
    print(f"{label:6} {single}/{count} races had one winner")
    try:
        probe(store)
    except StoreRefused as refusal:
        print(f"{label:6} refused: {refusal.message}")
        return store.name in refusal.message and single < count
    return False


def _has_one_winner(store: Store) -> bool:
    """While many overwrite an object, this server may also fail to read it."""
    try:
        return races(store, WRITERS, 1)[0] == 1
    except StoreFailed:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--races", type=int, default=200)
    parser.add_argument("--only", choices=("disk", "s3", "hdfs", "azure"))
    given = parser.parse_args()
    count, results = given.races, {}
    if given.only in (None, "disk"):
        with tempfile.TemporaryDirectory(prefix="rekindle-stores-") as folder:
            results["disk"] = conforms("disk", open_store(folder), count)
    if given.only in (None, "s3"):
        with S3Server() as server:
            results["s3"] = conforms("s3", open_store(server.url("stores"), server.store_settings), count)
        with BrokenS3() as broken:
            store = open_store(broken.url("location"), broken.store_settings)
            results["broken_refused"] = is_refused("broken", store, min(count, 10))
    if given.only in (None, "hdfs"):
        with HadoopCluster() as cluster:
            results["hdfs"] = conforms("hdfs", open_store(cluster.url("stores"), cluster.store_settings), count)
    if given.only in (None, "azure"):
        with Azurite() as azure:
            results["azure"] = conforms("azure", open_store(azure.url("stores"), azure.store_settings), count)
    passed = " ".join(f"{name}={is_right}" for name, is_right in results.items())
    print(f"RESULT stores {passed} writers={WRITERS} races={count}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
