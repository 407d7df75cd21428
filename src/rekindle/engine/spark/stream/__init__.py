"""Streaming regions on Spark: their frames, their sinks, their queries."""
