"""A server that speaks as Azure's object store does, on loopback: Azurite, with random credentials. It calls nobody."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import http.client
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from parts import azurite
from rekindle.local_cluster.processes import Ended, Process, end
from support.signals import when

LOOPBACK = "127.0.0.1"
START_S_MAX = 180.0
CONTAINER = "lake"
AZURE_VERSION = "2021-08-06"


class Azurite(Ended):
    """Azure's blobs as `abfss://`, with one empty container; a context manager."""

    account = "rekindle"

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rekindle-azurite-"))
        self.port = _free_port()
        self.key = base64.b64encode(secrets.token_bytes(32)).decode()
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

    def start(self) -> None:
        options = ["--blobHost", LOOPBACK, "--blobPort", str(self.port), "--location", str(self.folder / "data")]
        options += ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        self._spawn(["node", str(azurite()), *options], {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"})
        path = f"/{self.account}/{CONTAINER}"
        now = datetime.datetime.now(datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        headers = {"x-ms-date": now, "x-ms-version": AZURE_VERSION}
        named = "".join(f"{name}:{value}\n" for name, value in headers.items())
        text = "PUT" + "\n" * 12 + f"{named}/{self.account}{path}\nrestype:container"
        signed = hmac.new(base64.b64decode(self.key), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {self.account}:{base64.b64encode(signed).decode()}"
        self._ask("PUT", f"{path}?restype=container", b"", headers)

    def url(self, path: str) -> str:
        return f"abfss://{CONTAINER}@{self.account}.dfs.core.windows.net/{path}"

    @property
    def store_settings(self) -> dict[str, str]:
        return {
            "account_name": self.account,
            "account_key": self.key,
            "endpoint": f"{self.endpoint}/{self.account}",
        }


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        port: int = listener.getsockname()[1]
        return port
