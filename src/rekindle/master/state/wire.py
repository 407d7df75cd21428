"""How the master's values become plain bytes and back. No IO here: the journal and the snapshots call it.

Partition sets travel as portable Roaring bitmaps, so that one event can name a million partitions.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import msgspec

from rekindle.master.facts.graph_spec import GraphSpec
from rekindle.master.state.graph_index import GraphIndex
from rekindle.model.partitions import Partitions


def enc_hook(value: Any) -> Any:
    """For `msgspec` encoders: what they do not know by themselves."""
    if isinstance(value, Partitions):
        return value.to_bytes()
    if isinstance(value, GraphIndex):
        return msgspec.to_builtins(value.spec)
    raise NotImplementedError(f"{type(value).__name__} has no form on the wire")


def dec_hook(wanted: type, value: Any) -> Any:
    """For `msgspec` decoders: the inverse of `enc_hook`, from JSON (text) and from MessagePack (bytes)."""
    if wanted is Partitions:
        return Partitions.from_bytes(b64decode(value) if isinstance(value, str) else value)
    if wanted is GraphIndex:
        return GraphIndex(msgspec.convert(value, GraphSpec))
    raise NotImplementedError(f"{wanted.__name__} has no form on the wire")
