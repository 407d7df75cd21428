"""Helpers for tests of Rekindle: graphs drawn as text, the simulated world, real Spark processes. They are not stable:
a release may change them without a word."""
