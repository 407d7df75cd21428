"""A real Spark standalone cluster on one machine, from the PySpark wheel.

Rules of this file:
- Everything listens on loopback. Each worker has its own loopback address: with a shared one, Spark hides
  the loss of an executor and exaggerates the loss of a worker.
- Everything lives in one folder, also what the JVMs would leave in the system's temporary folder.
- Everything is ended by process (pid and start time), never by name.
- The wheel is found, not imported: this file needs no Spark in its own process.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rekindle.local_cluster.processes import Ended, Process, end, wait_gone

LOOPBACK = "127.0.0.1"
START_S_MAX = 90.0
MASTER_CLASS = "org.apache.spark.deploy.master.Master"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
EXECUTOR_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
MASTER_READY = re.compile(r"Starting Spark master at (spark://\S+)")
WORKER_READY = re.compile(r"Successfully registered with master (spark://\S+)")

# Masters and workers have little to do: one collector thread, and no code that is compiled twice.
LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# A stopped worker is given up after the time-out; a killed one is noticed at once by its closed connection.
# An application may lose any number of executors: killing them is what this cluster is for.
DAEMON_SETTINGS = {
    "spark.worker.timeout": "10",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.master.rest.enabled": "false",
    "spark.worker.cleanup.enabled": "false",
    "spark.port.maxRetries": "64",
}


@dataclass(frozen=True, slots=True)
class Size:
    """What workers offer and what one application takes. The defaults let two applications run side by side,
    each with one executor of two cores on each of two workers: a zombie driver and the one that took over."""

    worker_cores: int = 4
    worker_memory_mb: int = 2048
    executor_cores: int = 2
    executor_memory_mb: int = 1024
    application_cores: int = 4


@dataclass(frozen=True, slots=True)
class Daemon:
    """A master or worker that was started: its process, its address, its folder and its log."""

    process: Process
    host: str
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "log"


class LocalCluster(Ended):
    """One master and some workers; a context manager. Workers are numbered from 0 in the order they came."""

    def __init__(
        self,
        workers: int = 2,
        *,
        size: Size | None = None,
        python: str = sys.executable,
        folder: Path | None = None,
        daemon_settings: Mapping[str, str] | None = None,
    ) -> None:
        self.size = size or Size()
        self.python = python
        self.folder = folder or Path(tempfile.mkdtemp(prefix="rekindle-cluster-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.master_url = ""
        self._first = workers
        self._daemon_settings = {**DAEMON_SETTINGS, **(daemon_settings or {})}
        self._master: Daemon | None = None
        self._workers: list[Daemon] = []
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._orphans: list[Process] = []

    def start(self) -> None:
        arguments = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
        self._master = self._spawn(MASTER_CLASS, LOOPBACK, "master", arguments)
        self.master_url = self._await(self._master, MASTER_READY)
        self._workers = [self._spawn_worker(index) for index in range(self._first)]
        for worker in self._workers:
            self._await(worker, WORKER_READY)

    def stop(self) -> None:
        """End what was started, executors first noted, and remove the folder."""
        executors = [*self._orphans, *self._executors(self._workers)]
        daemons = [*self._workers, *([self._master] if self._master else [])]
        end([daemon.process for daemon in daemons])
        wait_gone(executors, 3.0)
        end(executors)
        for child in self._children.values():
            child.wait()
        self._children.clear()
        self._orphans.clear()
        self._workers.clear()
        self._master = None
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def processes(self) -> list[Process]:
        """The daemons: the master first, then the workers."""
        return [daemon.process for daemon in [*([self._master] if self._master else []), *self._workers]]

    @property
    def worker_pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]

    def worker(self, index: int) -> Daemon:
        return self._workers[index]

    def executors(self, worker: int | None = None) -> list[Process]:
        """The executors that run now, of all workers or of one."""
        return self._executors(self._workers if worker is None else [self._workers[worker]])

    def executor_pids(self, worker: int | None = None) -> list[int]:
        return [process.pid for process in self.executors(worker)]

    def add_worker(self) -> int:
        """Start one more worker, wait until it is registered, and give its number."""
        worker = self._spawn_worker(len(self._workers))
        self._workers.append(worker)
        self._await(worker, WORKER_READY)
        return len(self._workers) - 1

    def kill_worker(self, index: int) -> None:
        """kill -9 of one worker; its executors end by themselves in a few seconds, or with the cluster."""
        worker = self._workers[index]
        self._orphans += self._executors([worker])
        worker.process.send(signal.SIGKILL)
        worker.process.wait_gone(5.0)

    def restart_worker(self, index: int) -> None:
        """Kill a worker if it lives, and start it again at the same address."""
        self.kill_worker(index)
        self._workers[index] = self._spawn_worker(index)
        self._await(self._workers[index], WORKER_READY)

    def app_settings(self, events: Path | None = None) -> dict[str, str]:
        """Settings for an application on this cluster; `events` is the folder for Spark's event log."""
        driver = self.folder / "driver"
        driver.mkdir(exist_ok=True)
        settings = {
            "spark.master": self.master_url,
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.memory": "768m",
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={driver} -XX:+PerfDisableSharedMem",
            "spark.local.dir": str(driver),
            "spark.sql.warehouse.dir": str(driver / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.executor.cores": str(self.size.executor_cores),
            "spark.executor.memory": f"{self.size.executor_memory_mb}m",
            "spark.cores.max": str(self.size.application_cores),
            "spark.port.maxRetries": "64",
        }
        return settings | (event_log_settings(events) if events else {})

    @property
    def app_env(self) -> dict[str, str]:
        """Environment variables for a driver on this cluster, on top of its own."""
        return {
            "PYSPARK_PYTHON": self.python,
            "PYSPARK_DRIVER_PYTHON": self.python,
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_HOSTNAME": LOOPBACK,
        }

    def _executors(self, workers: list[Daemon]) -> list[Process]:
        children = [child for worker in workers for child in worker.process.children()]
        return [child for child in children if EXECUTOR_CLASS in child.command()]

    def _spawn_worker(self, index: int) -> Daemon:
        host = f"127.0.0.{11 + index}"
        name = f"worker-{index}"
        work = self.folder / name / "work"
        arguments = ["--host", host, "--port", "0", "--webui-port", "0", "--work-dir", str(work)]
        arguments += ["--cores", str(self.size.worker_cores), "--memory", f"{self.size.worker_memory_mb}m"]
        return self._spawn(WORKER_CLASS, host, name, [*arguments, self.master_url])

    def _spawn(self, main: str, host: str, name: str, arguments: list[str]) -> Daemon:
        folder = self.folder / name
        temporary, local = folder / "tmp", folder / "local"
        for path in (temporary, local):
            path.mkdir(parents=True, exist_ok=True)
        home = spark_home()
        environment = os.environ | {
            "SPARK_HOME": str(home),
            # It is never there: no setting of somebody else reaches them.
            "SPARK_CONF_DIR": str(folder / "conf"),
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_HOSTNAME": host,
            "SPARK_LOCAL_DIRS": str(local),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(
                [LIGHT, *(f"-D{key}={one}" for key, one in self._daemon_settings.items())]
            ),
            # Inherited by the executors too, so that killed JVMs leave nothing outside the folder.
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={temporary} -XX:+PerfDisableSharedMem",
            "TMPDIR": str(temporary),
            "PYSPARK_PYTHON": self.python,
        }
        with (folder / "log").open("wb") as log:
            child = subprocess.Popen(
                [str(home / "bin" / "spark-class"), main, *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children[child.pid] = child
        process = Process.of(child.pid)
        assert process is not None, "a child that was not waited for keeps its entry"
        return Daemon(process, host, folder)

    def _await(self, daemon: Daemon, ready: re.Pattern[str]) -> str:
        """Wait until the daemon's log says that it is ready, and give what it says."""
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline and daemon.process.is_alive():
            if found := ready.search(daemon.log.read_text(errors="replace")):
                return found.group(1)
            time.sleep(0.1)
        raise RuntimeError(f"{daemon.folder.name} did not start:\n{daemon.log.read_text(errors='replace')[-3000:]}")


def spark_home() -> Path:
    """The folder of the installed PySpark wheel."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RuntimeError("PySpark is not installed here: pip install 'rekindle[spark]'")
    return Path(spec.origin).parent


def event_log_settings(events: Path) -> dict[str, str]:
    """One plain file per application, readable while it runs and after its driver was killed."""
    events.mkdir(parents=True, exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.absolute().as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.buffer.kb": "1",
    }
