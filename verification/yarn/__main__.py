"""`make yarn`: one run on YARN whose application master is killed again and again, and ends as if nobody had.

- A real ResourceManager with two NodeManagers (`support/hadoop.py`), `spark-submit --master yarn`, and nothing else.
- In cluster mode the driver lives in the application master. It is killed with `kill -9` after a random number of
  partitions has been committed since it began. YARN starts the next attempt, and that one takes the run over.
- In client mode YARN does not restart the driver: a second `spark-submit` of the same line does.
- At the end `spark-submit` must have exited with 0, the rows must be those of plain arithmetic, and no key of a
  partition that was committed when a driver was killed may have been called again by a later one.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark

from rekindle.local_cluster.processes import Process, end
from support.hadoop import HadoopCluster
from support.signals import when
from yarn import shop

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SPARK = Path(str(pyspark.__file__)).parent
SUBMIT = "from rekindle.cli.main import main\n\nmain()\n"
PROGRESS_S_MAX = 1_800.0
PART = re.compile(r"part-(\d+)_(\d+)\.")
CALL = re.compile(r"(\d+)-container_(?:e\d+_)?\d+_(\d+)_(\d+)_\d+-")


@dataclass
class Shop:
    """The folder of one run: what it reads, what its Python notes, what it keeps."""

    folder: Path
    kept: list[set[int]] = field(default_factory=list)

    def make(self) -> None:
        for name in ("orders", "calls", "runs"):
            (self.folder / name).mkdir(parents=True)
        ids = range(shop.ROWS)
        columns = {"id": pa.array(ids, pa.int64()), "k": pa.array([one % shop.KEYS for one in ids], pa.int64())}
        pq.write_table(pa.table(columns), self.folder / "orders" / "part-0.parquet")
        (self.folder / "submit.py").write_text(SUBMIT)

    def committed(self) -> dict[str, Path]:
        """The files of partitions that a marker proves, by their directory and name."""
        found = {}
        for marker in self.folder.glob("runs/*/*/results/priced/*/*/_committed/*"):
            partition, task, *_ = marker.name.split("-")
            for file in marker.parent.parent.glob(f"part-{int(task)}_{int(partition):05d}.*"):
                found[str(file)] = file
        return found

    def keys(self) -> set[int]:
        """The keys of partitions that are committed now."""
        return {
            key for file in self.committed().values() for key in pq.read_table(file, columns=["k"])["k"].to_pylist()
        }

    def calls(self) -> list[tuple[int, int]]:
        """Key and attempt of the application, for each time that the user's function returned."""
        found = (CALL.match(one.name) for one in (self.folder / "calls").iterdir())
        return [(int(one[1]), int(one[3])) for one in found if one]

    def called_again(self) -> int:
        """Keys of partitions that stood when driver number i was killed, and that a later one called."""
        return sum(
            key in kept and attempt > number
            for key, attempt in self.calls()
            for number, kept in enumerate(self.kept, 1)
        )

    def rows(self) -> list[tuple[int, int, int, int]]:
        files = (self.folder / "out" / "current").resolve()
        table = pa.concat_tables(pq.read_table(file) for file in sorted(files.rglob("*.parquet")))
        return sorted(tuple(row.values()) for row in table.select(["k", "n", "newest", "price"]).to_pylist())


def expected() -> list[tuple[int, int, int, int]]:
    each = shop.ROWS // shop.KEYS
    return [(k, each, k + (each - 1) * shop.KEYS, 2 * k) for k in range(shop.KEYS)]


