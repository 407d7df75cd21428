"""`make strategies`: every failover strategy under the same faults. Exit 0 only if what was planned is what ran."""

from __future__ import annotations

import sys

from campaign import perform
from cluster_test.__main__ import make_input
from cluster_test.play import SHOP
from strategies.cases import CASES

MINUTES_MAX = 20

if __name__ == "__main__":
    sys.exit(perform("strategies", SHOP, CASES, make_input, MINUTES_MAX))
