"""All that anybody outside of an engine's room asks of it, as one protocol, and the one place that finds it.

- An engine is imported when something first needs it: reading a journal or printing help must not wait for it.
- No file outside of `engine/` names a module of an engine. A test may put another adapter in the place of Spark's.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol, cast

from rekindle.engine.adapter import GivenWriter, PreparedStream, PrepareRequest, RunAdapter, StreamRequest
from rekindle.engine.port import Engine
from rekindle.engine.reproduced import RegionReplayer, Reproducer
from rekindle.engine.verified import Verifier
from rekindle.errors import Refused
from rekindle.master.state.run_state import Segment
from rekindle.pipeline.constants import TimeAndSeed
from rekindle.pipeline.declared import Declared
from rekindle.pipeline.step_trial import RowsCompared, Trial

SPARK = "rekindle.engine.spark.adapter"


class SessionAdapter(Protocol):
    """The part of an adapter that commands need: sessions."""

    def start(
        self, name: str, master: str, conf: Mapping[str, str], is_submitted: bool, log: str = ""
    ) -> tuple[Any, bool]:
        """A session, and whether it was started here. `log` is the file for what a JVM says that is started for it."""
        ...

    def logged_to_file(self, conf: Mapping[str, str]) -> tuple[dict[str, str], str]:
        """The same properties for a driver whose log goes to a new file, and that file; empty where they stay."""
        ...

    def is_alive(self, session: Any) -> bool:
        """Whether the application still answers."""
        ...

    def stop(self, session: Any) -> None:
        """End the application. One whose driver process died is ended already."""
        ...

    def properties(self, session: Any) -> dict[str, str]:
        """What the application was told, by whatever way."""
        ...

    def send_by_value(self, module: ModuleType) -> None:
        """Python workers cannot import this module: its functions travel with their code."""
        ...


class FrameAdapter(Protocol):
    """The part of an adapter that scripts need: frames that were made elsewhere."""

    def given(self, frame: Any, name: str, place: str) -> Callable[..., Any]:
        """A frame as the function of a step. Raises `GraphRefused` where it cannot be kept."""
        ...

    def refuse_hidden_order(self, frame: Any, name: str, place: str, *, is_keyed: bool) -> None:
        """Raises `GraphRefused` where the order of a frame cannot be kept."""
        ...

    def prepare_writers(self, session: Any, wanted: StreamRequest, writers: Sequence[GivenWriter]) -> PreparedStream:
        """The queries of a script as regions. Starts nothing."""
        ...

    def opened(self, engine: Engine, step: str, segments: Sequence[Segment], session: Any) -> Any:
        """The committed files of a kept step, as a frame."""
        ...


class TrialAdapter(Protocol):
    """The part of an adapter that `rekindle check` and `rekindle graph --execute` need."""

    def try_steps(
        self, session: Any, steps: Sequence[Declared], parameters: Mapping[str, Any], constants: TimeAndSeed, rows: int
    ) -> Iterator[Trial]:
        """Run each step twice on a sample of so many rows, producers first."""
        ...

    def compare(self, session: Any, wanted: PrepareRequest, published: Mapping[str, Any]) -> dict[str, RowsCompared]:
        """Run the steps without Rekindle, and compare their rows with these frames, by name."""
        ...


class EngineAdapter(
    RunAdapter, Reproducer, RegionReplayer, Verifier, TrialAdapter, SessionAdapter, FrameAdapter, Protocol
):
    """One engine, for all who use it."""


def spark_adapter() -> EngineAdapter:
    """The engine of every run. Raises `Refused` where it is not installed."""
    try:
        module = importlib.import_module(SPARK)
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        raise Refused("this needs pyspark, which is not installed", "pip install 'rekindle[spark]'") from error
    return cast(EngineAdapter, module.ADAPTER)
