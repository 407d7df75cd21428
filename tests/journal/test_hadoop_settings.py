"""Where WebHDFS answers, by what Hadoop's settings say; no server is asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from rekindle.errors import Refused, StoreDenied
from rekindle.storage.hadoop_settings import servers_of
from rekindle.storage.schemes import one_spelling
from rekindle.storage.stores import open_store

DEFAULT = {"fs.defaultFS": "hdfs://nn:8020"}
PAIR = {
    "dfs.nameservices": "other, lake",
    "dfs.ha.namenodes.lake": "a, b",
    "dfs.namenode.http-address.lake.a": "one:50070",
    "dfs.namenode.rpc-address.lake.b": "two:8020",
}


def folder_of(path: Path, settings: Mapping[str, str], name: str = "hdfs-site.xml") -> dict[str, str]:
    rows = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items())
    (path / name).write_text(f"<?xml version='1.0'?><configuration>{rows}</configuration>")
    return {"HADOOP_CONF_DIR": str(path)}


@pytest.mark.parametrize(
    ("authority", "settings", "servers"),
    [
        ("nn", {}, ["nn:9870"]),
        ("nn:9000", {}, ["nn:9870"]),
        ("nn:8020", DEFAULT, ["nn:9870"]),
        ("nn", DEFAULT | {"dfs.namenode.http-address": "web:1"}, ["web:1"]),
        ("NN:8020", DEFAULT | {"dfs.namenode.http-address": "0.0.0.0:50070"}, ["nn:50070"]),
        ("nn", {"dfs.namenode.rpc-address": "nn:8020", "dfs.namenode.http-address": "nn:2"}, ["nn:2"]),
        ("else", DEFAULT | {"dfs.namenode.http-address": "web:1"}, ["else:9870"]),
        ("nn:9000", DEFAULT | {"dfs.namenode.http-address": "web:1"}, ["nn:9870"]),
        ("lake", PAIR, ["one:50070", "two:9870"]),
        ("lake", {"dfs.nameservices": "lake", "dfs.namenode.http-address.lake": "one:3"}, ["one:3"]),
    ],
    ids=[
        "nothing is said: the usual port",
        "a port of the namenode is none of WebHDFS",
        "the default file system, without a word on HTTP",
        "the default file system, and its web address",
        "a server that listens everywhere has the host of the URL",
        "the address of the namenode says that the settings are about it",
        "another host: these settings are not about it",
        "another port: these settings are not about it",
        "a name service with two namenodes",
        "a name service with one",
    ],
)
def test_the_servers(tmp_path: Path, authority: str, settings: Mapping[str, str], servers: list[str]) -> None:
    found = servers_of(authority, {}, folder_of(tmp_path, settings))
    assert list(found.urls) == [f"http://{server}" for server in servers]


def test_an_option_decides(tmp_path: Path) -> None:
    environment = folder_of(tmp_path, DEFAULT | {"dfs.namenode.http-address": "web:1"})
    found = servers_of("nn", {"webhdfs": "mine:5, https://safe:6/"}, environment)
    assert found.urls == ("http://mine:5", "https://safe:6")


def test_the_user() -> None:
    assert servers_of("nn", {"user": "me"}, {"HADOOP_USER_NAME": "you"}).user == "me"
    assert servers_of("nn", {}, {"HADOOP_USER_NAME": "you"}).user == "you"
    assert servers_of("nn", {}, {}).user


def test_both_files_are_read_and_the_second_decides(tmp_path: Path) -> None:
    folder_of(tmp_path, DEFAULT | {"dfs.namenode.http-address": "first:1"}, "core-site.xml")
    environment = folder_of(tmp_path, {"dfs.namenode.http-address": "second:2"})
    assert servers_of("nn", {}, environment).urls == ("http://second:2",)


def test_settings_that_say_nothing_are_refused_with_what_to_type(tmp_path: Path) -> None:
    unclear = {"dfs.nameservices": "lake", "dfs.ha.namenodes.lake": "a"}
    with pytest.raises(Refused, match=r"dfs\.namenode\.http-address\.lake\.a of HADOOP_CONF_DIR does not say") as told:
        servers_of("lake", {}, folder_of(tmp_path, unclear))
    assert "--storage webhdfs=" in told.value.hint
    with pytest.raises(Refused, match="does not say where"):
        servers_of("nn", {}, folder_of(tmp_path, DEFAULT | {"dfs.namenode.http-address": "${where}:1"}))
    (tmp_path / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(Refused, match=r"hdfs-site\.xml cannot be read"):
        servers_of("nn", {}, {"HADOOP_CONF_DIR": str(tmp_path)})


def test_kerberos_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(StoreDenied, match="hdfs://nn asks for Kerberos"):
        servers_of("nn", {}, folder_of(tmp_path, DEFAULT | {"hadoop.security.authentication": "kerberos"}))


def test_a_url_without_a_namenode_is_refused() -> None:
    with pytest.raises(Refused, match="names no file system"):
        open_store("hdfs:///runs")


def test_options_of_hdfs_are_not_those_of_a_bucket() -> None:
    """One set of options goes to the location and to every target."""
    options = {
        "webhdfs": "nn:1",
        "user": "me",
        "region": "eu-central-1",
        "access_key_id": "a",
        "secret_access_key": "b",
    }
    assert open_store("s3://bucket/x", options).name == "s3://bucket/x"
    assert open_store("hdfs://nn/x", options).name == "hdfs://nn/x"


@pytest.mark.parametrize("url", ["hdfs://nn/a", "hdfs://nn:8020/a", "HDFS://NN:8020/a"])
def test_one_namenode_has_one_spelling(url: str) -> None:
    assert one_spelling(url) == "hdfs://nn/a"
    assert one_spelling("hdfs://nn:9000/a") == "hdfs://nn:9000/a"
