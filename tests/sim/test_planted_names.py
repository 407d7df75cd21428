"""Every planted bug can be planted: what it replaces is there. `make planted` hunts them."""

from __future__ import annotations

import pytest

from planted_bugs import BUGS, Bug


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_what_it_replaces_is_there(bug: Bug) -> None:
    with bug.plant():
        pass
