"""`rk.each_batch`: a function of the user's takes the rows of each batch of a stream, as Spark's `foreachBatch` does.

Rules
- Nobody but the function knows what it wrote. So it is called at least once for each batch: again if the driver died,
  or the batch failed, before the checkpoint had committed it.
- It is given a `key` that is the same whenever it is called for the same batch, and that no other batch has: whoever
  keeps that key in the transaction of the rows writes them exactly once, and may say so for the plan.
- A function that never returns cannot be stopped by Spark. Its region is fenced, and waits for the next driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rekindle.errors import Refused
from rekindle.publish.each_partition import Writer, asked_by_name

# What the function may ask for, by name.
OF_STREAM = ("batch", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class EachBatch:
    """A function that is called with the rows of each batch. `name` is what people call the place it writes to."""

    is_versioned: ClassVar[bool] = False
    by_parameters: ClassVar[tuple[str, ...]] = ("name",)
    is_written_once: ClassVar[bool] = False

    name: str
    write: Writer
    exactly_once: bool = False

    @property
    def shown(self) -> str:
        return f"{self.name}, by a function for each batch"

    @property
    def seen(self) -> str:
        return "what the function writes, each batch at least once"

    @property
    def spelling(self) -> str:
        return f"each_batch:{self.name}"

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise Refused(
                "rk.each_batch has no name", 'say where the function writes: rk.each_batch(write, "orders db")'
            )
        asked_of_stream(self.write)


def each_batch(write: Writer, name: str, *, exactly_once: bool = False) -> EachBatch:
    """Call a function with the rows of each batch of a stream, on the driver, as Spark's `foreachBatch` does.

    write           `write(rows, key, batch)`: `rows` is a DataFrame; it asks for what else it needs by name. `batch` is
                    the number of the batch, `key` a text that is the same whenever it is called for the same batch
    name            what people call the place that it writes to, such as "orders in Postgres"
    exactly_once    your word that `write`, in one transaction, keeps `key` with the rows, and writes none if the key is
                    there
    """
    return EachBatch(name=name, write=write, exactly_once=exactly_once)


def asked_of_stream(write: Writer) -> tuple[str, ...]:
    """What `write` wants to be told beside the rows, by name. Refuses what it cannot be given."""
    return asked_by_name(write, OF_STREAM)
