"""Attempts on Spark: write jobs, what they commit, how they fail."""
