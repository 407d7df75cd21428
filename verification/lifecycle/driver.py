"""The driver of the cluster test, whose deletions can be made slow."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from cluster_test.driver import Order, Runner
from rekindle.engine.spark.run.engine import SparkEngine
from stage import serve

SLOW_SECONDS = float(os.environ.get("LIFE_DELETES_AFTER", "0"))


def slowly(ours: Any) -> Any:
    def delete(self: SparkEngine, attempt: Any) -> None:
        time.sleep(SLOW_SECONDS)
        ours(self, attempt)

    return delete


if __name__ == "__main__":
    SparkEngine._delete = slowly(SparkEngine._delete)  # type: ignore[method-assign]
    sys.exit(serve(Runner, Order, lambda order: order.name))
