"""Runs on clusters whose executors come and go, whose tasks run twice, whose shuffle is not Spark's own."""
