"""What `rk.kafka` refuses where it is written down."""

from __future__ import annotations

import pytest

import rekindle as rk
from rekindle.errors import Refused


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
