"""A proxy on loopback that lets requests through and drops some answers: the client cannot know what happened."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from urllib.parse import urlsplit


class DroppingProxy:
    """Forwards to an endpoint. While `drops` is above zero, each answer to a request that begins with PUT and names
    `what` is swallowed and counted down. With `is_late` such a request is forwarded only after `release`."""

    def __init__(self, endpoint: str, what: bytes = b"") -> None:
        parts = urlsplit(endpoint)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._what = what
        self.drops = 0
        self.is_late = False
        self._released, self._arrived = threading.Event(), threading.Event()
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> DroppingProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def release(self) -> None:
        """Forward what is late, and return when it was answered."""
        self._released.set()
        assert self._arrived.wait(60)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        is_dropped = threading.Event()
        with client, socket.create_connection(self._target) as server:
            back = threading.Thread(target=self._answer, args=(server, client, is_dropped), daemon=True)
            back.start()
            while request := _received(client):
                if self.drops and request.startswith(b"PUT ") and self._what in request:
                    self.drops -= 1
                    is_dropped.set()
                    if self.is_late:
                        client.shutdown(socket.SHUT_RDWR)
                        self._released.wait(60)
                server.sendall(request)
                if is_dropped.is_set() and self.is_late:
                    break
            if not is_dropped.is_set():
                server.shutdown(socket.SHUT_RDWR)
            back.join()

    def _answer(self, server: socket.socket, client: socket.socket, is_dropped: threading.Event) -> None:
        while answer := _received(server):
            if is_dropped.is_set():
                self._arrived.set()
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
                return
            with contextlib.suppress(OSError):
                client.sendall(answer)


def _received(of: socket.socket) -> bytes:
    """Nothing where the other side is gone."""
    try:
        return of.recv(1 << 20)
    except OSError:
        return b""
