"""Requests to WebHDFS, the HTTP interface of namenodes and datanodes.

- Each request has a connection of its own: threads share nothing, nor do a process and its forks.
- Where there are several namenodes one is active. One that is on standby, or cannot be connected to, was asked for
  nothing: the next one is asked.
- A request that was sent and got no answer may have been carried out, or may still be: `NoAnswer`. What a namenode
  refused by the name of an exception was not done: `HdfsRefused`.
- Bytes are read and written at a datanode, to which the namenode sends. An answer that is cut short is none.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import msgspec

PREFIX = "/webhdfs/v1"
# What a namenode says that is not the active one.
STANDBY = "StandbyException"
# What stands for an answer that only wants to know who asks.
UNKNOWN_USER = "UnknownUser"
# A file whose blocks are written through to the disk when they are closed.
DURABLE = "CREATE,SYNC_BLOCK"
# By operation: what the others are is asked with GET.
METHODS = {"CREATE": "PUT", "RENAME": "PUT", "DELETE": "DELETE"}

T = TypeVar("T")


class NoServer(Exception):
    """There was no connection, so that nothing was asked for."""


class NoAnswer(Exception):
    """Something was asked for, and nobody knows what became of it."""


class HdfsRefused(Exception):
    """HDFS did not do it. `name` is the name of its exception, without the package."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}" if message else name)
        self.name = name


class _Answer(NamedTuple):
    status: int
    body: bytes
    location: str


class _Remote(msgspec.Struct):
    exception: str
    message: str = ""


class _Failure(msgspec.Struct):
    remote: _Remote = msgspec.field(name="RemoteException")


class HdfsClient:
    """The servers of one file system. The one that answered last is asked first."""

    def __init__(self, servers: tuple[str, ...], user: str, timeout_seconds: float) -> None:
        self._servers = servers
        self._first = 0
        self._user = user
        self._timeout_seconds = timeout_seconds

    def ask(self, operation: str, path: str, **parameters: str) -> bytes:
        """What a namenode answers by itself."""
        return self._at_namenode(operation, path, parameters).body

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        return self._at_datanode("OPEN", path, {}, None)

    def create(self, path: str, body: bytes) -> None:
        """A new file, with the folders above. It is closed, and its blocks are on disk, when this returns."""
        parameters = {"overwrite": "false", "createflag": DURABLE}
        self._at_datanode("CREATE", path, parameters, body)

    def _at_datanode(self, operation: str, path: str, parameters: Mapping[str, str], body: bytes | None) -> bytes:
        sent_to = self._at_namenode(operation, path, parameters).location
        if not sent_to:
            raise NoAnswer(f"the namenode named no datanode for {operation}")
        return self._sent(METHODS.get(operation, "GET"), urlsplit(sent_to), body).body

    def _at_namenode(self, operation: str, path: str, parameters: Mapping[str, str]) -> _Answer:
        query = urlencode({"op": operation, "user.name": self._user, **parameters})
        target = f"{PREFIX}{quote(path)}?{query}"
        return self._at_active(
            lambda server: self._sent(METHODS.get(operation, "GET"), urlsplit(server + target), None)
        )

    def _at_active(self, act: Callable[[str], T]) -> T:
        """What the active one says; else why the last one could not be it."""
        count, begin = len(self._servers), self._first
        for number in range(begin, begin + count):
            is_last = number == begin + count - 1
            try:
                answer = act(self._servers[number % count])
            except NoServer:
                if is_last:
                    raise
                continue
            except HdfsRefused as error:
                if error.name == STANDBY and not is_last:
                    continue
                self._first = number % count
                raise
            self._first = number % count
            return answer
        raise NoServer("no server is named")

    def _sent(self, method: str, to: SplitResult, body: bytes | None) -> _Answer:
        kind = http.client.HTTPSConnection if to.scheme == "https" else http.client.HTTPConnection
        connection = kind(to.hostname or "", to.port, timeout=self._timeout_seconds)
        try:
            connection.connect()
        except OSError as error:
            raise NoServer(f"no connection to {to.netloc}: {error.strerror or error}") from error
        try:
            connection.request(method, f"{to.path}?{to.query}", body, {"Content-Type": "application/octet-stream"})
            got = connection.getresponse()
            is_whole = got.length is not None or got.chunked
            answer = _Answer(got.status, got.read(), got.headers.get("Location", ""))
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"{to.netloc} did not answer: {str(error) or type(error).__name__}") from error
        finally:
            connection.close()
        if answer.status >= 400:
            raise _failure(answer, to.netloc)
        if not is_whole:
            raise NoAnswer(f"{to.netloc} does not say how long its answer is")
        return answer


def _failure(answer: _Answer, server: str) -> Exception:
    if answer.status == 401:
        return HdfsRefused(UNKNOWN_USER, f"{server} takes no user name for granted")
    try:
        remote = msgspec.json.decode(answer.body, type=_Failure).remote
    except msgspec.MsgspecError:
        if answer.status >= 500:
            return NoAnswer(f"{server} answered {answer.status}")
        return HdfsRefused(f"status {answer.status}", f"no WebHDFS answers at {server}")
    return HdfsRefused(remote.exception, next(iter(remote.message.splitlines()), ""))
