"""Servers that speak as Azure's and Google's object stores do, on loopback: Azurite, and fake-gcs-server.

Each has one empty container or bucket, is ended by process, and says how obstore reaches it. Whether it keeps its word
is what is tried: an emulator that ignores conditions must be refused by the probe.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import http.client
import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from parts import azurite, gcs_server
from rekindle.local_cluster.processes import Ended, Process, end
from support.signals import when

LOOPBACK = "127.0.0.1"
START_S_MAX = 180.0
BUCKET = "lake"
AZURE_VERSION = "2021-08-06"


class _Emulator(Ended):
    """A server with a folder of its own."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"rekindle-{name}-"))
        self.port = _free_port()
        self.process: Process | None = None
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def _spawn(self, command: list[str], given: dict[str, str] | None = None) -> None:
        with (self.folder / "log").open("wb") as log:
            self._child = subprocess.Popen(
                command,
                cwd=self.folder,
                env=os.environ | (given or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.process = Process.of(self._child.pid)
        when(self._listens, START_S_MAX, every_s=0.1)

    def _listens(self) -> bool:
        if self._child is not None and self._child.poll() is not None:
            raise RuntimeError(f"the server ended: {(self.folder / 'log').read_text(errors='replace')[-2000:]}")
        with socket.socket() as client:
            return client.connect_ex((LOOPBACK, self.port)) == 0

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        asking = http.client.HTTPConnection(LOOPBACK, self.port, timeout=START_S_MAX)
        asking.request(method, path, body=body, headers=headers)
        answer = asking.getresponse()
        if answer.status // 100 != 2:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.read()[:500]!r}")
        asking.close()

    def stop(self) -> None:
        if self.process is not None and self._child is not None:
            end([self.process])
            self._child.wait()
        self.process = self._child = None
        shutil.rmtree(self.folder, ignore_errors=True)


class Azurite(_Emulator):
    """Azure's blobs, as `abfss://`."""

    account = "rekindle"

    def __init__(self) -> None:
        super().__init__("azurite")
        self.key = base64.b64encode(secrets.token_bytes(32)).decode()

    def start(self) -> None:
        options = ["--blobHost", LOOPBACK, "--blobPort", str(self.port), "--location", str(self.folder / "data")]
        options += ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        self._spawn(["node", str(azurite()), *options], {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"})
        path = f"/{self.account}/{BUCKET}"
        now = datetime.datetime.now(datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        headers = {"x-ms-date": now, "x-ms-version": AZURE_VERSION}
        named = "".join(f"{name}:{value}\n" for name, value in headers.items())
        text = "PUT" + "\n" * 12 + f"{named}/{self.account}{path}\nrestype:container"
        signed = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {self.account}:{base64.b64encode(signed).decode()}"
        self._ask("PUT", f"{path}?restype=container", b"", headers)

    def url(self, path: str) -> str:
        return f"abfss://{BUCKET}@{self.account}.dfs.core.windows.net/{path}"

    @property
    def store_settings(self) -> dict[str, str]:
        return {
            "account_name": self.account,
            "account_key": self.key,
            "endpoint": f"{self.endpoint}/{self.account}",
        }


class FakeGcs(_Emulator):
    """Google's objects, as `gs://`."""

    def __init__(self) -> None:
        super().__init__("fake-gcs")

    def start(self) -> None:
        options = ["-scheme", "http", "-host", LOOPBACK, "-port", str(self.port), "-backend", "memory"]
        self._spawn([str(gcs_server()), *options, "-public-host", f"{LOOPBACK}:{self.port}", "-log-level", "warn"])
        body = json.dumps({"name": BUCKET}).encode()
        self._ask("POST", "/storage/v1/b?project=rekindle", body, {"Content-Type": "application/json"})

    def url(self, path: str) -> str:
        return f"gs://{BUCKET}/{path}"

    @property
    def store_settings(self) -> dict[str, str]:
        key = {"gcs_base_url": self.endpoint, "disable_oauth": True, "client_email": "", "private_key": ""}
        return {"service_account_key": json.dumps({**key, "private_key_id": ""}), "allow_http": "true"}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        port: int = listener.getsockname()[1]
        return port
