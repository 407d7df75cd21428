"""Cleaning: look at runs, remove what nobody can need, close what nobody resumed. No Spark is needed."""
