"""What somebody may have meant who typed a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that names the nearest ones; empty where nothing is near."""
    found = get_close_matches(name, list(known), n=2)
    return f"did you mean {' or '.join(found)}?" if found else ""
