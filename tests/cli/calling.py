"""Call the command as the script does, in this process."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from rekindle.cli.boundary import guarded
from rekindle.cli.main import group


class Said(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> Said:
    capsys.readouterr()
    code = guarded(group, arguments)
    said = capsys.readouterr()
    return Said(int(code), said.out, said.err)
