"""A certain no and an unknown answer, from a real namenode; what a dead writer leaves; what HDFS takes for a name."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from doubles.dropping_proxy import DroppingProxy
from rekindle.errors import JournalRefused, StoreDenied, StoreFailed, StoreRefused
from rekindle.journal.history import read
from rekindle.storage.hdfs import HdfsStore
from rekindle.storage.probe import probe
from rekindle.storage.store import LEFTOVER_SECONDS, Put
from rekindle.storage.webhdfs import HdfsRefused
from support.facts import CODEC, RUN, Noted, open_run, texts
from support.hadoop import HadoopCluster
from support.signals import when

pytestmark = pytest.mark.hdfs


def store_at(cluster: HadoopCluster, folder: str = "", **other: str) -> HdfsStore:
    return HdfsStore(cluster.url(folder or uuid.uuid4().hex), cluster.store_settings | other)


def asked(cluster: HadoopCluster, operation: str, path: str, **parameters: str) -> str:
    """What the namenode answers to a PUT, or the datanode that it names."""
    query = "".join(f"&{name}={value}" for name, value in parameters.items())
    url = f"http://{cluster.web}/webhdfs/v1/{path}?op={operation}&user.name=root&noredirect=true{query}"
    with urllib.request.urlopen(urllib.request.Request(url, method="PUT")) as answer:
        text: str = answer.read().decode()
    return text


def names_below(store: HdfsStore) -> list[str]:
    return sorted(entry.name for page in store.walk("") for entry in page)


@pytest.fixture
def proxy(hdfs: HadoopCluster) -> Iterator[DroppingProxy]:
    """Between the store and the namenode, for renames."""
    with DroppingProxy(f"http://{hdfs.web}", b"op=RENAME") as running:
        yield running


def test_nobody_there_is_a_certain_no(hdfs: HadoopCluster) -> None:
    """Other than on S3: before the rename nothing can have been done under the name."""
    store = store_at(hdfs, webhdfs="127.0.0.1:1")
    for ask in (lambda: store.put_if_absent("one", b"1"), lambda: store.get("one")):
        with pytest.raises(StoreFailed, match=r"no connection to 127\.0\.0\.1:1") as failed:
            ask()
        assert type(failed.value) is StoreFailed, "a retry can help"


def test_no_rights_is_a_certain_no(hdfs: HadoopCluster) -> None:
    folder = uuid.uuid4().hex
    assert store_at(hdfs, folder).put_if_absent("one", b"1") is Put.CREATED
    other = store_at(hdfs, folder, user="somebody-else")
    with pytest.raises(
        StoreDenied, match="did not write two: AccessControlException: Permission denied: user=somebody-"
    ):
        other.put_if_absent("two", b"2")
    assert other.get("one") == b"1"


def test_an_answer_that_got_lost_is_unknown_and_the_object_is_there(hdfs: HadoopCluster, proxy: DroppingProxy) -> None:
    store = store_at(hdfs, webhdfs=proxy.endpoint)
    proxy.drops = 1
    assert store.put_if_absent("one", b"1") is Put.UNKNOWN
    assert store.get("one") == b"1"
    assert store.put_if_absent("one", b"1") is Put.EXISTS
    assert names_below(store) == ["one"]


@pytest.mark.parametrize("is_fenced", [True, False], ids=["its source is gone", "control: its source stays"])
def test_a_rename_that_was_given_up_is_not_done_later(
    hdfs: HadoopCluster, proxy: DroppingProxy, monkeypatch: pytest.MonkeyPatch, is_fenced: bool
) -> None:
    """The request is on its way when the store says that it knows nothing. The number is somebody else's by then."""
    store = store_at(hdfs, webhdfs=proxy.endpoint)
    if not is_fenced:
        monkeypatch.setattr(store, "_forget", lambda made: None)
    proxy.drops, proxy.is_late = 1, True
    assert store.put_if_absent("one", b"late") is Put.UNKNOWN
    assert store.get("one") is None
    proxy.release()
    assert store.get("one") == (None if is_fenced else b"late")


