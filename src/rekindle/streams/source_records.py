"""A record of a streaming source by its coordinates, and records that a region goes on without."""

from __future__ import annotations

import msgspec

from rekindle.model.failures import Cause

DIGEST_SHOWN = 12


class SourceRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record. `source` is the number of its stream among those of the region, `stream` its name, if it has one. In
    a topic of Kafka `place` is the topic, `partition` and `number` are its partition and offset. In a file `place` is
    the file and `number` the row, where the format numbers rows; elsewhere `digest` tells the record by its content, of
    which there may be `copies` in that file: they fail alike. In the result of another region `place` is that region
    and `number` the batch, which has such content whatever file, block or record it is in, and if it is made again."""

    source: int
    place: str
    number: int = -1
    partition: int = -1
    digest: str = ""
    copies: int = 1
    stream: str = ""

    @property
    def key(self) -> tuple[int | str, str, int, int, str]:
        """Equal for one record, however often it is named."""
        return self.stream or self.source, self.place, self.partition, self.number, self.digest

    @property
    def is_of_result(self) -> bool:
        """Whether it is in the result of another region."""
        return bool(self.digest) and self.number >= 0

    def is_of(self, number: int, stream: str) -> bool:
        """Whether it is of the stream that has this number now, and this name: numbers change when streams do."""
        return self.stream == stream if self.stream else self.source == number

    def __str__(self) -> str:
        if self.partition >= 0:
            return f"offset {self.number} in partition {self.partition} of topic {self.place}"
        if not self.digest:
            return f"row {self.number} of {self.place}"
        equal = f" ({self.copies} equal ones)" if self.copies > 1 else ""
        place = f"batch {self.number} of the result of {self.place}" if self.is_of_result else self.place
        return f"record {self.digest[:DIGEST_SHOWN]} of {place}{equal}"


class QuarantinedRecord(msgspec.Struct, frozen=True):
    """A record, and how it fails; the cause has the user's line. `batch` is the one that reads it, -1 if not known:
    once that is committed, the record is never read again."""

    record: SourceRecord
    cause: Cause
    batch: int = -1


def copies(records: tuple[QuarantinedRecord, ...]) -> int:
    """How many records these are, equal ones counted."""
    return sum(one.record.copies for one in records)
