"""Spark as an `EngineAdapter`: which function of this room does what others ask for."""

from __future__ import annotations

from rekindle.engine.engine_adapter import EngineAdapter
from rekindle.engine.spark import prepare as preparing
from rekindle.engine.spark import script, session
from rekindle.engine.spark import start as sessions
from rekindle.engine.spark.inspect import plain, region_replay, reproduce, verify
from rekindle.engine.spark.plan import trials
from rekindle.engine.spark.publish.files import read_newest, read_previous, run_stores
from rekindle.engine.spark.publish.stream_kafka import read_kafka
from rekindle.engine.spark.publish.stream_result import read_result
from rekindle.engine.spark.stream import given_queries, stream_prepare


class SparkAdapter:
    """A table: each name of the protocol with its function."""

    pinned_settings = staticmethod(preparing.pinned_settings)
    prepare = staticmethod(preparing.prepare)
    prepare_stream = staticmethod(stream_prepare.prepare_stream)
    streaming_sinks = staticmethod(stream_prepare.streaming_sinks)
    read_kafka = staticmethod(read_kafka)
    read_newest = staticmethod(read_newest)
    read_previous = staticmethod(read_previous)
    read_result = staticmethod(read_result)
    run_stores = staticmethod(run_stores)

    workbench = staticmethod(reproduce.workbench)
    replay_region = staticmethod(region_replay.replay_region)
    look = staticmethod(verify.look)
    bench = staticmethod(verify.bench)
    try_steps = staticmethod(trials.try_steps)
    compare = staticmethod(plain.compare)

    start = staticmethod(sessions.start)
    logged_to_file = staticmethod(sessions.logged_to_file)
    is_alive = staticmethod(sessions.is_alive)
    stop = staticmethod(sessions.stop)
    properties = staticmethod(session.properties)
    send_by_value = staticmethod(sessions.send_by_value)

    given = staticmethod(script.given)
    refuse_hidden_order = staticmethod(script.refuse_hidden_order)
    opened = staticmethod(script.opened)
    prepare_writers = staticmethod(given_queries.prepare_writers)


ADAPTER: EngineAdapter = SparkAdapter()
