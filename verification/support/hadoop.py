"""YARN and HDFS on this machine: a real ResourceManager, two NodeManagers, a NameNode and a DataNode, in one process.

Everything listens on loopback. Containers are children of that process, so that one is found and killed by its pid.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from parts import hadoop_cluster
from rekindle.local_cluster.processes import Ended, Process, end
from support.signals import when

MAIN = Path(__file__).with_name("HadoopCluster.java")
START_S_MAX = 600
APPLICATION_MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"


class HadoopCluster(Ended):
    """Started on entry; ended, with all containers, on exit."""

    def __init__(self, memory_mb: int = 6_000) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rekindle-hadoop-"))
        self._memory_mb = memory_mb
        self._child: subprocess.Popen[bytes] | None = None
        self.process: Process | None = None

    @property
    def conf(self) -> Path:
        """What HADOOP_CONF_DIR is to name."""
        return self.folder / "conf"

    @property
    def told(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> None:
        command = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m"]
        command += ["--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp", f"{hadoop_cluster()}/*"]
        with (self.folder / "log").open("wb") as log:
            self._child = subprocess.Popen(
                [*command, str(MAIN), str(self.folder), str(self._memory_mb)],
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.process = Process.of(self._child.pid)
        when(self._is_up, START_S_MAX, every_s=0.5)

    def _is_up(self) -> bool:
        if self._child is not None and self._child.poll() is not None:
            raise RuntimeError(f"Hadoop ended: {self.told[-3000:]}")
        return "\nup " in f"\n{self.told}"

    @property
    def files(self) -> str:
        """The address of HDFS."""
        return self._up()[0]

    @property
    def web_files(self) -> str:
        """The address of WebHDFS."""
        return self._up()[1]

    def _up(self) -> list[str]:
        return next(line for line in self.told.splitlines() if line.startswith("up ")).split()[1:]

    def masters(self) -> list[Process]:
        """The JVMs of Spark's application masters that run now: in cluster mode, of drivers."""
        found = self.process.descendants() if self.process is not None else []
        return [one for one in found if Path((one.command() or [""])[0]).name == "java" and is_master(one)]

    def stop(self) -> None:
        if self.process is not None and self._child is not None:
            end([*self.process.descendants(), self.process])
            self._child.wait()
        self.process = self._child = None
        shutil.rmtree(self.folder, ignore_errors=True)


def is_master(process: Process) -> bool:
    return APPLICATION_MASTER in process.command()
