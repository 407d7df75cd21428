"""The Spark engine: the only place that imports pyspark or talks to the JVM."""
