"""A real S3-compatible server on loopback, for one test session.

It keeps its objects in a folder of its own, has random credentials, counts the requests that reached it (from
its own access log) and is ended by process.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

from parts import s3_jars, s3_server
from rekindle.local_cluster.processes import Ended, Process, end
from support.loopback_server import LOOPBACK, free_port

REGION = "us-east-1"
START_S_MAX = 30.0
OPERATION = re.compile(r"\] \S+ \S+ \S+ s3_(\w+) (\S+) ")


class S3Server(Ended):
    """The server with one bucket; a context manager."""

    def __init__(self, bucket: str = "rekindle-test") -> None:
        self.bucket = bucket
        self.folder = Path(tempfile.mkdtemp(prefix="rekindle-s3-"))
        self.access_key = secrets.token_hex(10)
        self.secret_key = secrets.token_hex(20)
        self.endpoint = ""
        self.process: Process | None = None
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # The server takes each folder under its root as a bucket.
        (self.folder / "objects" / self.bucket).mkdir(parents=True)
        address = f"{LOOPBACK}:{free_port()}"
        self.endpoint = f"http://{address}"
        environment = os.environ | {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        options = ["--port", address, "--region", REGION, "--quiet", "--keep-alive", "--health", "/health"]
        options += ["--access-log", str(self._access)]
        with (self.folder / "log").open("wb") as log:
            self._child = subprocess.Popen(
                [str(s3_server()), *options, "posix", str(self.folder / "objects")],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.process = Process.of(self._child.pid)
        self._await()

    def stop(self) -> None:
        if self.process is not None and self._child is not None:
            end([self.process])
            self._child.wait()
        self.process = self._child = None
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def store_settings(self) -> dict[str, str]:
        """Keyword settings of an `obstore.store.S3Store` for the bucket."""
        return {
            "endpoint": self.endpoint,
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "region": REGION,
            "virtual_hosted_style_request": "false",
            "allow_http": "true",
        }

    @property
    def env(self) -> dict[str, str]:
        """The same, as environment variables that S3 clients understand."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
            "AWS_ALLOW_HTTP": "true",
        }

    @property
    def spark_settings(self) -> dict[str, str]:
        """Settings that let a Spark application reach the bucket as `s3a://`."""
        jars = f"{s3_jars()}/*"
        hadoop = {
            "impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "endpoint": self.endpoint,
            "endpoint.region": REGION,
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "access.key": self.access_key,
            "secret.key": self.secret_key,
            "connection.maximum": "32",
            "threads.max": "8",
            "attempts.maximum": "3",
            "retry.limit": "3",
            "fast.upload.buffer": "bytebuffer",
        }
        # On the class path, not in spark.jars: the bundle has 650 MB, and every executor would download it.
        paths = {"spark.driver.extraClassPath": jars, "spark.executor.extraClassPath": jars}
        return paths | {f"spark.hadoop.fs.s3a.{key}": value for key, value in hadoop.items()}

    def url(self, path: str = "") -> str:
        return f"s3a://{self.bucket}/{path}"

    def mark(self) -> int:
        """Now, as a position in the access log."""
        return self._access.stat().st_size if self._access.exists() else 0

    def requests(self, since: int = 0, until: int | None = None, prefix: str = "") -> Counter[str]:
        """How many requests of each operation (`PutObject`, `HeadObject` …) arrived between two marks.

        A prefix keeps only keys that begin with it, and so leaves out listings, which name no key."""
        if not self._access.exists():
            return Counter()
        text = self._access.read_bytes()[since:until].decode(errors="replace")
        found = (OPERATION.search(line) for line in text.splitlines())
        return Counter(hit.group(1) for hit in found if hit and hit.group(2).startswith(prefix))

    @property
    def _access(self) -> Path:
        return self.folder / "access"

    def _await(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline and self.process is not None and self.process.is_alive():
            try:
                with urllib.request.urlopen(f"{self.endpoint}/health", timeout=2):
                    return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.05)
        raise RuntimeError(f"the S3 server did not start:\n{(self.folder / 'log').read_text(errors='replace')}")
