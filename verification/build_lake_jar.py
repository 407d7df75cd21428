"""Build the jars of table formats that ship beside the main one, each against the jars of its format.

They call the main jar, and are built against the PySpark that the formats are published for (`parts.TABLES_PYSPARK`):
the one of this environment, as in that of `make tables`, or of one of its own. A session without such a table never
loads one.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import spark_environments
from build_jar import JARS, ROOT, build, jars_of
from parts import TABLES_PYSPARK, delta_jars, iceberg_jars
from rekindle.engine.spark_lines import line_of

DELTA_JAR = JARS / "rekindle-delta.jar"
ICEBERG_JAR = JARS / "rekindle-iceberg.jar"


def sources(name: str) -> list[Path]:
    return sorted((ROOT / "java-lake" / "rekindle" / name).glob("*.java"))


def main() -> None:
    line = line_of(f"{TABLES_PYSPARK}.0")
    is_here = version("pyspark").startswith(f"{TABLES_PYSPARK}.")
    spark = jars_of(line) if is_here else spark_environments.jars(TABLES_PYSPARK)
    main_jar = JARS / line.jar
    build(DELTA_JAR, line, sources("delta"), [main_jar, *sorted(delta_jars().glob("*.jar"))], spark)
    build(ICEBERG_JAR, line, sources("iceberg"), [main_jar, *sorted(iceberg_jars().glob("*.jar"))], spark)


if __name__ == "__main__":
    main()
