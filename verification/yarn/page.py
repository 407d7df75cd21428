"""`make emr-like`: the page docs/how-to/emr.md, done as written, on a real HDFS and YARN, with PySpark 3.5.

- The folder holds nothing but `dist/` with a wheel of this tree, with the jar of the page's Spark line.
- What is a cluster's own stands beside it: addresses in place of those of the page, `hdfs` and `yarn` for a shell (the
  classes that Hadoop's scripts of these names start), a spark-defaults.conf that fits a small machine.
- It stops at the first command that does not do what the page says.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from parts import hadoop_cluster
from rekindle.local_cluster.cluster import LIGHT
from spark_environments import newest
from support.hadoop import HadoopCluster
from support.typed_page import Shell, Step, page_of, type_all

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs/how-to/emr.md"
RELEASE = "3.5"
# What the page calls the namenode, WebHDFS, and where Hadoop's settings are.
KNOWN = NAMENODE, WEB, CONF = "namenode:8020", "namenode:9870", "/etc/hadoop/conf"
# JVMs that share two busy cores; a machine with nothing else to do needs a tenth.
COMMAND_S_MAX = 3_000.0
JAVA = f"java -Xmx256m {LIGHT} --add-opens java.base/java.lang=ALL-UNNAMED"
PROGRAMS = {
    "hdfs": "shift; exec {java} org.apache.hadoop.fs.FsShell",
    "yarn": "exec {java} org.apache.hadoop.yarn.client.cli.ApplicationCLI",
}
DEFAULTS = {
    "spark.yarn.jars": "local:{folder}/etl/lib/python{python}/site-packages/pyspark/jars/*",
    # A busy machine takes longer than the usual 100 s to start a driver, and YARN would count that as an attempt.
    "spark.yarn.am.waitTime": "1200s",
    "spark.network.timeout": "600s",
    "spark.driver.memory": "768m",
    "spark.executor.memory": "512m",
    "spark.executor.instances": "1",
    "spark.executor.cores": "2",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.extraJavaOptions": LIGHT,
    "spark.executor.extraJavaOptions": LIGHT,
    "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
    "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
}


def furnish(folder: Path, cluster: HadoopCluster) -> Shell:
    """A host of the cluster, and its shell."""
    python, programs, conf = newest(RELEASE), folder / "bin", folder / "conf"
    subprocess.run([str(python), "-m", "verification", "build_jar"], cwd=ROOT, check=True)
    wheel = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(wheel, cwd=ROOT, check=True)
    programs.mkdir()
    java = f'{JAVA} -cp "$HADOOP_CONF_DIR:{hadoop_cluster()}/*"'
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f'#!/bin/sh\n{text.format(java=java)} "$@"\n')
        (programs / name).chmod(0o755)
    conf.mkdir()
    version = ".".join(map(str, sys.version_info[:2]))
    lines = [f"{name} {value.format(folder=folder, python=version)}\n" for name, value in DEFAULTS.items()]
    (conf / "spark-defaults.conf").write_text("".join(lines))
    variables = {"SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1"}
    return Shell(folder, (programs,), variables)


def main() -> int:
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="emr-like-"))
    try:
        with HadoopCluster(node_managers=2) as cluster:
            address = cluster.url().removeprefix("hdfs://").rstrip("/")

            def placed(text: str) -> str:
                return text.replace(NAMENODE, address).replace(WEB, cluster.web).replace(CONF, str(cluster.conf))

            page = page_of(PAGE.read_text())
            for name, text in page.files.items():
                (folder / name).write_text(placed(text))
            shell = furnish(folder, cluster)
            done = type_all([Step(placed(one.command), one.shown) for one in page.steps], shell, COMMAND_S_MAX)
            if len(done) < len(page.steps) and (log := folder / "submit.log").exists():
                print(log.read_text(errors="replace")[-3000:])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    minutes = (time.monotonic() - started) / 60
    print(f"RESULT emr-like steps={len(page.steps)} done={len(done)} release={RELEASE} minutes={minutes:.1f}")
    return 0 if len(done) == len(page.steps) else 1


if __name__ == "__main__":
    raise SystemExit(main())
