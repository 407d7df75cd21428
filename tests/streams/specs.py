"""A region for tests: what it is where nothing else is said."""

from __future__ import annotations

from typing import Any

from rekindle.streams.stream_spec import Delivery, RegionSpec


def region_spec(name: str, **given: Any) -> RegionSpec:
    usual = {
        "steps": ("orders", name),
        "sources": ("orders",),
        "target": f"files {name}",
        "delivery": Delivery.EXACTLY_ONCE,
        "trigger": "10 seconds",
        "output_mode": "append",
    }
    return RegionSpec(name=name, **{**usual, **given})
