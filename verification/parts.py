"""Fetch the real parts that tests need into a cache outside the repository.

The S3 server is built by Go; an emulator of Azure is installed by npm; the Kafka broker, YARN and HDFS, and the jars
that let Spark reach S3, Kafka and lake tables, come through Maven. All use whatever registry this machine is set up
for. Versions are pinned here and nowhere else. A part that is present is not touched, and a part appears under its name
only when it is complete.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

VERSITYGW = "v1.8.0"
# An emulator of Azure's blobs. Newer ones need a newer Node.
AZURITE = "3.35.0"
# Hadoop, as the supported versions of PySpark ship it: what its S3 client needs beside it.
S3_CLIENTS = {"3.5.0": ("2.35.4", "1.3.1"), "3.4.2": ("2.29.52", "1.2.1")}
KAFKA = "3.9.2"
# The newest that are published; with PySpark 4.3 they work, which the tests of streams show.
KAFKA_CLIENT = {
    "spark-sql-kafka-0-10_2.13": "org.apache.spark:4.2.0",
    "spark-token-provider-kafka-0-10_2.13": "org.apache.spark:4.1.0-preview1",
    "kafka-clients": f"org.apache.kafka:{KAFKA}",
    "commons-pool2": "org.apache.commons:2.13.1",
}
# Table formats. Neither is published for PySpark 4.3: what needs them runs on the one that is named here.
TABLES_PYSPARK, DELTA, ICEBERG = "4.1", "4.4.0", "1.12.0"
DELTA_JARS = {
    f"delta-spark_{TABLES_PYSPARK}_2.13-{DELTA}.jar": f"io.delta:delta-spark_{TABLES_PYSPARK}_2.13:{DELTA}",
    f"delta-storage-{DELTA}.jar": f"io.delta:delta-storage:{DELTA}",
}
ICEBERG_JAR = f"iceberg-spark-runtime-{TABLES_PYSPARK}_2.13"
ICEBERG_JARS = {f"{ICEBERG_JAR}-{ICEBERG}.jar": f"org.apache.iceberg:{ICEBERG_JAR}:{ICEBERG}"}
BROKER_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>rekindle.parts</groupId><artifactId>broker</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
</dependencies></project>"""

HADOOP = "3.4.2"
# The newest release of which Iceberg's own server of a REST catalog is published, and what that is made of.
REST = "1.10.0"
REST_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>rekindle.parts</groupId><artifactId>rest</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.iceberg</groupId><artifactId>iceberg-open-api</artifactId><version>{REST}</version>
<classifier>test-fixtures</classifier></dependency>
<dependency><groupId>org.apache.iceberg</groupId><artifactId>iceberg-core</artifactId><version>{REST}</version></dependency>
<dependency><groupId>org.apache.iceberg</groupId><artifactId>iceberg-core</artifactId><version>{REST}</version>
<classifier>tests</classifier></dependency>
<dependency><groupId>org.eclipse.jetty</groupId><artifactId>jetty-servlet</artifactId><version>11.0.26</version></dependency>
<dependency><groupId>org.xerial</groupId><artifactId>sqlite-jdbc</artifactId><version>3.50.3.0</version></dependency>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-client-runtime</artifactId><version>{HADOOP}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>2.0.17</version></dependency>
</dependencies></project>"""
POSTGRES_DRIVER = "42.7.8"
HADOOP_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>rekindle.parts</groupId><artifactId>hadoop</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-minicluster</artifactId><version>{HADOOP}</version></dependency>
<dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.13.2</version></dependency>
<dependency><groupId>org.mockito</groupId><artifactId>mockito-core</artifactId><version>4.11.0</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId><version>1.7.36</version></dependency>
</dependencies></project>"""


