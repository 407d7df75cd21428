"""`make killed-publications`: 200 publishers of each kind of target die by kill -9, at every step, and readers look.

After each death every reader must see exactly the old rows or exactly the new ones; when the next master of the run has
published, exactly the new ones, once; and nothing may go back when a publisher wakes up that was frozen meanwhile. For
`rk.replace` and for readers of a directory on an object store, who are promised less, what they saw is told.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from build_jar import JAR
from killed_publications.modes import MODES
from killed_publications.planted import PLANTED
from killed_publications.readers import NEW, OLD, Library, Place
from killed_publications.rounds import Figures, Rounds
from local_spark import local_spark
from rekindle.local_cluster.cluster import LIGHT
from support.s3 import S3Server


def told(figures: Figures, killed_at: int) -> str:
    watched = " ".join(
        f"{name.replace(' ', '-')}:" + ",".join(f"{kind}={count}" for kind, count in sorted(counts.items()))
        for name, counts in figures.watched.items()
    )
    window = ",".join(f"{kind}={count}" for kind, count in sorted(figures.unpromised.items())) or "none"
    return (
        f"deaths={figures.kills + figures.jvm_kills + figures.zombies} sigkills={figures.kills} "
        f"with_jvm={figures.jvm_kills} zombies={figures.zombies} "
        f"killed_awake={figures.killed_awake} stale_until_next={figures.stale} "
        f"steps={figures.longest} killed_at={killed_at} kinds_of_steps={len(figures.steps)} "
        f"old={figures.after[OLD]} new={figures.after[NEW]} wrong={len(figures.wrong)} unpromised={window} "
        f"watched=[{watched}] woken={dict(figures.answers)} errors={dict(figures.errors)}"
    )


@dataclass(slots=True)
class Campaign:
    """One Spark application whose JVM all forked publishers share."""

    asked: argparse.Namespace
    folder: Path
    spark: SparkSession
    settings: dict[str, str]
    wrong: int = 0

    def play(self, mode: str, place: Place) -> None:
        parameters = self.spark.sparkContext._gateway.gateway_parameters
        rounds = Rounds(
            library=Library(self.spark, place),
            mode=mode,
            folder=self.folder,
            gateway=(parameters.port, parameters.auth_token),
            spark=self.settings,
            planted=self.asked.planted,
        )
        began = time.monotonic()
        rounds.play(self.asked.deaths if place.server is None else self.asked.deaths_s3)
        rounds.play_with_jvm(self.asked.with_jvm if place.server is None else self.asked.with_jvm // 2)
        self.wrong += len(rounds.figures.wrong)
        figures = told(rounds.figures, len(rounds.kills.reached))
        print(
            f"RESULT killed_publications mode={mode} storage={place.name} {figures} "
            f"minutes={(time.monotonic() - began) / 60:.1f}",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="killed-publications", description=__doc__)
    parser.add_argument("--deaths", type=int, default=200, help="publishers that die, for each mode on a disk")
    parser.add_argument("--deaths-s3", type=int, default=40)
    parser.add_argument("--with-jvm", type=int, default=6, help="more of them, whose own JVM dies too; on S3 half")
    parser.add_argument("--only", choices=list(MODES), action="append")
    parser.add_argument("--on", choices=["disk", "s3"], action="append")
    parser.add_argument("--planted", choices=[name for name in PLANTED if name], default="")
    asked = parser.parse_args()
    # Publishers that are forked share the JVM of this process, each with threads of its own there.
    os.environ["PYSPARK_PIN_THREAD"] = "false"
    folder, began = Path(tempfile.mkdtemp(prefix="killed-publications-")), time.monotonic()
    on = asked.on or ["disk", "s3"]
    try:
        with S3Server() if "s3" in on else nullcontext() as server:
            settings = _settings(folder, server)
            campaign = Campaign(asked, folder, local_spark(settings), settings)
            for where in on:
                at = server if where == "s3" else None
                place = Place(where, at.url("s3") if at is not None else f"file:{folder}/disk", at)
                for mode in asked.only or MODES:
                    campaign.play(mode, place)
            campaign.spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"RESULT killed_publications wrong={campaign.wrong} minutes={(time.monotonic() - began) / 60:.1f}")
    return 1 if campaign.wrong else 0


def _settings(folder: Path, server: S3Server | None) -> dict[str, str]:
    """Our classes are on the class path: threads of other processes have no session whose jars they could know."""
    settings = server.spark_settings if server is not None else {}
    paths = [str(JAR), *filter(None, [settings.get("spark.driver.extraClassPath")])]
    return settings | {
        "spark.driver.extraClassPath": os.pathsep.join(paths),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": LIGHT,
    }


if __name__ == "__main__":
    sys.exit(main())
