"""The port into the driver JVM: every call that this package makes there stands in this room, one function each.

Rules
- No other module reads PySpark's private members (`_jvm`, `_jdf`, `_jsparkSession`, `_jsc`), and none names a Java
  class. tests/test_house.py holds to it.
- Constructors and methods of Spark that differ between its versions are called by our Java classes
  (java/rekindle/spark), not by Py4J: a compiler has looked at them. What a Spark line has otherwise stands in
  java/lines; what its PySpark has otherwise, in `pyspark_line`.
- A `JavaObject` is a value of the JVM that Python only hands on. What is asked of one is asked by a function of this
  room, or is a method that Spark has had unchanged since 3.5 (`toRdd`, `executedPlan`, `getNumPartitions`).
- One call per step, never one per partition: many values come and go as one text or one array of bytes.

| Module | What is asked |
|---|---|
| `driver_calls` | the application, its sessions and threads, its Spark jobs and tasks |
| `plan_calls` | frames, their plans, their sources, settings |
| `result_calls` | kept results: what readers observe of them, how they are read, written and let go |
| `file_calls` | files and tables, by the file systems and the catalog that Spark has |
| `iceberg_calls` | Iceberg tables of the session's catalogs |
| `table_calls` | tables that have a log of their own, such as Delta's, and footers |
"""
