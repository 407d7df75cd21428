"""What Spark's own event logs say that a weather did: without it a round has shown nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Of all drivers of a weather. `gone` are the reasons why executors went, `properties` what Spark was told."""

    added: int
    gone: tuple[str, ...]
    speculative: int
    properties: dict[str, str]

    def count(self, word: str) -> int:
        """Executors that went for a reason with this word."""
        return sum(word in one.lower() for one in self.gone)


def seen_in(folders: Iterable[Path]) -> Seen:
    events = [event for folder in folders for event in _events(folder)]
    kinds = {kind: [one for one in events if one["Event"] == kind] for kind in {one["Event"] for one in events}}
    started = kinds.get("SparkListenerTaskStart", [])
    told = kinds.get("SparkListenerEnvironmentUpdate", [])
    return Seen(
        added=len(kinds.get("SparkListenerExecutorAdded", [])),
        gone=tuple(one["Removed Reason"] for one in kinds.get("SparkListenerExecutorRemoved", [])),
        speculative=sum(one["Task Info"]["Speculative"] for one in started),
        properties=dict(told[-1]["Spark Properties"]) if told else {},
    )


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    """The last line of a killed driver may be torn."""
    for file in sorted(one for one in folder.rglob("*") if one.is_file()):
        for line in file.read_text(errors="replace").splitlines():
            if line.startswith('{"Event"') and line.endswith("}"):
                yield json.loads(line)
