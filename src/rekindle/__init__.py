"""Rekindle: fine-grained recovery for PySpark pipelines."""

__all__ = ["__version__"]

__version__ = "0.1.0"
