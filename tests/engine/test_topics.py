"""What `rk.kafka` refuses where it is written down, and how a topic that lost records is told."""

from __future__ import annotations

import pytest

import rekindle as rk
from rekindle.engine.spark.failures import cause_of
from rekindle.errors import Refused
from rekindle.model.failures import FailureKind

LOST = """org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 0.0 in stage 0.0 (TID 0) (host):
org.apache.spark.sql.kafka010.KafkaIllegalStateException: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may
have been lost because they are not available in Kafka any more;
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason:
Could not read records in offset [5, 15) for topic partition orders-0
with consumer group spark-kafka-source.
"""


@pytest.mark.parametrize(
    ("topic", "brokers", "options", "said"),
    [
        ("a topic", "host:9092", {}, "'a topic' is not the name of a topic"),
        ("orders", "host", {}, "'host' names no brokers"),
        ("orders", "host:9092,", {}, "names no brokers"),
        ("orders", "host:9092", {"topic": "other"}, "topic cannot be given as an option"),
        ("orders", "host:9092", {"kafka.bootstrap.servers": "other:1"}, r"kafka\.bootstrap\.servers cannot be given"),
    ],
)
def test_a_topic_that_cannot_be_is_refused(topic: str, brokers: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(Refused, match=said):
        rk.kafka(topic, brokers, options=options)


def test_a_topic_is_told_without_secrets_and_two_spellings_are_one() -> None:
    secret = rk.kafka("orders", "b:1,a:1", options={"kafka.sasl.jaas.config": "hidden"})
    assert secret.shown == "kafka topic orders at b:1,a:1" and "hidden" not in secret.shown
    assert secret.spelling == rk.kafka("orders", "a:1,b:1").spelling
    assert rk.kafka("day-{day}", "a:1").topic == "day-{day}", "a template is complete when the run has its parameters"


@pytest.mark.parametrize("told", [LOST, LOST.replace("[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] ", "")])
def test_a_topic_that_lost_what_is_to_be_read_next_is_not_tried_again(told: str) -> None:
    cause = cause_of(told)
    assert cause.kind is FailureKind.INPUT_CHANGED and not cause.is_recoverable
    assert cause.text == (
        "the topic no longer has what is to be read next: "
        "Could not read records in offset [5, 15) for topic partition orders-0"
    )
