"""The Spark session of a command: started when something first needs it, ended if it was started here."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from rekindle.cli.load import NEEDS_SESSION, Loaded, load
from rekindle.cli.run_options import Choices
from rekindle.config import has_spark_folder, is_submitted
from rekindle.engine.engine_adapter import SessionAdapter, spark_adapter
from rekindle.errors import GraphRefused

LOCAL = "local[*]"


class LazySession:
    """Call it for the session. Nothing that does not need Spark starts it. `is_heard` if what Python workers print is
    for the user to see, as in a step that is looked at; in a run it goes into Spark's log."""

    def __init__(self, named: str, choices: Choices, *, is_heard: bool = False) -> None:
        self._named = named
        self._choices = choices
        self._is_heard = is_heard
        self._loaded: Loaded | None = None
        self._session: Any = None
        self._is_ours = False
        self._log: Path | None = None
        self._is_log_kept = False

    def load(self) -> Loaded:
        """The pipeline that the user named. A file that declares a function for Spark with its type as text needs a
        session to be read: then one is started first."""
        try:
            self._loaded = load(self._named)
        except GraphRefused as error:
            if NEEDS_SESSION not in error.message:
                raise
            self()
            self._loaded = load(self._named)
            self._send(spark_adapter())
        return self._loaded

    def __call__(self) -> Any:
        if self._session is None:
            start = spark_adapter()
            self._send(start)
            name = self._loaded.pipeline.name if self._loaded is not None else Path(self._named).stem
            conf = self._conf(start)
            log = "" if self._log is None or self._is_heard else str(self._log)
            self._session, self._is_ours = start.start(name, self._choices.master, conf, is_submitted(), log)
        return self._session

    def _send(self, start: SessionAdapter) -> None:
        if self._loaded is not None and self._loaded.is_file:
            start.send_by_value(self._loaded.module)

    def properties(self) -> dict[str, str]:
        """What Spark was told: all of it where an application is there already, else what the flags say."""
        if self._session is None and not is_submitted():
            return dict(self._choices.conf)
        return spark_adapter().properties(self())

    def is_alive(self) -> bool:
        """Whether Spark still answers; a session that nobody needed yet is not dead."""
        return self._session is None or spark_adapter().is_alive(self._session)

    def keep_log(self) -> str:
        """Where Spark's log is, which then stays; empty where Spark writes it as it was told by others."""
        if self._log is None or not self._log.exists() or not self._log.stat().st_size:
            return ""
        self._is_log_kept = True
        return str(self._log)

    def _conf(self, start: SessionAdapter) -> dict[str, str]:
        """Spark's log goes to a file: what a user must know of it, they are told. Not where somebody else set it up."""
        conf = dict(self._choices.conf)
        if is_submitted() or has_spark_folder():
            return conf
        conf, log = start.logged_to_file(conf)
        self._log = Path(log) if log else None
        return conf

    def __enter__(self) -> LazySession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._is_ours:
            spark_adapter().stop(self._session)
        if self._log is not None and not self._is_log_kept:
            shutil.rmtree(self._log.parent, ignore_errors=True)


def session_here(named: str, choices: Choices) -> LazySession:
    """To look at steps in: a Spark of this machine, unless the user says otherwise, or spark-submit started us."""
    is_elsewhere = choices.master or is_submitted()
    return LazySession(named, choices if is_elsewhere else replace(choices, master=LOCAL), is_heard=True)
