"""Public helpers for tests: real Spark processes, and later graphs drawn as text and the simulated world."""
