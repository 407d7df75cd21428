"""Iceberg on this machine: the settings of a session with it, in a catalog of files and in the session's own."""

from __future__ import annotations

from pathlib import Path

from parts import iceberg_folder
from rekindle.engine.spark.jvm import iceberg_calls

CATALOG = "lake"
SESSION_CATALOG = "spark.sql.catalog.spark_catalog"


def iceberg_jars_here() -> list[str]:
    """What the class path of the driver needs, which is the only process."""
    return [*map(str, sorted(iceberg_folder().glob("*.jar"))), iceberg_calls.iceberg_jar()]


def iceberg_settings(warehouse: Path) -> dict[str, str]:
    """A catalog `lake` whose tables lie below a folder."""
    return {
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": str(warehouse),
    }


def in_session_catalog(warehouse: Path) -> dict[str, str]:
    """The settings of a session whose own catalog has Iceberg tables, beside others."""
    return {
        SESSION_CATALOG: "org.apache.iceberg.spark.SparkSessionCatalog",
        f"{SESSION_CATALOG}.type": "hadoop",
        f"{SESSION_CATALOG}.warehouse": str(warehouse),
    }
