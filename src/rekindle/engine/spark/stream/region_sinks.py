"""Where a region's rows go: the writer of its query, and what is refused before anything starts.

`rk.files` is written by java/StreamFiles: one entry for each batch, exactly once. The entries of a region are those of
one checkpoint, told by a generation of their own: a new checkpoint counts its batches from 0 again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.streaming import DataStreamWriter

from rekindle.engine.adapter import Stores
from rekindle.engine.spark.publish import stream_files
from rekindle.engine.spark.stream.region_frames import RegionFrames
from rekindle.errors import GraphRefused, Refused
from rekindle.pipeline.declared import Declared
from rekindle.publish.stream_entries import generations
from rekindle.remedies import StartRemedy
from rekindle.streams.stream_spec import Delivery

SINK = "rekindle.spark.StreamFiles"
APPEND = "append"
AVAILABLE_NOW = "available now"
REAL_TIME = "real time "
# Told of a trigger that nobody chose.
AT_ONCE = "as soon as there is input"


@dataclass(frozen=True, slots=True)
class RegionSink:
    """The sink of a region: `root` is where the run has its files, `generation` that of its checkpoint."""

    sink: Declared
    root: str
    generation: str
    available_now: bool = False

    @property
    def name(self) -> str:
        return self.sink.name

    @property
    def base(self) -> str:
        return stream_files.base_of(self.sink)

    @property
    def checkpoint(self) -> str:
        return f"{self.root}/checkpoints/{self.name}"

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

    def check(self, stores: Stores, takes: frozenset[str]) -> None:
        """Refuse what these files cannot take, and a target that somebody else writes."""
        stream_files.check_layout(self.sink)
        if self.output_mode != APPEND:
            raise GraphRefused(
                f"{self.sink.place}: {self.name} has output_mode={self.output_mode!r}, and rows in files do not change",
                'leave out output_mode; with an aggregate over event time and withWatermark, "append" gives each group '
                "when it is final",
            )
        store = stores(self.base)
        stream_files.refuse_versions(self.sink, store)
        found = generations(store)
        others = [one for one in found if one != (self.name, self.generation)]
        if others and len(others) == len(found) and self.name not in takes:
            told = ", ".join(f"{region} ({generation})" for region, generation in others[:3])
            raise Refused(
                f"{self.sink.shown_target} has the rows of another stream already: {told}; this one would add to them",
                StartRemedy(to="add them all the same", take_target=(self.name,)),
            )

    def writer(self, frames: RegionFrames) -> DataStreamWriter:
        """The query, not started."""
        writer = frames.frame.writeStream.queryName(self.name).outputMode(self.output_mode)
        match self.trigger:
            case word if word == AVAILABLE_NOW:
                writer = writer.trigger(availableNow=True)
            case word if word.startswith(REAL_TIME):
                writer = writer.trigger(realTime=word.removeprefix(REAL_TIME))
            case word if word != AT_ONCE:
                writer = writer.trigger(processingTime=word)
        writer = writer.format(SINK).option("checkpointLocation", self.checkpoint)
        return writer.options(**self._options())

    def _options(self) -> Mapping[str, str]:
        return {
            "path": self.base,
            "checkpoint": self.checkpoint,
            "region": self.name,
            "generation": self.generation,
        }
