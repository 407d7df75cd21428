"""Classes of Spark, loaded once and kept for all JVMs that tests start (Java calls it class data sharing).

Rules
- An archive is for one class path: the jars of the PySpark that runs, after those that a setting puts before them. A
  JVM with another class path ignores it.
- `make classes` makes the archives. Who finds none goes on without: a JVM starts more slowly then, and does the same.
- A folder that is not empty may not be on the class path, so drivers get their settings from a file of properties, and
  none from a configuration folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from parts import cache, s3_jars
from rekindle.local_cluster.cluster import spark_home

# What an archive is ignored for is told on stdout, by a JVM whose output somebody compares.
SILENT = "-Xlog:disable -Xlog:all=error:stderr"
# A driver that touches what drivers, executors, masters and workers load.
SCRIPT = Path(__file__).with_name("class_archive_driver.py")


def options(class_path: str = "") -> str:
    """Options of a JVM that uses the archive for this class path (`spark.driver.extraClassPath`), if there is one."""
    path = archive(class_path)
    return f"-XX:SharedArchiveFile={path} {SILENT}" if path.exists() else ""


def archive(class_path: str = "") -> Path:
    """Where the archive for this class path is, or would be."""
    java = Path(shutil.which("java") or "java").resolve()
    known = [str(java), str(java.stat().st_mtime_ns) if java.exists() else "", str(spark_home()), class_path]
    known += [f"{jar.name} {jar.stat().st_mtime_ns}" for jar in sorted((spark_home() / "jars").glob("spark-*.jar"))]
    return cache() / "classes" / f"{hashlib.sha256(chr(0).join(known).encode()).hexdigest()[:16]}.jsa"


def make(flags: str, class_path: str = "") -> Path:
    """Make the archive for this class path, unless it is there. `flags` are those of the JVMs that will use it."""
    path = archive(class_path)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".classes-", dir=path.parent) as folder:
            fresh = Path(folder) / path.name
            settings = Path(folder) / "settings"
            settings.write_text(f"spark.driver.extraClassPath {class_path}\n" if class_path else "")
            subprocess.run(
                [sys.executable, str(SCRIPT), folder],
                check=True,
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
                | {
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "SPARK_SUBMIT_OPTS": f"{flags} -XX:ArchiveClassesAtExit={fresh} {SILENT}",
                    "PYSPARK_SUBMIT_ARGS": f"--properties-file {settings} pyspark-shell",
                    "PYSPARK_PYTHON": sys.executable,
                },
            )
            fresh.rename(path)
    return path


def make_all(flags: str) -> list[Path]:
    """The archives for drivers and executors on a disk, and on S3."""
    return [make(flags), make(flags, f"{s3_jars()}/*")]