@pytest.mark.parametrize(("name", "tries"), [("IOException", 2), ("AccessControlException", 1)])
def test_a_busy_datanode_is_asked_again_under_another_name(
    hdfs: HadoopCluster, monkeypatch: pytest.MonkeyPatch, name: str, tries: int
) -> None:
    """It says that the last block has not enough replicas. The file of that try is not left."""
    store = store_at(hdfs)
    create, made = store._web.create, list[str]()

    def busy_once(path: str, body: bytes) -> None:
        made.append(path)
        create(path, body)
        if len(made) == 1:
            raise HdfsRefused(
                name, "Unable to close file because the last block does not have enough number of replicas"
            )

    monkeypatch.setattr(store._web, "create", busy_once)
    if tries == 1:
        with pytest.raises(StoreDenied, match="enough number of replicas"):
            store.put_if_absent("one", b"1")
    else:
        assert store.put_if_absent("one", b"1") is Put.CREATED and store.get("one") == b"1"
    assert len(set(made)) == len(made) == tries
    assert names_below(store) == ["one"] * (tries - 1)


def test_an_append_whose_answer_got_lost_counts_once(hdfs: HadoopCluster, proxy: DroppingProxy) -> None:
    store = store_at(hdfs, webhdfs=proxy.endpoint)
    journal, _ = open_run(store)
    for number in range(3):
        proxy.drops = number % 3
        journal.append(Noted(str(number)))
    assert texts(read(store, RUN, CODEC)) == ["0", "1", "2"]
    assert journal.position.sequence == 4


def half_written(hdfs: HadoopCluster, path: str) -> None:
    """A writer that dies after half of its bytes."""
    to = urlsplit(json.loads(asked(hdfs, "CREATE", path))["Location"])
    connection = http.client.HTTPConnection(to.hostname or "", to.port)
    connection.putrequest("PUT", f"{to.path}?{to.query}")
    connection.putheader("Content-Length", "8")
    connection.endheaders(b"half")
    connection.close()


def test_a_writer_that_dies_blocks_no_name(hdfs: HadoopCluster) -> None:
    folder = uuid.uuid4().hex
    half_written(hdfs, f"{folder}/.put-{uuid.uuid4().hex}")
    store = store_at(hdfs, folder)
    assert store.list_after("") == [] and store.get("one") is None
    assert store.put_if_absent("one", b"1") is Put.CREATED
    assert store.list_after("") == ["one"]


def test_control_a_writer_that_creates_under_the_name_blocks_it(hdfs: HadoopCluster) -> None:
    folder = uuid.uuid4().hex
    half_written(hdfs, f"{folder}/one")
    store = store_at(hdfs, folder)
    assert store.put_if_absent("one", b"12345678") is Put.EXISTS
    assert store.get("one") != b"12345678"


def test_leftovers_of_dead_writers_are_not_listed_and_removed_after_an_hour(hdfs: HadoopCluster) -> None:
    folder = uuid.uuid4().hex
    made = store_at(hdfs, folder)
    for name in ("old", "young"):
        made.put(f".put-{name}", b"half")
    old_ms = int((made.now() - LEFTOVER_SECONDS - 60) * 1000)
    asked(hdfs, "SETTIMES", f"{folder}/.put-old", modificationtime=str(old_ms))
    store = store_at(hdfs, folder)
    assert store.list_after("") == []
    store.put_if_absent("one", b"1")
    assert names_below(store) == [".put-young", "one"]


