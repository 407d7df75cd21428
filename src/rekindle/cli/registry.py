"""Every subcommand, by name. A module is imported when its command is asked for, so that `--help` waits for nothing.

Each module has one click command called `command`. The line here is the one that `rekindle --help` prints; a test
compares it with the command's own first sentence.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """Where a command lives, and what it does in one line."""

    module: str
    line: str


COMMANDS: dict[str, Entry] = {}
