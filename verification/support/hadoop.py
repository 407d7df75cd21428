"""HDFS on this machine, and YARN if it is asked for: real nodes of both, in one process.

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
LOGGED = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c: %m%n
"""
APPLICATION_MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"


class HadoopCluster(Ended):
    """Started on entry; ended, with all containers, on exit. Without node managers there is no YARN."""

    def __init__(self, node_managers: int = 0, memory_mb: int = 6_000) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rekindle-hadoop-"))
        self._node_managers, self._memory_mb = node_managers, memory_mb
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
        (self.folder / "log4j.properties").write_text(LOGGED)
        command += [f"-Dlog4j.configuration=file:{self.folder}/log4j.properties"]
        command += ["--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp", f"{hadoop_cluster()}/*"]
        with (self.folder / "log").open("wb") as log:
            self._child = subprocess.Popen(
                [*command, str(MAIN), str(self.folder), str(self._node_managers), str(self._memory_mb)],
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

    def url(self, path: str = "") -> str:
        """A place in HDFS."""
        return f"{self._up()[0]}/{path}"

    @property
    def web(self) -> str:
        """Host and port of WebHDFS."""
        return self._up()[1]

    @property
    def store_settings(self) -> dict[str, str]:
        """Options of a store."""
        return {"webhdfs": self.web}

    @property
    def spark_settings(self) -> dict[str, str]:
        """What Spark must be told to reach a place: nothing, a URL names the namenode."""
        return {}

    def _up(self) -> list[str]:
        return next(line for line in self.told.splitlines() if line.startswith("up ")).split()[1:]

    def masters(self) -> list[Process]:
        """The JVMs of Spark's application masters that run now: in cluster mode, of drivers."""
        found = self.process.descendants() if self.process is not None else []
        return [one for one in found if Path((one.command() or [""])[0]).name == "java" and is_master(one)]

    def stop(self) -> None:
        if self.process is not None and self._child is not None:
            end([*self.process.descendants(), self.process])
            self._child.communicate()
        self.process = self._child = None
        shutil.rmtree(self.folder, ignore_errors=True)


def is_master(process: Process) -> bool:
    return APPLICATION_MASTER in process.command()
