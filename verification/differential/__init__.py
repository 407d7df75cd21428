"""Random pipelines, run by Rekindle and by bare Spark, and compared: `make differential`."""
