"""The first two batches of a checkpoint that begins where another one stands, of which it reads a part.

- Both end where the parent stood, so that they have no rows. There are two because Spark asks a source once more for
  what its last batch read: that would be all files that the parent ever listed.
- The log of the files that a source has listed is copied; positions of topics are those of its own partitions.
- The parent is fenced, so that whoever copies it copies the same. The commits come last: without them the copy is not
  whole, and is made again, each object put if absent.
"""

from __future__ import annotations

import uuid

import msgspec

from rekindle.errors import Refused, StoreFailed
from rekindle.publish.target import PointerStore, is_certainly_put
from rekindle.results.checkpoint_log import COMMITS, HEAD_LINES, NAMED, OFFSETS, SOURCES, file_position
from rekindle.streams.source_starts import Offsets

# The object in which Spark keeps the name of the query.
METADATA = "metadata"
BEGUN_BATCHES = 2
HIDDEN = "."


def begin_checkpoint(
    store: PointerStore, parent: str, checkpoint: str, batch: int, number: int, of: int
) -> tuple[bytes, ...]:
    """Begin a checkpoint after this batch of its parent, as shard `number` of so many. The answer is the offsets of its
    first batches. They count when `commit_checkpoint` was called."""
    body = store.get(f"{parent}/{OFFSETS}{batch}")
    if body is None:
        raise Refused(f"{parent} lacks batch {batch}, from which a shard goes on", "restore the files of the stream")
    (*head,) = body.decode().split("\n")[:HEAD_LINES]
    if head[0] == NAMED:
        raise Refused(f"{parent} has positions by names, which cannot be split", "restore the number of shards")
    positions = body.decode().split("\n")[HEAD_LINES:]
    for stream, position in enumerate(positions):
        if file_position(position) is not None:
            _copy(store, f"{parent}/{SOURCES}{stream}/", f"{checkpoint}/{SOURCES}{stream}/")
    begun = "\n".join([*head, *(_part(one, number, of) for one in positions)]).encode()
    _put(store, f"{checkpoint}/{METADATA}", msgspec.json.encode({"id": str(uuid.uuid4())}))
    for first in range(BEGUN_BATCHES):
        _put(store, f"{checkpoint}/{OFFSETS}{first}", begun)
    return (begun,) * BEGUN_BATCHES


def commit_checkpoint(store: PointerStore, parent: str, checkpoint: str, batch: int) -> None:
    """From now on its query goes on after its first batches."""
    body = store.get(f"{parent}/{COMMITS}{batch}")
    if body is None:
        raise Refused(f"{parent} has not committed batch {batch}", "restore the files of the stream")
    for first in range(BEGUN_BATCHES):
        _put(store, f"{checkpoint}/{COMMITS}{first}", body)


def is_begun(store: PointerStore, checkpoint: str) -> bool:
    """Whether it has them."""
    return any(int(one) >= BEGUN_BATCHES - 1 for one in store.list_after(f"{checkpoint}/{COMMITS}") if one.isdecimal())


def _copy(store: PointerStore, source: str, target: str) -> None:
    names = [one for one in store.list_after(source) if not one.startswith(HIDDEN)]
    for name, body in zip(names, store.get_many(source, names), strict=True):
        if body is None:
            raise StoreFailed(f"{source}{name} is gone while it is copied")
        _put(store, f"{target}{name}", body)


def _part(position: str, number: int, of: int) -> str:
    """The position in its own partitions; one in files is the same for all."""
    try:
        offsets = msgspec.json.decode(position, type=Offsets)
    except msgspec.MsgspecError:
        return position
    mine = {
        topic: {partition: at for partition, at in its.items() if int(partition) % of == number}
        for topic, its in offsets.items()
    }
    return msgspec.json.encode({topic: its for topic, its in mine.items() if its}).decode()


def _put(store: PointerStore, key: str, body: bytes) -> None:
    if not is_certainly_put(store, key, body):
        raise StoreFailed(f"{key} was not certainly put")
