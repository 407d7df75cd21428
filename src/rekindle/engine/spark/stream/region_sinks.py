"""Where a region's rows go: the writer of its query, and what is refused before anything starts.

`rk.files` is written by java/StreamFiles: one entry for each batch, exactly once. The entries of a region are those of
one checkpoint, told by a generation of their own: a new checkpoint counts its batches from 0 again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.streaming import DataStreamWriter

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.publish import stream_files
from rekindle.engine.spark.stream.region_frames import RegionFrames
from rekindle.errors import GraphRefused, Refused
from rekindle.pipeline.declared import Declared
from rekindle.publish.stream_entries import StreamOwner, generation_of, has_entry, owner_of, take
from rekindle.remedies import TextRemedy, new_run
from rekindle.results.checkpoint_log import COMMITS, OFFSETS, checkpoint_folder
from rekindle.streams.stream_spec import AVAILABLE_NOW, Delivery

# The line of an entry of Spark's offset log that has settings, counted from 1.
CONF_LINE = 2
SINK = "rekindle.spark.StreamFiles"
APPEND = "append"
REAL_TIME = "real time "
# Told of a trigger that nobody chose.
AT_ONCE = "as soon as there is input"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSink:
    """The sink of a region: `root` is where the run has its files, `run` its name, and `replaced` how many checkpoints
    the region had before this one; `takes` if the user gives it the target of another stream."""

    sink: Declared
    root: str
    run: str
    replaced: int = 0
    available_now: bool = False
    takes: bool = False

    @property
    def name(self) -> str:
        return self.sink.name

    @property
    def base(self) -> str:
        return stream_files.base_of(self.sink)

    @property
    def generation(self) -> str:
        """By which the entries of this checkpoint are told from those of every other one."""
        return generation_of(self.run, self.replaced)

    @property
    def checkpoint(self) -> str:
        return f"{self.root}/{self._below}"

    @property
    def _below(self) -> str:
        return checkpoint_folder(self.name, self.replaced)

    @property
    def output_mode(self) -> str:
        return self.sink.output_mode or APPEND

    @property
    def trigger(self) -> str:
        """In words."""
        return AVAILABLE_NOW if self.available_now else self.sink.trigger or AT_ONCE

    @property
    def delivery(self) -> Delivery:
        return Delivery.EXACTLY_ONCE

    def check(self, stores: Stores) -> int:
        """Refuse what these files cannot take, a target that batches or another stream have, and one that has lost what
        the checkpoint says is there. The answer is the last batch that the checkpoint has committed, -1 for none."""
        stream_files.check_layout(self.sink)
        if self.output_mode != APPEND:
            raise GraphRefused(
                f"{self.sink.place}: {self.name} has output_mode={self.output_mode!r}, and rows in files do not change",
                'leave out output_mode; with an aggregate over event time and withWatermark, "append" gives each group '
                "when it is final",
            )
        store = stores(self.base)
        stream_files.refuse_versions(self.sink, store)
        held = owner_of(store)
        if held is not None and not self._may_take(held) and held[1:] != (self.name, self.generation):
            self.take(stores)
        names = stores(self.root).list_after(f"{self._below}/{COMMITS}")
        last = max((int(name) for name in names if name.isdecimal()), default=-1)
        if last >= 0 and not has_entry(store, self.name, self.generation, last):
            raise Refused(
                f"the checkpoint of {self.name} has committed batch {last}, and {self.sink.shown_target} lacks it: "
                "rows were removed from it, or it is another one",
                (TextRemedy("restore the target"), new_run("or start a new stream, which reads from the beginning")),
            )
        return last

    def take(self, stores: Stores) -> int:
        """The number of this stream among the owners of the target. Raises `Refused` if another one has it."""
        store = stores(self.base)
        held = owner_of(store)
        is_ours = held is not None and self._may_take(held)
        return take(store, self.name, self.generation, is_taken_over=is_ours or self.takes).number

    def _may_take(self, held: StreamOwner) -> bool:
        """On the user's word, or if it is that of an older checkpoint of this region: that this one replaces it is
        journaled."""
        older = (generation_of(self.run, number) for number in range(self.replaced))
        return self.takes or (held.region == self.name and held.generation in older)

    def pinned(self, stores: Stores, last: int) -> dict[str, str]:
        """The settings that the checkpoint has with its last batch: Spark uses them, whatever the session says."""
        lines = (stores(self.root).get(f"{self._below}/{OFFSETS}{last}") or b"").decode().splitlines()
        return {} if len(lines) < CONF_LINE else dict(json.loads(lines[CONF_LINE - 1]).get("conf", {}))

    def writer(self, frames: RegionFrames, owner: int) -> DataStreamWriter:
        """The query, not started. `owner` is its number among those of the target."""
        writer = frames.frame.writeStream.queryName(self.name).outputMode(self.output_mode)
        match self.trigger:
            case word if word == AVAILABLE_NOW:
                writer = writer.trigger(availableNow=True)
            case word if word.startswith(REAL_TIME):
                writer = writer.trigger(realTime=word.removeprefix(REAL_TIME))
            case word if word != AT_ONCE:
                writer = writer.trigger(processingTime=word)
        writer = writer.format(SINK).option("checkpointLocation", self.checkpoint)
        return writer.options(**self._options(), owner=str(owner))

    def _options(self) -> Mapping[str, str]:
        return {
            "path": self.base,
            "checkpoint": self.checkpoint,
            "region": self.name,
            "generation": self.generation,
        }
