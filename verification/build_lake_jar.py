"""Build the jars of table formats that ship beside the main one, each against the jars of its format.

They call the main jar, and need the PySpark that the formats are published for (`parts.TABLES_PYSPARK`), so `make
tables` builds them in an environment of its own. A session without such a table never loads one.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from build_jar import HERE, JAR, ROOT, build
from parts import TABLES_PYSPARK, delta_jars, iceberg_jars

DELTA_JAR = JAR.with_name("rekindle-delta.jar")
ICEBERG_JAR = JAR.with_name("rekindle-iceberg.jar")


def sources(name: str) -> list[Path]:
    return sorted((ROOT / "java-lake" / "rekindle" / name).glob("*.java"))


def main() -> None:
    found = version("pyspark")
    assert found.startswith(f"{TABLES_PYSPARK}."), f"formats are for PySpark {TABLES_PYSPARK}, not {found}"
    build(DELTA_JAR, HERE, sources("delta"), [JAR, *sorted(delta_jars().glob("*.jar"))])
    build(ICEBERG_JAR, HERE, sources("iceberg"), [JAR, *sorted(iceberg_jars().glob("*.jar"))])


if __name__ == "__main__":
    main()