def cache() -> Path:
    chosen = os.environ.get("REKINDLE_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "rekindle"


def s3_server() -> Path:
    """The S3 server's binary, built if it is absent."""
    binary = cache() / f"versitygw-{VERSITYGW}" / "versitygw"
    if not binary.exists():
        with _becoming(binary.parent) as folder:
            # Compiled without optimisation, in a third of the time: it serves tests, which do not wait for it.
            fast = ["-gcflags=all=-N -l", "-ldflags=-s -w"]
            _run(
                ["go", "install", *fast, f"github.com/versity/versitygw/cmd/versitygw@{VERSITYGW}"],
                {"GOBIN": str(folder)},
            )
    return binary


def azurite() -> Path:
    """The script of an emulator of Azure's blobs, for Node, installed if it is absent."""
    folder = cache() / f"azurite-{AZURITE}"
    if not folder.exists():
        with _becoming(folder) as fresh:
            options = ["--no-audit", "--no-fund", "--omit=optional", "--prefix", str(fresh)]
            _run(["npm", "install", *options, f"azurite@{AZURITE}"])
    return folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


def hadoop() -> str:
    """The version of Hadoop in the PySpark that is installed here."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "PySpark is not installed: make install"
    (jar,) = (Path(spec.origin).parent / "jars").glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


def s3_jars() -> Path:
    """The folder of jars that a Spark driver and its executors need on their class path to reach S3."""
    version = hadoop()
    bundle, accelerator = S3_CLIENTS[version]
    wanted = {
        f"hadoop-aws-{version}.jar": f"org.apache.hadoop:hadoop-aws:{version}",
        f"bundle-{bundle}.jar": f"software.amazon.awssdk:bundle:{bundle}",
        f"analyticsaccelerator-s3-{accelerator}.jar": (
            f"software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:{accelerator}"
        ),
    }
    return _jars(cache() / f"s3-jars-hadoop-{version}", wanted)


def kafka_jars() -> Path:
    """The folder of jars that a Spark driver and its executors need on their class path to reach Kafka."""
    split = {name: of.split(":") for name, of in KAFKA_CLIENT.items()}
    wanted = {f"{name}-{version}.jar": f"{group}:{name}:{version}" for name, (group, version) in split.items()}
    return _jars(cache() / f"kafka-jars-{KAFKA}", wanted)


def delta_folder() -> Path:
    """Where `delta_jars` puts them."""
    return cache() / f"delta-jars-{DELTA}-spark-{TABLES_PYSPARK}"


def delta_jars() -> Path:
    """The folder of jars that a Spark driver and its executors need on their class path for Delta tables."""
    return _jars(delta_folder(), DELTA_JARS)


def iceberg_folder() -> Path:
    """Where `iceberg_jars` puts them."""
    return cache() / f"iceberg-jars-{ICEBERG}-spark-{TABLES_PYSPARK}"


def iceberg_jars() -> Path:
    """The folder of jars that a Spark driver and its executors need on their class path for Iceberg tables."""
    return _jars(iceberg_folder(), ICEBERG_JARS)


def rest_catalog() -> Path:
    """The folder of jars that Iceberg's own server of a REST catalog is started from."""
    return _with_dependencies(cache() / f"iceberg-rest-{REST}", REST_POM)


def postgres_driver() -> Path:
    """The folder of the jar that a Spark driver needs to reach PostgreSQL."""
    name = f"postgresql-{POSTGRES_DRIVER}"
    return _jars(cache() / name, {f"{name}.jar": f"org.postgresql:postgresql:{POSTGRES_DRIVER}"})


def kafka_broker() -> Path:
    """The folder of jars that a Kafka broker is started from."""
    return _with_dependencies(cache() / f"kafka-broker-{KAFKA}", BROKER_POM)


def hadoop_folder() -> Path:
    """Where `hadoop_cluster` puts them."""
    return cache() / f"hadoop-cluster-{HADOOP}"


def hadoop_cluster() -> Path:
    """The folder of jars that YARN and HDFS are started from, all in one process."""
    return _with_dependencies(hadoop_folder(), HADOOP_POM)


def _with_dependencies(folder: Path, pom: str) -> Path:
    """The folder of all jars that a project needs."""
    if not folder.exists():
        with _becoming(folder) as fresh, tempfile.TemporaryDirectory() as project:
            (Path(project) / "pom.xml").write_text(pom)
            copy = ["mvn", "-q", "-B", "-U", "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
            _run([*copy, "-f", f"{project}/pom.xml"])
    return folder


def _jars(folder: Path, wanted: dict[str, str]) -> Path:
    if not all((folder / name).exists() for name in wanted):
        shutil.rmtree(folder, ignore_errors=True)
        with _becoming(folder) as fresh:
            copy = ["mvn", "-q", "-B", "-U", "dependency:copy", f"-DoutputDirectory={fresh}"]
            for artifact in wanted.values():
                _run([*copy, f"-Dartifact={artifact}"])
    return folder


class _becoming:
    """A temporary folder beside the wanted one, renamed to it when everything inside is there."""

    def __init__(self, wanted: Path) -> None:
        self.wanted = wanted
        wanted.parent.mkdir(parents=True, exist_ok=True)
        self.fresh = Path(tempfile.mkdtemp(prefix=".part-", dir=wanted.parent))

    def __enter__(self) -> Path:
        return self.fresh

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self.wanted.exists():
            self.fresh.rename(self.wanted)
        shutil.rmtree(self.fresh, ignore_errors=True)


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    print("fetching:", " ".join(command), file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as nowhere:
        subprocess.run(command, check=True, cwd=nowhere, env=os.environ | (environment or {}))


def early() -> None:
    """All parts that need no PySpark. What Go, npm and Maven fetch is fetched at once; Maven itself must not run twice
    over its own folder."""
    with ThreadPoolExecutor() as pool:
        built, installed = pool.submit(s3_server), pool.submit(azurite)
        for fetch in (kafka_broker, kafka_jars, hadoop_cluster):
            fetch()
        built.result(), installed.result()


def main() -> None:
    parser = argparse.ArgumentParser(prog="parts")
    parser.add_argument("--early", action="store_true", help="only what needs no PySpark")
    is_early = parser.parse_args().early
    early()
    if is_early:
        return
    count = {
        folder: len(list(folder.iterdir())) for folder in (s3_jars(), kafka_broker(), kafka_jars(), hadoop_cluster())
    }
    size_mb = sum(path.stat().st_size for path in s3_jars().iterdir()) // 2**20
    servers = f"versitygw={VERSITYGW} server={s3_server().exists()} azurite={azurite().exists()}"
    kafka = f"kafka={KAFKA} broker_jars={count[kafka_broker()]} kafka_jars={count[kafka_jars()]}"
    kafka += f" hadoop={HADOOP} hadoop_jars={count[hadoop_cluster()]}"
    print(f"RESULT {servers} s3_jars={count[s3_jars()]} s3_jars_mb={size_mb} {kafka}")


if __name__ == "__main__":
    main()
