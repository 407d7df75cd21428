"""Ordinary programs, each run by bare Spark and by Rekindle, and compared."""
