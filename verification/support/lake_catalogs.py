"""The catalogs that an Iceberg table may be in, each by its real server: what a session needs to call one `lake`.

- `hadoop`: a folder, without a server.
- `jdbc`: PostgreSQL.
- `rest`: the REST catalog of Iceberg's own tests, over SQLite (RestCatalog.java).
- `hive`: a Hive metastore inside the driver, over Derby.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from parts import postgres_driver, rest_catalog
from rekindle.local_cluster.cluster import spark_home
from support.iceberg import CATALOG, iceberg_settings
from support.loopback_server import LOOPBACK, LoopbackServer

HADOOP, JDBC, REST, HIVE = "hadoop", "jdbc", "rest", "hive"
KINDS = (HADOOP, JDBC, REST, HIVE)
PREFIX = f"spark.sql.catalog.{CATALOG}"
JARS = "spark.driver.extraClassPath"
# PostgreSQL refuses to run as root; Debian's package makes this user.
USER = "postgres"


class PostgresServer(LoopbackServer):
    """An empty database with one user, who has a password."""

    def __init__(self) -> None:
        super().__init__("postgres")
        self.password = secrets.token_hex(12)

    def start(self) -> None:
        tools, data, secret = _postgres_tools(), self.folder / "data", self.folder / "password"
        data.mkdir()
        secret.write_text(self.password)
        self.folder.chmod(0o755)
        command: list[str] = []
        if os.geteuid() == 0:
            owner = pwd.getpwnam(USER)
            for one in (data, secret):
                os.chown(one, owner.pw_uid, owner.pw_gid)
            command = ["setpriv", f"--reuid={USER}", f"--regid={owner.pw_gid}", "--clear-groups"]
        made = [str(tools / "initdb"), "-D", str(data), "-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}", "-N"]
        subprocess.run([*command, *made], check=True, stdout=subprocess.DEVNULL)
        options = ["-h", LOOPBACK, "-p", str(self.port), "-k", str(data), "-c", "fsync=off"]
        self._spawn([*command, str(tools / "postgres"), "-D", str(data), *options])


class RestServer(LoopbackServer):
    """Iceberg's own server of a REST catalog, whose tables lie below a folder."""

    def __init__(self, warehouse: Path) -> None:
        super().__init__("rest-catalog")
        self._warehouse = warehouse

    def start(self) -> None:
        classes = ["-cp", f"{rest_catalog()}/*"]
        given = [str(self.port), str(self.folder / "catalog.db"), str(self._warehouse)]
        self._spawn(["java", "-Xmx256m", *classes, str(Path(__file__).with_name("RestCatalog.java")), *given])


@contextlib.contextmanager
def lake_catalog(kind: str, folder: Path) -> Iterator[dict[str, str]]:
    """The settings of a session with a catalog `lake` of this kind, whose tables lie below a folder."""
    warehouse = folder / CATALOG
    warehouse.mkdir(parents=True, exist_ok=True)
    settings = iceberg_settings(warehouse) | {f"{PREFIX}.type": kind}
    with contextlib.ExitStack() as stack:
        if kind == JDBC:
            server = stack.enter_context(PostgresServer())
            settings |= {
                f"{PREFIX}.uri": f"jdbc:postgresql://{LOOPBACK}:{server.port}/postgres",
                f"{PREFIX}.jdbc.user": USER,
                f"{PREFIX}.jdbc.password": server.password,
                f"{PREFIX}.jdbc.schema-version": "V1",
                JARS: str(next(postgres_driver().glob("*.jar"))),
            }
        elif kind == REST:
            settings[f"{PREFIX}.uri"] = f"http://{LOOPBACK}:{stack.enter_context(RestServer(warehouse)).port}"
        elif kind == HIVE:
            url = f"jdbc:derby:;databaseName={folder}/hive;create=true"
            made = ["java", f"-Djavax.jdo.option.ConnectionURL={url}", "-cp", f"{spark_home() / 'jars'}/*"]
            subprocess.run([*made, str(Path(__file__).with_name("HiveSchema.java"))], check=True, cwd=folder)
            settings |= {
                "spark.hadoop.javax.jdo.option.ConnectionURL": url,
                "spark.hadoop.datanucleus.schema.autoCreateTables": "true",
                # The pool that Hive takes otherwise is not among Spark's jars.
                "spark.hadoop.datanucleus.connectionPoolingType": "HikariCP",
                "spark.hadoop.hive.metastore.schema.verification": "false",
            }
        yield settings


def _postgres_tools() -> Path:
    on_path = shutil.which("initdb")
    found = [Path(on_path).parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        raise RuntimeError("PostgreSQL is not here: apt-get install postgresql")
    return found[-1]
