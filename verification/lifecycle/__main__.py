"""`make lifecycle`: table D of the scenarios, end to end on a real cluster. Exit 0 only if every set was exact."""

from __future__ import annotations

import sys
from pathlib import Path

import stage
from campaign import perform
from cluster_test.__main__ import make_input
from cluster_test.driver import Answer, Order
from lifecycle.cases import CASES

HERE = Path(__file__).parent
MINUTES_MAX = 15
LIFE = stage.Play(HERE / "driver.py", HERE / "user_code.py", Order, Answer)

if __name__ == "__main__":
    sys.exit(perform("lifecycle", LIFE, CASES, make_input, MINUTES_MAX))
