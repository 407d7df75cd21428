"""Where the WebHDFS of an `hdfs:` URL answers, and under which user name.

- An option of the store decides, `webhdfs`. Else Hadoop's own settings do, in the folder that `HADOOP_CONF_DIR` names;
  else it is port 9870 of the host in the URL.
- Hadoop's settings count only for the file system that they are about: the one that is their default, the one whose
  address they have, or a name service of theirs. Another one's server would have other journals than Spark has results.
- The user is the option `user`, else `HADOOP_USER_NAME`, else the user of this process: as Hadoop's clients find it.
  Both variables are Hadoop's, and no settings of Rekindle.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree

from rekindle.errors import Refused, StoreDenied
from rekindle.storage.schemes import host_and_port

WEB_PORT = 9870
FILES = ("core-site.xml", "hdfs-site.xml")
NAME_IT = "name it: --storage webhdfs=http://namenode:9870, or REKINDLE_STORAGE_WEBHDFS"
# The options that only this store has.
OPTIONS = frozenset({"webhdfs", "user"})


class HdfsServers(NamedTuple):
    """The web servers of the namenodes of a file system, and who asks them."""

    urls: tuple[str, ...]
    user: str


def servers_of(authority: str, options: Mapping[str, str], environ: Mapping[str, str] | None = None) -> HdfsServers:
    """Of the file system `hdfs://authority`. `options` are those of the store."""
    environ = os.environ if environ is None else environ
    if not authority:
        raise Refused(
            "hdfs:/// names no file system", "write it as hdfs://namenode:8020/path or hdfs://nameservice/path"
        )
    user = options.get("user") or environ.get("HADOOP_USER_NAME") or pwd.getpwuid(os.geteuid()).pw_name
    chosen = options.get("webhdfs", "")
    if chosen:
        return HdfsServers(tuple(_url(one.strip()) for one in chosen.split(",")), user)
    settings = _settings(environ.get("HADOOP_CONF_DIR", ""))
    if settings.get("hadoop.security.authentication", "simple").lower() == "kerberos":
        raise no_kerberos(f"hdfs://{authority}")
    return HdfsServers(tuple(map(_url, _hosts(authority, settings))), user)


def no_kerberos(name: str) -> StoreDenied:
    """The refusal of a file system whose users must prove who they are."""
    return StoreDenied(
        f"{name} asks for Kerberos, which Rekindle cannot use for a location or a target",
        "keep the location on another storage, such as s3a://bucket/rekindle; Spark may read from there all the same",
    )


def _hosts(authority: str, settings: Mapping[str, str]) -> Iterator[str]:
    host, port = host_and_port(authority)
    if authority in _names(settings, "dfs.nameservices"):
        ids = _names(settings, f"dfs.ha.namenodes.{authority}")
        for ending in [f"{authority}.{one}" for one in ids] or [authority]:
            yield _web(_host(settings, f"dfs.namenode.rpc-address.{ending}"), settings, f".{ending}")
        return
    theirs = {urlsplit(settings.get("fs.defaultFS", "")).netloc, settings.get("dfs.namenode.rpc-address", "")}
    if (host, port) in {host_and_port(one) for one in theirs if one}:
        yield _web(host, settings, "")
    else:
        yield f"{host}:{WEB_PORT}"


def _web(host: str, settings: Mapping[str, str], ending: str) -> str:
    told = settings.get(f"dfs.namenode.http-address{ending}", "")
    its_host, port = told.rpartition(":")[::2]
    if "${" in told or (not told and not host):
        raise Refused(f"dfs.namenode.http-address{ending} of HADOOP_CONF_DIR does not say where WebHDFS is", NAME_IT)
    return f"{host}:{WEB_PORT}" if not told else f"{host if its_host in ('', '0.0.0.0') else its_host}:{port}"


def _host(settings: Mapping[str, str], name: str) -> str:
    return host_and_port(settings.get(name, ""))[0]


def _names(settings: Mapping[str, str], name: str) -> list[str]:
    return [one.strip() for one in settings.get(name, "").split(",") if one.strip()]


def _url(told: str) -> str:
    return told.rstrip("/") if "://" in told else f"http://{told}"


def _settings(folder: str) -> dict[str, str]:
    """Empty where nothing names a folder. A file that is named and cannot be read is no empty one."""
    found: dict[str, str] = {}
    for path in (Path(folder) / name for name in FILES) if folder else ():
        if not path.exists():
            continue
        try:
            root = ElementTree.parse(path).getroot()
        except (OSError, ElementTree.ParseError) as error:
            raise Refused(f"{path} cannot be read: {error}", NAME_IT) from error
        for one in root.iter("property"):
            found[(one.findtext("name") or "").strip()] = (one.findtext("value") or "").strip()
    return found
