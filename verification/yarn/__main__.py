"""`make yarn`: one run on YARN whose application master is killed again and again, and ends as if nobody had.

- A real ResourceManager with two NodeManagers, a namenode and a datanode (`support/hadoop.py`), and `spark-submit
  --master yarn` as docs/how-to/yarn.md has it: a queue, `--py-files`, `--archives`, `--files`. Source, location and
  target are on HDFS.
- In cluster mode the driver lives in the application master. It is killed with `kill -9` after a random number of
  partitions has been committed since it began. YARN starts the next attempt, and that one takes the run over.
- In client mode YARN does not restart the driver: a second `spark-submit` of the same line does.
- With `--release 3.5` all of it is done by an environment with that PySpark, into which the wheel of this tree was
  installed by pip: what somebody has on EMR.
- At the end `spark-submit` must have exited with 0, the rows must be those that Spark makes without Rekindle, and no
  key of a partition that was committed when a driver was killed may have been called by a later one.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rekindle.local_cluster.cluster import LIGHT
from rekindle.local_cluster.processes import Process, end
from rekindle.storage.hdfs import HdfsStore
from spark_environments import pyspark_of, with_wheel
from support.hadoop import HadoopCluster
from support.signals import when

HERE = Path(__file__).parent
SUBMIT = "from rekindle.cli.main import main\n\nmain()\n"
FACTOR = 2
# For JVMs that live for a minute.
PROGRESS_S_MAX = 1_200.0
MARKER = re.compile(r"(?P<attempt>.*/results/priced/.*)/_committed/(?P<partition>\d+)-(?P<task>\d+)-")
CALL = re.compile(r"(?P<key>\d+)-container_(?:e\d+_)?(?P<application>\d+_\d+)_(?P<attempt>\d+)_\d+-")


@dataclass(kw_only=True)
class Shop:
    """One run: its folder for what is local, its place on HDFS, and which keys stood when a driver was killed."""

    folder: Path
    cluster: HadoopCluster
    name: str
    partitions: int
    seconds: float
    python: Path
    kept: list[set[int]] = field(default_factory=list)
    submitted: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.place = self.cluster.url(self.name)
        self.store = HdfsStore(self.place, self.cluster.store_settings)
        self.calls_folder = self.folder / "calls"

    @property
    def keys(self) -> int:
        return 4 * self.partitions

    def make(self) -> None:
        self.calls_folder.mkdir(parents=True)
        ids = range(10 * self.keys)
        columns = {"id": pa.array(ids, pa.int64()), "k": pa.array([one % self.keys for one in ids], pa.int64())}
        body = io.BytesIO()
        pq.write_table(pa.table(columns), body)
        self.store.put("orders/part-0.parquet", body.getvalue())
        (self.folder / "submit.py").write_text(SUBMIT)
        shutil.copy(HERE / "shop.py", self.folder)
        for archive, name, text in (
            ("pricing.zip", "pricing.py", (HERE / "pricing.py").read_text()),
            ("rates.zip", "factor", str(FACTOR)),
        ):
            with zipfile.ZipFile(self.folder / archive, "w") as made:
                made.writestr(name, text)

    def committed(self) -> dict[tuple[str, int], str]:
        """By attempt directory and partition: how the names of the files begin that a marker proves."""
        names = (entry.name for page in self.store.walk("runs/shop/") for entry in page)
        found = filter(None, map(MARKER.match, names))
        return {
            (one["attempt"], int(one["partition"])): f"part-{int(one['task'])}_{int(one['partition']):05d}."
            for one in found
        }

    def committed_keys(self) -> set[int]:
        """The keys of partitions that are committed now."""
        keys: set[int] = set()
        for (attempt, _), begin in self.committed().items():
            folder = f"runs/shop/{attempt}/"
            for name in self.store.list_after(folder):
                if name.startswith(begin):
                    body = self.store.get(folder + name)
                    keys.update(pq.read_table(io.BytesIO(body or b""), columns=["k"])["k"].to_pylist())
        return keys

    def calls(self) -> list[tuple[int, int]]:
        """Key and number of the driver, for each time that the user's function returned. In client mode each driver has
        an application of its own, in cluster mode each has an attempt of one application."""
        found = [one for one in (CALL.match(file.name) for file in self.calls_folder.iterdir()) if one]
        applications = sorted({one["application"] for one in found})
        return [(int(one["key"]), applications.index(one["application"]) + int(one["attempt"])) for one in found]

    def called_again(self) -> int:
        """Keys of partitions that stood when driver number i was killed, and that a later one called."""
        return sum(
            key in kept and driver > number for key, driver in self.calls() for number, kept in enumerate(self.kept, 1)
        )

    def rows_differ(self) -> str:
        """What the comparison with Spark alone says of the version that was published."""
        [version] = self.store.list_folders("out/versions/")
        command = [
            str(self.python),
            str(HERE / "bare.py"),
            self.place,
            str(FACTOR),
            f"{self.place}/out/versions/{version}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRESS_S_MAX)
        return next((line for line in done.stdout.splitlines() if line.startswith("DIFFER")), done.stderr[-2000:])

    def is_equal(self) -> bool:
        return self.rows_differ() == f"DIFFER 0 OF {self.keys}"

    def log(self) -> str:
        """The end of what the last spark-submit said."""
        return max(self.folder.glob("submit-*.log")).read_text(errors="replace")[-3000:]


def submit(shop: Shop, mode: str, attempts: int) -> subprocess.Popen[bytes]:
    """Type the command of the page, in the folder of the run."""
    home = pyspark_of(shop.python)[1].parent
    given = {
        "SHOP_PLACE": shop.place,
        "SHOP_CALLS": str(shop.calls_folder),
        "SHOP_SECONDS": str(shop.seconds),
        "SHOP_PARTITIONS": str(shop.partitions),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    settings = {
        "spark.yarn.maxAppAttempts": str(attempts),
        "spark.yarn.jars": f"local:{home}/jars/*",
        # A busy machine takes longer than the usual 100 s to start a driver, and YARN would count that as an attempt.
        "spark.yarn.am.waitTime": "1200s",
        "spark.network.timeout": "600s",
        "spark.yarn.am.memory": "512m",
        "spark.driver.memory": "768m",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "1",
        "spark.executor.cores": "2",
        "spark.ui.enabled": "false",
        **{f"spark.{who}.extraJavaOptions": LIGHT for who in ("driver", "executor", "yarn.am")},
        "spark.sql.shuffle.partitions": "4",
        "spark.rekindle.location": f"{shop.place}/runs",
        "spark.rekindle.storage.webhdfs": shop.cluster.web,
        "spark.rekindle.lease.stale_seconds": "10",
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": str(shop.python),
        **{f"spark.yarn.appMasterEnv.{name}": value for name, value in given.items()},
        **{f"spark.executorEnv.{name}": value for name, value in given.items()},
    }
    if mode == "client":
        settings["spark.driver.host"] = "127.0.0.1"
    else:
        del settings["spark.yarn.am.extraJavaOptions"]
    command = [str(home / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", mode, "--queue", "default"]
    command += ["--py-files", "pricing.zip", "--archives", "rates.zip#rates", "--files", "shop.py"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["submit.py", "run", "shop.py"]
    environment = os.environ | given
    environment |= {"HADOOP_CONF_DIR": str(shop.cluster.conf), "PYSPARK_PYTHON": str(shop.python)}
    with (shop.folder / f"submit-{time.time_ns()}.log").open("wb") as log:
        child = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=shop.folder)
    shop.submitted.append(child)
    return child


def end_submitted(shop: Shop) -> None:
    """What still runs of it, also where the harness was interrupted."""
    for child in shop.submitted:
        process = Process.of(child.pid) if child.poll() is None else None
        if process is not None:
            end([*process.descendants(), process], grace_s=0)
            child.wait()


def wait_for(shop: Shop, child: subprocess.Popen[bytes], count: int) -> None:
    """Until so many partitions are committed, or the run has ended."""
    when(
        lambda: child.poll() is not None or len(shop.committed()) >= count,
        PROGRESS_S_MAX,
        every_s=0.5,
        sign=lambda: (len(shop.committed()), len(list(shop.calls_folder.iterdir())), shop.log()),
    )


def kill_masters(shop: Shop, child: subprocess.Popen[bytes]) -> bool:
    """Kill the driver that runs, and wait until it is gone; False if the run ended before."""
    masters = shop.cluster.masters()
    if child.poll() is not None or not masters:
        return False
    for master in masters:
        master.send(signal.SIGSTOP)
    shop.kept.append(shop.committed_keys())
    for master in masters:
        master.send(signal.SIGKILL)
    when(lambda: not any(one.is_alive() for one in masters), PROGRESS_S_MAX)
    return True


def in_cluster_mode(shop: Shop, kills: int, rng: random.Random) -> tuple[int, int]:
    """The exit code of spark-submit, and how often the application master was killed."""
    shop.make()
    child, done = submit(shop, "cluster", kills + 2), 0
    while done < kills:
        stood = len(shop.committed())
        most = max(1, (shop.partitions - stood) // (kills - done + 1))
        wait_for(shop, child, stood + rng.randint(1, most))
        if not kill_masters(shop, child):
            break
        done += 1
        print(f"killed driver {done}: {len(shop.kept[-1])} of {shop.keys} keys stood", flush=True)
    return child.wait(PROGRESS_S_MAX), done


def in_client_mode(shop: Shop) -> int:
    """The driver is killed once, and the same line is typed again."""
    shop.make()
    child = submit(shop, "client", 1)
    wait_for(shop, child, 2)
    end_submitted(shop)
    shop.kept.append(shop.committed_keys())
    print(f"killed the driver of client mode: {len(shop.kept[-1])} of {shop.keys} keys stood", flush=True)
    return submit(shop, "client", 1).wait(PROGRESS_S_MAX)


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill the application master of a run on YARN, again and again.")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=0.25, help="how long a key takes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--release", help="of PySpark, such as 3.5, with the wheel; default: this environment")
    parser.add_argument("--only", choices=("cluster", "client"))
    parser.add_argument("--keep", action="store_true", help="leave the folder")
    options = parser.parse_args()
    started = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="rekindle-yarn-"))
    python = with_wheel(options.release) if options.release else Path(sys.executable)
    told, is_good = [], True
    with HadoopCluster(node_managers=2) as cluster:
        print(f"Hadoop is up: {cluster.url()}", flush=True)
        for name in (options.only,) if options.only else ("cluster", "client"):
            shop = Shop(
                folder=root / name,
                cluster=cluster,
                name=name,
                partitions=options.partitions,
                seconds=options.seconds,
                python=python,
            )
            try:
                if name == "cluster":
                    code, kills = in_cluster_mode(shop, options.kills, random.Random(options.seed))
                else:
                    code, kills = in_client_mode(shop), 1
                is_equal = code == 0 and shop.is_equal()
                if not is_equal:
                    print(shop.log())
            finally:
                end_submitted(shop)
            again = shop.called_again()
            told.append(
                f"{name}_kills={kills} {name}_exit={code} {name}_rows_equal={is_equal} "
                f"{name}_stood={','.join(str(len(one)) for one in shop.kept)} {name}_called_again={again} "
                f"{name}_calls={len(shop.calls())}"
            )
            print(told[-1], flush=True)
            is_good &= is_equal and not again and kills == (options.kills if name == "cluster" else 1)
    minutes = (time.monotonic() - started) / 60
    print(f"RESULT yarn {' '.join(told)} keys={shop.keys} pyspark={pyspark_of(python)[0]} minutes={minutes:.1f}")
    if not options.keep:
        shutil.rmtree(root, ignore_errors=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    raise SystemExit(main())
