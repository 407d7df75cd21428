"""A server that speaks as Azure's object store does, on loopback: Azurite, with random credentials. It calls nobody."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import http.client
import secrets

from parts import azurite
from support.loopback_server import LOOPBACK, START_S_MAX, LoopbackServer

CONTAINER = "lake"
AZURE_VERSION = "2021-08-06"


class Azurite(LoopbackServer):
    """Azure's blobs as `abfss://`, with one empty container; a context manager."""

    account = "rekindle"

    def __init__(self) -> None:
        super().__init__("azurite")
        self.key = base64.b64encode(secrets.token_bytes(32)).decode()

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        asking = http.client.HTTPConnection(LOOPBACK, self.port, timeout=START_S_MAX)
        asking.request(method, path, body=body, headers=headers)
        answer = asking.getresponse()
        if answer.status // 100 != 2:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.read()[:500]!r}")
        asking.close()

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
