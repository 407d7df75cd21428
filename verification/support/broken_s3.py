"""A real S3 server that ignores conditions: `rclone serve s3`. The probe must refuse it."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

from support.loopback_server import LOOPBACK, free_port

START_S_MAX = 30.0


class BrokenS3:
    """The server with one bucket; a context manager."""

    def __init__(self, bucket: str = "broken") -> None:
        self.bucket = bucket
        self.folder = Path(tempfile.mkdtemp(prefix="rekindle-broken-s3-"))
        self.access_key, self.secret_key = secrets.token_hex(10), secrets.token_hex(20)
        self.port = free_port()
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> BrokenS3:
        (self.folder / self.bucket).mkdir()
        command = [str(Path(sys.executable).parent / "rclone"), "serve", "s3", str(self.folder)]
        command += ["--addr", f"{LOOPBACK}:{self.port}", "--auth-key", f"{self.access_key},{self.secret_key}"]
        self._child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._await()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self._child.terminate()
            self._child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def store_settings(self) -> dict[str, str]:
        return {
            "endpoint": f"http://{LOOPBACK}:{self.port}",
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "region": "us-east-1",
            "virtual_hosted_style_request": "false",
        }

    def url(self, path: str) -> str:
        return f"s3://{self.bucket}/{path}"

    def _await(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline:
            with socket.socket() as client:
                if client.connect_ex((LOOPBACK, self.port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError("rclone serve s3 did not start")