def test_a_listing_goes_on_behind_a_page(hdfs: HadoopCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A namenode answers with so many names at once as its settings allow; each page begins behind the last name."""
    store, asked_for = store_at(hdfs), []
    names = [f"{number:04d}" for number in range(5)]
    for name in names:
        store.put(name, b"")
    sent = store._web.ask

    def two_at_once(operation: str, path: str, **parameters: str) -> bytes:
        body = json.loads(sent(operation, path, **parameters))
        listing = body["DirectoryListing"]
        found = listing["partialListing"]["FileStatuses"]["FileStatus"]
        asked_for.append(parameters["startAfter"])
        listing["remainingEntries"] += len(found[2:])
        listing["partialListing"]["FileStatuses"]["FileStatus"] = found[:2]
        return json.dumps(body).encode()

    monkeypatch.setattr(store._web, "ask", two_at_once)
    assert store.list_after("") == names and asked_for == ["", "0001", "0003"]
    assert store.list_after("", "0002") == names[3:]


@pytest.mark.parametrize("name", ["a b", "100%", "a%20b", "é", "a#b?c+d&e=f", "a;b", "'"])
def test_a_name_is_taken_as_it_stands(hdfs: HadoopCluster, name: str) -> None:
    folder = uuid.uuid4().hex
    store = store_at(hdfs, f"{folder}/{name}")
    assert store.put_if_absent(name, b"1") is Put.CREATED
    assert store.get(name) == b"1" and store.list_after("") == [name]
    assert store_at(hdfs, folder).list_folders("") == [name]


def test_a_file_is_no_folder(hdfs: HadoopCluster) -> None:
    store = store_at(hdfs)
    store.put("one", b"1")
    assert store.list_after("one/") == store.list_folders("one/") == [] and store.get("one/two") is None
    with pytest.raises(StoreDenied, match="did not write one/two: ParentNotDirectoryException"):
        store.put_if_absent("one/two", b"2")


def test_a_folder_in_the_place_of_an_object_stays_as_it_is(hdfs: HadoopCluster) -> None:
    """A rename of HDFS that asks for nothing else would move the file into the folder, and say that all is well."""
    store = store_at(hdfs)
    store.put("one/two", b"2")
    with pytest.raises(StoreFailed, match="did not write one"):
        store.put_if_absent("one", b"1")
    assert names_below(store) == ["one/two"]


def test_a_name_above_the_location_is_refused(hdfs: HadoopCluster) -> None:
    with pytest.raises(JournalRefused, match="outside of"):
        store_at(hdfs).delete("../one")


def test_an_object_is_written_through_to_the_disk_of_the_datanode(hdfs: HadoopCluster) -> None:
    """HDFS leaves it to the writer. Its figures are some seconds old."""

    def syncs() -> int:
        url = f"http://{hdfs.web}/jmx?qry=Hadoop:service=DataNode,name=DataNodeActivity*"
        with urllib.request.urlopen(url) as answer:
            beans = json.loads(answer.read())["beans"]
        return sum(int(one["FsyncCount"]) for one in beans)

    store, before = store_at(hdfs), syncs()
    assert store.put_if_absent("one", b"1") is Put.CREATED
    when(lambda: syncs() > before, every_s=0.5)


class Namenode(BaseHTTPRequestHandler):
    """Answers everything in one way, and counts."""

    status, body = 403, json.dumps({"RemoteException": {"exception": "StandbyException", "message": "no"}})
    counts: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.counts.append(self.path)
        body = self.body.encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_GET
    do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """pytest tells enough."""


@pytest.fixture
def other() -> Iterator[tuple[str, type[Namenode]]]:
    """A server that is told what to answer."""
    kind = type("Told", (Namenode,), {"counts": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}", kind
    server.shutdown()
    server.server_close()


def test_a_namenode_on_standby_and_one_that_is_gone_are_passed_over(
    hdfs: HadoopCluster, other: tuple[str, type[Namenode]]
) -> None:
    standby, kind = other
    store = store_at(hdfs, webhdfs=f"{standby},127.0.0.1:1,{hdfs.web}")
    assert store.put_if_absent("one", b"1") is Put.CREATED
    asked_first = len(kind.counts)
    assert store.put_if_absent("one", b"2") is Put.EXISTS and store.get("one") == b"1"
    assert len(kind.counts) == asked_first == 1, "the active one is asked first from then on"
    with pytest.raises(StoreFailed, match="StandbyException"):
        store_at(hdfs, webhdfs=standby).put_if_absent("one", b"1")


def test_kerberos_is_refused_with_a_way_out(hdfs: HadoopCluster, other: tuple[str, type[Namenode]]) -> None:
    server, kind = other
    kind.status = 401
    with pytest.raises(StoreDenied, match=f"{hdfs.url('x')} asks for Kerberos, which Rekindle cannot use") as denied:
        HdfsStore(hdfs.url("x"), {"webhdfs": server}).list_folders("")
    assert "another storage" in denied.value.hint


def test_a_server_of_something_else_is_told_as_such(hdfs: HadoopCluster, other: tuple[str, type[Namenode]]) -> None:
    server, kind = other
    kind.status, kind.body = 404, "<html>not here</html>"
    with pytest.raises(StoreDenied, match=f"no WebHDFS answers at {server}"):
        store_at(hdfs, webhdfs=server).get("one")
    kind.status, kind.body = 200, "{}"
    with pytest.raises(StoreFailed, match="is not one of WebHDFS"):
        store_at(hdfs, webhdfs=server).list_after("")


def test_a_gateway_that_does_not_know_a_rename_that_overwrites_nothing_is_refused(
    hdfs: HadoopCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HttpFS answers to a rename with a word, and renames as it likes."""
    store = store_at(hdfs)
    sent = store._web.ask

    def plain(operation: str, path: str, **parameters: str) -> bytes:
        parameters.pop("renameoptions", None)
        return sent(operation, path, **parameters)

    monkeypatch.setattr(store._web, "ask", plain)
    with pytest.raises(StoreRefused, match="gave no definite answer to a conditional write"):
        probe(store)
    with pytest.raises(StoreFailed, match="does not say whether it replaced"):
        store.put("one", b"1")