def submit(cluster: HadoopCluster, place: Shop, mode: str, attempts: int) -> subprocess.Popen[bytes]:
    python = str(Path(sys.executable))
    given = {
        "SHOP_FOLDER": str(place.folder),
        "SHOP_SECONDS": str(shop.SECONDS),
        "SHOP_PARTITIONS": str(shop.PARTITIONS),
    }
    settings = {
        "spark.yarn.maxAppAttempts": str(attempts),
        "spark.yarn.jars": f"local:{SPARK}/jars/*",
        "spark.yarn.am.memory": "512m",
        "spark.driver.memory": "768m",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "2",
        "spark.executor.cores": "1",
        "spark.yarn.submit.waitAppCompletion": "true",
        "spark.ui.enabled": "false",
        "spark.driver.host" if mode == "client" else "spark.rekindle.ignored": "127.0.0.1",
        "spark.rekindle.location": str(place.folder / "runs"),
        **{f"spark.yarn.appMasterEnv.{name}": value for name, value in given.items()},
        **{f"spark.executorEnv.{name}": value for name, value in given.items()},
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": python,
        "spark.yarn.appMasterEnv.SPARK_HOME": str(SPARK),
        "spark.executorEnv.SPARK_HOME": str(SPARK),
    }
    settings.pop("spark.rekindle.ignored", None)
    command = [str(SPARK / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += [str(place.folder / "submit.py"), "run", str(HERE / "shop.py")]
    env = (
        os.environ | given | {"HADOOP_CONF_DIR": str(cluster.conf), "PYSPARK_PYTHON": python, "SPARK_HOME": str(SPARK)}
    )
    with (place.folder / f"submit-{time.time_ns()}.log").open("wb") as log:
        return subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT, cwd=place.folder)


def kill_after_progress(cluster: HadoopCluster, place: Shop, child: subprocess.Popen[bytes], least: int) -> bool:
    """Kill the application master once so many more partitions are committed; False if the run ended before."""
    begun = len(place.committed())
    when(
        lambda: child.poll() is not None or len(place.committed()) >= begun + least,
        PROGRESS_S_MAX,
        every_s=0.2,
        sign=lambda: (len(place.committed()), len(list((place.folder / "calls").iterdir()))),
    )
    masters = cluster.masters()
    if child.poll() is not None or not masters:
        return False
    place.kept.append(place.keys())
    for master in masters:
        master.send(signal.SIGKILL)
    when(lambda: not any(one.is_alive() for one in masters), PROGRESS_S_MAX)
    return True


def in_cluster_mode(cluster: HadoopCluster, folder: Path, kills: int, rng: random.Random) -> tuple[Shop, int, int]:
    place = Shop(folder)
    place.make()
    child = submit(cluster, place, "cluster", kills + 2)
    done = 0
    while done < kills:
        most = max(1, (shop.PARTITIONS - len(place.committed())) // (kills - done + 1))
        if not kill_after_progress(cluster, place, child, rng.randint(1, most)):
            break
        done += 1
        print(f"killed driver {done}: {len(place.kept[-1])} of {shop.KEYS} keys stood", flush=True)
    return place, child.wait(PROGRESS_S_MAX), done


def in_client_mode(cluster: HadoopCluster, folder: Path) -> tuple[Shop, int, int]:
    """The driver is killed once, and the same line is typed again."""
    place = Shop(folder)
    place.make()
    child = submit(cluster, place, "client", 1)
    when(lambda: child.poll() is not None or len(place.committed()) >= 2, PROGRESS_S_MAX, every_s=0.2)
    process = Process.of(child.pid)
    if process is not None:
        end([process, *process.descendants()], grace_s=0)
    child.wait()
    return place, submit(cluster, place, "client", 1).wait(PROGRESS_S_MAX), 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill the application master of a run on YARN, again and again.")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave the folder")
    options = parser.parse_args()
    started = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="rekindle-yarn-"))
    with HadoopCluster(node_managers=2) as cluster:
        print(f"Hadoop is up: {cluster.url()}", flush=True)
        place, code, kills = in_cluster_mode(cluster, root / "cluster", options.kills, random.Random(options.seed))
        other, other_code, _ = in_client_mode(cluster, root / "client")
    is_equal, other_equal = (one.rows() == expected() for one in (place, other))
    print(
        f"RESULT kills={kills} exit={code} rows_equal={is_equal} called_again={place.called_again()} "
        f"calls={len(place.calls())} keys={shop.KEYS} client_exit={other_code} client_rows_equal={other_equal} "
        f"pyspark={pyspark.__version__} minutes={(time.monotonic() - started) / 60:.1f}"
    )
    if not options.keep:
        shutil.rmtree(root, ignore_errors=True)
    is_good = kills == options.kills and code == other_code == 0 and is_equal and other_equal
    return 0 if is_good and not place.called_again() else 1


if __name__ == "__main__":
    raise SystemExit(main())
