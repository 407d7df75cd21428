"""One application that plays one case again and again, on one side, until it was struck often enough."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from corruption_cases import rows
from corruption_cases.bare import BARE
from corruption_cases.kept import KEPT
from corruption_cases.rows import Strike


class Round(msgspec.Struct, frozen=True):
    """What came of one round; nothing wrong is an empty text."""

    wrong: str
    has_struck: bool


def main() -> None:
    side, case, folder, wanted = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    cloudpickle.register_pickle_by_value(rows)  # Executors cannot import it.
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    play = (BARE if side == "bare" else KEPT)[case]
    struck = 0
    for number in range(wanted * 2):
        strike = Strike(spark)
        said = Round(play(spark, f"file:{folder}/{number}", strike), strike.has_struck)
        print(f"SAID {msgspec.json.encode(said).decode()}", flush=True)
        struck += said.has_struck
        if struck == wanted:
            break
    spark.stop()


if __name__ == "__main__":
    main()
