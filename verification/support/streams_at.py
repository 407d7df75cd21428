"""Streams at a location, made by the real loop, with an engine that reports what it was told to; and what Spark would
have left of them: logs of checkpoints, and the files of tries in a target."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from contextlib import suppress

from rekindle.failover.backoff import FixedDelay
from rekindle.journal.keys import claim, enlist, identify, stream_folder
from rekindle.master.facts.config import BackoffSpec
from rekindle.model.failures import Cause, FailureKind
from rekindle.results.checkpoint_log import checkpoint_folder
from rekindle.runtime.ownership import run_as_owner
from rekindle.storage.store import Store
from rekindle.streams.stream_commands import StartQuery, StopQuery, StreamCommand
from rekindle.streams.stream_events import QueryEnd
from rekindle.streams.stream_machine import STREAM
from rekindle.streams.stream_spec import Delivery, RegionSpec, StreamLimits, StreamSpec
from rekindle.streams.stream_state import StreamState
from rekindle.streams.stream_stimuli import OpenStream, QueryReport, StopStream, StreamStimulus

TEXT = "ValueError: could not convert string to float: '12,50', at shop.py:20 in cents"
BROKEN = Cause(FailureKind.EXCEPTION, TEXT, at="shop.py:20 in cents")
HOUR_MS = 3_600_000


class ScriptedQueries:
    """Starts and stops at once. Reports, when it is polled, the next of `script`: a region with how its query ends, or
    a stop. After the last one the driver dies, unless the stream came to its end."""

    def __init__(self, script: Sequence[tuple[str, QueryEnd] | str] = ()) -> None:
        self._script = list(script)
        self._numbers: dict[str, int] = {}
        self._stopped: list[StreamStimulus] = []

    def send(self, command: StreamCommand) -> None:
        match command:
            case StartQuery(region, number):
                self._numbers[region] = number
            case StopQuery(region, number):
                self._stopped.append(QueryReport(region=region, number=number, end=QueryEnd.STOPPED, batch=1))

    def poll(self, timeout_ms: int) -> list[StreamStimulus]:
        stopped, self._stopped = self._stopped, []
        if stopped:
            return stopped
        if not self._script:
            raise KeyboardInterrupt
        told = self._script.pop(0)
        if isinstance(told, str):
            return [StopStream(told)]
        region, end = told
        cause = BROKEN if end in (QueryEnd.FAILED, QueryEnd.STUCK) else None
        number = self._numbers[region]
        return [QueryReport(region=region, number=number, end=end, cause=cause, batch=1, signature="ValueError")]

    def close(self) -> None:
        """Nothing of it runs."""


def region_of(name: str, trigger: str = "10 seconds") -> RegionSpec:
    return RegionSpec(
        name=name,
        steps=("orders", name),
        sources=("orders",),
        target=f"files /shop/{name}",
        delivery=Delivery.EXACTLY_ONCE,
        trigger=trigger,
        output_mode="append",
    )


def make_stream(
    store: Store,
    run: str,
    *,
    regions: Sequence[str] = ("priced", "customers"),
    script: Sequence[tuple[str, QueryEnd] | str] = (),
    delay_ms: int = 0,
    trigger: str = "10 seconds",
    port: ScriptedQueries | None = None,
    parameters: dict[str, str] | None = None,
) -> StreamState | None:
    """Start a stream of shop, or go on with it; None if its driver died."""
    identify(store, "shop")
    if claim(store, "shop", parameters or {}, run, is_new=True).is_ours:
        enlist(store, "shop", run)
    limits = StreamLimits(backoff=BackoffSpec.of(FixedDelay(attempts_max=10, delay_ms=delay_ms)))
    first = OpenStream(
        pipeline="shop",
        run=run,
        spec=StreamSpec(regions=tuple(region_of(name, trigger) for name in regions)),
        limits=limits,
        run_time_ms=1_700_000_000_000,
        seed=7,
        application="app-1",
        owner="me",
    )
    with suppress(KeyboardInterrupt):
        queries = port or ScriptedQueries(script)
        name = stream_folder("shop", run)
        return run_as_owner(STREAM, store, name, lambda _: first, queries, watcher=lambda *_: None, force=True)
    return None


def make_checkpoint(store: Store, run: str, region: str, *, committed: int, planned: int) -> None:
    """The logs that a query over files leaves in its checkpoint: a file for each batch."""
    checkpoint = f"{stream_folder('shop', run)}/{checkpoint_folder(region)}"
    for number in range(planned + 1):
        head = f"v1\n{json.dumps({'batchWatermarkMs': 0, 'conf': {}})}\n"
        store.put(f"{checkpoint}/offsets/{number}", f'{head}{{"logOffset":{number}}}'.encode())
        seen = {"path": f"file:///shop/orders/{number}.json", "timestamp": 1, "batchId": number}
        store.put(f"{checkpoint}/sources/0/{number}", f"v1\n{json.dumps(seen)}".encode())
        if number <= committed:
            store.put(f"{checkpoint}/commits/{number}", b'v1\n{"nextBatchWatermarkMs":0}')


class TargetOfStream:
    """A target as java/StreamFiles fills it: directories of tries, and an entry for each batch that counts."""

    def __init__(self, store: Store, region: str, generation: str) -> None:
        self._store, self._region, self._generation = store, region, generation
        store.put_if_absent("owners/1", f"{region}\t{generation}".encode())

    def write(self, batch: int, epoch: int, *, tasks: Sequence[tuple[int, int]] = ((0, 1),)) -> str:
        """The files of a try, with Hadoop's checksums; its directory."""
        directory = f"data/{self._region}/{self._generation}/{batch}-{epoch}-{uuid.uuid4()}"
        for task, attempt in tasks:
            name = f"part-{task:05d}-{attempt}-c000.snappy.parquet"
            self._store.put(f"{directory}/{name}", b"rows" * 10)
            self._store.put(f"{directory}/.{name}.crc", b"crc")
        return directory

    def commit(self, batch: int, directory: str, *, tasks: Sequence[tuple[int, int]] = ((0, 1),)) -> bool:
        """Put the entry of a batch; whether it was the first."""
        files = "".join(f"part-{task:05d}-{attempt}-c000.snappy.parquet\t40\n" for task, attempt in tasks)
        body = f"epoch\t1\noffsets\tabc\ndirectory\t{directory}\n{files}".encode()
        key = f"entries/{self._region}/{self._generation}/{batch}"
        return self._store.put_if_absent(key, body).value == "created"
