"""DataFrames of a user's own script: as a step of ours, and a kept result in the script's hands.

- A frame that was made elsewhere is planned again in the session of its group, as a source is. The code that belongs to
  it is what its plan holds of Python, read from there (`pipeline/identity/pickle_reader.py`): no function of ours
  stands behind it.
- A kept result that a script reads is a source for what it keeps next: its committed files are its pin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.port import Engine
from rekindle.engine.spark.jvm import plan_calls, result_calls
from rekindle.engine.spark.plan import cuts
from rekindle.engine.spark.plan.given import FrameCode
from rekindle.engine.spark.plan.packed import PythonFunction, told
from rekindle.engine.spark.run.engine import SparkEngine
from rekindle.engine.spark.session import attach
from rekindle.errors import GraphRefused
from rekindle.master.state.commands import Input
from rekindle.master.state.run_state import Segment
from rekindle.pipeline.identity.pickle_reader import Unreadable


def given(frame: Any, name: str, place: str) -> FrameCode:
    """A frame as the function of a step. Raises `GraphRefused` where it cannot be kept."""
    if not plan_calls.is_classic(frame):
        raise GraphRefused(
            f"{place}: {name} is a {type(frame).__name__}, and only a DataFrame of a classic Spark session can be kept",
            hint="give the DataFrame itself; a session of Spark Connect has no plan that could be looked at",
        )
    if frame.isStreaming:
        raise GraphRefused(
            f"{place}: {name} is a stream, and only batches can be kept", hint="keep a batch, such as one day of it"
        )
    attach(frame.sparkSession)
    if cuts.names_files_of_kept(frame):
        raise GraphRefused(
            f"{place}: {name} reads input_file_name() of a kept result, which gives Rekindle's own files",
            hint="take input_file_name() before the first run.keep, as a column",
        )
    return FrameCode(frame, _functions(frame, name, place))


def refuse_hidden_order(frame: DataFrame, name: str, place: str, *, is_keyed: bool) -> None:
    """For a frame that the script gets back: nobody knows what reads it, so that its order counts."""
    outline = result_calls.outline_of(frame)
    if outline.hidesOrder(is_keyed):
        raise GraphRefused(
            f"{place}: the order of {name} cannot be kept: {outline.lost(is_keyed)}",
            hint="sort after run.keep; or let the frame return the column that it is sorted by",
        )


def opened(engine: Engine, step: str, segments: Sequence[Segment], session: SparkSession) -> DataFrame:
    """The committed files of a kept step, for the script that keeps it."""
    return cast(SparkEngine, engine).read(Input(step, tuple(segments)), session, is_source=True)


def _functions(frame: DataFrame, name: str, place: str) -> tuple[Any, ...]:
    """What the plan holds of Python, each once, in the order of the plan."""
    found: dict[bytes, Any] = {}
    for command in told(frame).commands:
        if command.packed not in found:
            found[command.packed] = _function(command, name, place)
    return tuple(found.values())


def _function(command: PythonFunction, name: str, place: str) -> Any:
    try:
        return command.function()
    except Unreadable as error:
        raise GraphRefused(
            f"{place}: a Python function in the plan of {name} cannot be read ({error}), so Rekindle cannot tell "
            "whether it changed",
            hint="keep the result before it and the result after it; or write both as steps of an rk.Pipeline",
        ) from error
