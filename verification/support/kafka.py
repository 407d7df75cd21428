"""A real Kafka broker on loopback, for one test module: one process, which is broker and controller.

It keeps its topics in a folder of its own, and is ended by process. It is up when it names itself in its answer to a
request, not when a port is open. The few requests that tests need are written here by hand: a client would be one more
dependency, and Spark's connector can neither make a topic of so many partitions nor delete records.
"""

from __future__ import annotations

import base64
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from parts import kafka_broker
from rekindle.local_cluster.processes import Ended, Process, end
from support.signals import when

LOOPBACK = "127.0.0.1"
START_S_MAX = 180.0
ANSWER_S_MAX = 30.0
# The numbers of requests, and the versions that are written here.
METADATA, CREATE_TOPICS, DELETE_RECORDS = (3, 0), (19, 2), (21, 0)
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers={host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/topics
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


JMX = (
    "-Dcom.sun.management.jmxremote.port={port} -Dcom.sun.management.jmxremote.rmi.port={port} "
    "-Dcom.sun.management.jmxremote.host={host} -Djava.rmi.server.hostname={host} "
    "-Dcom.sun.management.jmxremote.authenticate=false -Dcom.sun.management.jmxremote.ssl=false"
)
PROBE = Path(__file__).with_name("KafkaProbe.java")


class KafkaBroker(Ended):
    """The broker; a context manager."""

    def __init__(self, *, counts: bool = False) -> None:
        """With `counts` it tells its own counters, on a port of loopback."""
        self.folder = Path(tempfile.mkdtemp(prefix="rekindle-kafka-"))
        self.port, self._controller, counters = _free_ports(3)
        self._counters = counters if counts else 0
        self.process: Process | None = None
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def start(self) -> None:
        settings = self.folder / "server.properties"
        given = {"host": LOOPBACK, "port": self.port, "controller": self._controller, "folder": self.folder}
        settings.write_text(PROPERTIES.format(**given))
        name = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").lstrip("-") or "cluster"
        formatted = [*_java(), "-Xmx128m", "kafka.tools.StorageTool", "format", "--standalone", "-t", name]
        with (self.folder / "log").open("wb") as file:
            subprocess.run([*formatted, "-c", str(settings)], check=True, stdout=file, stderr=subprocess.STDOUT)
        self._run()

    def kill_and_start_again(self) -> None:
        """kill -9, and the same broker over what it had written."""
        assert self.process is not None and self._child is not None, "it runs"
        self.process.send(signal.SIGKILL)
        self._child.wait()
        self._run()

    def _run(self) -> None:
        with (self.folder / "log").open("ab") as file:
            self._child = subprocess.Popen(
                [
                    *_java(),
                    "-Xms128m",
                    "-Xmx256m",
                    *(JMX.format(port=self._counters, host=LOOPBACK).split() if self._counters else ()),
                    "kafka.Kafka",
                    str(self.folder / "server.properties"),
                ],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.process = Process.of(self._child.pid)
        when(self._is_up, START_S_MAX, every_s=0.1)

    def stop(self) -> None:
        if self.process is not None and self._child is not None:
            end([self.process])
            self._child.wait()
        self.process = self._child = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def make_topic(self, name: str, partitions: int = 1) -> None:
        no_more = struct.pack(">ii", 0, 0)
        body = struct.pack(">i", 1) + _text(name) + struct.pack(">ih", partitions, 1) + no_more
        answer = self._ask(CREATE_TOPICS, body + struct.pack(">i?", 30_000, False))
        # After the time that it waited: how many, the name, an error.
        _refuse_errors(f"topic {name}", answer[8 + 2 + len(name) :])

    def send(self, topic: str, values: Sequence[str]) -> None:
        """One record for each value."""
        said = "".join(f"{one}\n" for one in values).encode()
        subprocess.run(
            [*_java(), str(PROBE), "send", self.address, topic],
            input=said,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def bytes_out(self, topic: str) -> int:
        """How many bytes of a topic it has sent to consumers, as it counts them itself."""
        asked = [*_java(), str(PROBE), "sent", str(self._counters), topic]
        return int(subprocess.run(asked, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)

    def lose_records(self, topic: str, before: int, partition: int = 0) -> None:
        """Its records before this offset are gone, as those are that were kept long enough."""
        body = struct.pack(">i", 1) + _text(topic) + struct.pack(">iiq", 1, partition, before)
        answer = self._ask(DELETE_RECORDS, body + struct.pack(">i", 30_000))
        # After the time that it waited: how many, the name, how many, the partition, the lowest offset, an error.
        _refuse_errors(f"records of {topic}", answer[8 + 2 + len(topic) + 4 + 4 + 8 :])

    def _is_up(self) -> bool:
        if self._child is not None and self._child.poll() is not None:
            raise RuntimeError(f"the broker ended: {(self.folder / 'log').read_text()[-2000:]}")
        try:
            (brokers,) = struct.unpack(">i", self._ask(METADATA, struct.pack(">i", 0))[:4])
        except OSError:
            return False
        return bool(brokers == 1)

    def _ask(self, request: tuple[int, int], body: bytes) -> bytes:
        """The answer, after the number of the question."""
        with socket.create_connection((LOOPBACK, self.port), ANSWER_S_MAX) as connection:
            said = struct.pack(">hhi", *request, 1) + _text("tests") + body
            connection.sendall(struct.pack(">i", len(said)) + said)
            (length,) = struct.unpack(">i", _read(connection, 4))
            return _read(connection, length)[4:]


def _java() -> list[str]:
    return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_broker()}/*"]


def _refuse_errors(what: str, answer: bytes) -> None:
    (error,) = struct.unpack(">h", answer[:2])
    if error:
        raise RuntimeError(f"{what}: the broker answers error {error}")


def _text(said: str) -> bytes:
    return struct.pack(">h", len(said)) + said.encode()


def _read(connection: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        more = connection.recv(length - len(found))
        if not more:
            raise ConnectionError("the broker closed the connection")
        found += more
    return found


def _free_ports(count: int) -> Sequence[int]:
    """Different ones, which nobody has now."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind((LOOPBACK, 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()
