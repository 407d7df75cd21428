"""Versions at which a run reads tables that have a log of their own: chosen when a source is first read, noted in the
journal among the settings of the run, and read again by every driver of it, whatever was committed since.

- One setting for each source that reads such tables, one line in it for each table.
- Two sources of one run read a table at one version.
- A source that the user has computed again reads the newest.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from typing import NamedTuple

PREFIX = "spark.rekindle.version."


DELTA, ICEBERG = "Delta", "Iceberg"


class TableVersion(NamedTuple):
    """A table by its path, or by its name in a catalog, with the id that tells it from another one there, and its
    version, committed `at_ms`. Of Iceberg the version is a snapshot, and the id has the number of the schema that it is
    read with behind a slash."""

    path: str
    id: str
    version: int
    at_ms: int
    format: str = DELTA

    @property
    def table(self) -> str:
        """The id of the table alone."""
        return self.id.partition("/")[0]

    @property
    def shown(self) -> str:
        return f"{'snapshot' if self.format == ICEBERG else 'version'} {self.version} of {self.path}"


def noted(versions: Mapping[str, tuple[TableVersion, ...]]) -> dict[str, str]:
    """The settings that tell the versions of each source."""
    return {f"{PREFIX}{source}": json.dumps(tables) for source, tables in versions.items()}


def read(settings: Mapping[str, str]) -> dict[str, tuple[TableVersion, ...]]:
    """The versions of each source, as settings tell them."""
    return {
        name.removeprefix(PREFIX): tuple(TableVersion(*one) for one in json.loads(told))
        for name, told in settings.items()
        if name.startswith(PREFIX)
    }


def without(settings: Mapping[str, str], sources: Container[str]) -> dict[str, str]:
    """The settings without what these sources read."""
    return {name: told for name, told in settings.items() if name.removeprefix(PREFIX) not in sources}


def unversioned(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that no table is told by."""
    return {name: told for name, told in settings.items() if not name.startswith(PREFIX)}
