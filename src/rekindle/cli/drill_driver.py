"""A driver of a drill, as a process of its own: it rehearses the run, or compares its rows with those of plain Spark.

It does what the file says that is named on its command line, and prints what `run` prints.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from rekindle.api import compare_with_plain, rehearsal
from rekindle.cli.run_options import Choices
from rekindle.cli.run_session import LazySession
from rekindle.errors import RekindleError
from rekindle.pipeline.step_trial import RowsCompared
from rekindle.service.options import RunOptions


class DrillOrder(msgspec.Struct, frozen=True, kw_only=True):
    """`published` is the folder of the rehearsal; where `compared` is named, the rows are compared, and told there."""

    pipeline: str
    parameters: dict[str, str]
    location: str
    published: str
    strategy: str
    conf: tuple[tuple[str, str], ...]
    storage: dict[str, str]
    compared: str = ""


def main(order: DrillOrder) -> None:
    with LazySession(order.pipeline, Choices(conf=order.conf)) as session:
        rehearsed = rehearsal(session.load().pipeline, order.published)
        if order.compared:
            read = RunOptions(storage=order.storage)
            found = compare_with_plain(rehearsed, session, order.location, options=read, **order.parameters)
            Path(order.compared).write_bytes(msgspec.json.encode(found))
            return
        options = RunOptions(strategy=order.strategy, sweep=None, storage=order.storage)
        rehearsed.run(session, order.location, options=options, **order.parameters)


def told_in(path: Path) -> dict[str, RowsCompared]:
    """What was compared; nothing where the comparison did not end."""
    return msgspec.json.decode(path.read_bytes(), type=dict[str, RowsCompared]) if path.exists() else {}


if __name__ == "__main__":
    try:
        main(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=DrillOrder))
    except RekindleError as error:
        sys.exit(str(error))
