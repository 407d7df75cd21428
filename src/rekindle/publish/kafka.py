"""`rk.kafka`: a topic that takes the rows of a stream, each at least once, with headers by which doubles are told.

Rules
- Kafka keeps what it was sent. A driver that dies in a batch has sent some of its rows, and the next one sends all.
- Each record says in its headers of which region, generation of its checkpoint and batch it is, by which query it was
  sent, and its partition and row there (java/StreamKafka).
- Only a stream publishes here: a batch run would have nothing to be told apart by.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rekindle.errors import Refused

TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
BROKER = re.compile(r"[^\s:,]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")
CLIENT = "kafka."
SERVERS = "kafka.bootstrap.servers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """A topic, and the brokers that are asked for it first. `options` are those of the client; they may hold secrets,
    and are never shown."""

    is_versioned: ClassVar[bool] = False
    by_parameters: ClassVar[tuple[str, ...]] = ("topic",)
    is_written_once: ClassVar[bool] = False

    topic: str
    brokers: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> str:
        return f"kafka topic {self.topic} at {self.brokers}"

    @property
    def seen(self) -> str:
        return "each row at least once; rk.read_kafka drops what was sent twice"

    @property
    def spelling(self) -> str:
        return f"kafka:{','.join(sorted(self.brokers.split(',')))}/{self.topic}"

    @property
    def client(self) -> dict[str, str]:
        """What Spark's reader and writer are told."""
        return {**dict(self.options), SERVERS: self.brokers}

    def __post_init__(self) -> None:
        if not self.topic.startswith("{") and "{" not in self.topic and not TOPIC.fullmatch(self.topic):
            raise Refused(f"{self.topic!r} is not the name of a topic", "use letters, digits, dots, _ and -")
        if not all(map(BROKER.fullmatch, self.brokers.split(","))):
            raise Refused(f"{self.brokers!r} names no brokers", 'write brokers="host:9092", or several with commas')
        odd = [name for name, _ in self.options if not name.startswith(CLIENT) or name == SERVERS]
        if odd:
            raise Refused(
                f"{self.shown}: {', '.join(odd)} cannot be given as an option",
                'give options of the Kafka client, such as {"kafka.security.protocol": "SSL"}',
            )


def kafka(topic: str, brokers: str, *, options: Mapping[str, str] | None = None) -> Kafka:
    """A topic of Kafka as the target of a stream. Each row is sent at least once; read it with `read_kafka`.

    The sink gives the columns `value` and, if it wants, `key` (text or binary), `headers` and `partition`, as Spark's
    own Kafka writer takes them. Spark's Kafka connector must be there (`spark.jars.packages`).

    brokers    `"host:9092"`, or several with commas
    options    of the Kafka client, such as `{"kafka.security.protocol": "SSL"}`
    """
    return Kafka(topic=topic, brokers=brokers, options=tuple(sorted((options or {}).items())))
