"""One committed result on its way into one target, and how its files get into a directory."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs
from pyspark.sql import SparkSession

from rekindle.engine.adapter import FileCopy
from rekindle.engine.spark.publish import copying
from rekindle.errors import Refused
from rekindle.master.facts.events import Fence
from rekindle.pipeline.table_versions import TableVersion
from rekindle.publish.files import PARQUET
from rekindle.publish.pointers import OF_FILES, POINTERS, Part, Pointer, identify, version_of
from rekindle.publish.targets import Target
from rekindle.remedies import StartRemedy, TextRemedy

# Makes a directory on a disk of what has no rows and no files; no reader sees it.
NO_ROWS = "_no_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOwner:
    """Who wants to publish into a target: a pipeline of one place, and the sink, for the command that takes it. `takes`
    is the place from which the user's word takes the target, as it was seen then: not from whoever comes later; `key`
    tells the parameters of the run; `has_published` if it need not publish any more."""

    owner: str
    place: str
    sink: str
    takes: str | None = None
    key: str = ""
    has_published: bool = False

    def owns(self, found: Pointer) -> bool:
        """Its fences can be compared with ours."""
        return (found.owner, found.place) == (self.owner, self.place)

    def check(self, base: str, top: Pointer | None) -> None:
        """Fences of two pipelines, or of two places, cannot be compared, so a target belongs to the first one that
        published into it, until another place takes it on the user's word."""
        if top is None or self.owns(top):
            return
        if top.owner != self.owner:
            raise Refused(
                f"{base} is a target of {top.owner}, and {self.owner} may not publish to it",
                f"use another target, or remove {base}/{POINTERS} if {top.owner} will never publish again",
            )
        if top.place != self.takes:
            raise Refused(
                f"{base} is a target of runs of {top.owner} in another location (its newest is run "
                f"{top.fence.order}): Rekindle cannot tell which publication is later",
                (
                    StartRemedy(to="if that location publishes no more, take the target", take_target=(self.sink,)),
                    TextRemedy("or use that location, or another target"),
                ),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFiles:
    """Files that were written for one publication: where they are staged, empty if an earlier version has them; (path
    below that, bytes) of each; which directories they replace, and whether they replace nothing else; and their format,
    with its options."""

    folder: str
    listed: tuple[tuple[str, int], ...]
    directories: tuple[str, ...] = ()
    by_directory: bool = False
    format: str = PARQUET
    options: tuple[tuple[str, str], ...] = ()

    @property
    def is_parquet(self) -> bool:
        return self.format == PARQUET


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """`files` are (absolute path, bytes) of everything that is committed, in the order of its partitions; `schema` is
    Spark's JSON; `owner` is the pipeline and `place` the location whose runs the fence counts: only fences of one owner
    and place can be compared; `holes` names what was left out; `takes` is the place from which the target is taken;
    `key` tells the parameters of the run: an append replaces what the same key appended before; `read` are the versions
    of the target that the run reads, `tables` the versions of tables; `staged` are its files where they are written
    again for the target."""

    sink: str
    owner: str
    target: Target
    fence: Fence
    files: tuple[tuple[str, int], ...]
    schema: str
    holes: str = ""
    place: str = ""
    takes: str | None = None
    key: str = ""
    read: frozenset[str] = frozenset()
    tables: tuple[TableVersion, ...] = ()
    staged: StagedFiles | None = None

    @property
    def claimant(self) -> TargetOwner:
        return TargetOwner(owner=self.owner, place=self.place, sink=self.sink, takes=self.takes, key=self.key)

    @property
    def version(self) -> str:
        """In the names of all that it writes."""
        return version_of(self.fence, self.place)

    def part(self) -> Part:
        lengths = tuple(length for _, length in self.files) if self.staged is None else ()
        return Part(
            fence=self.fence,
            source=identify(self.files),
            bytes=lengths,
            holes=self.holes,
            place=self.place,
            key=self.key,
            listed=self.staged.listed if self.staged is not None else (),
            directories=self.staged.directories if self.staged is not None else (),
            by_directory=self.staged is not None and self.staged.by_directory,
        )

    def written(self, pointer: Pointer) -> Pointer:
        """The pointer, with the format of the files."""
        if self.staged is None or self.staged.is_parquet:
            return pointer
        return structs.replace(pointer, format=OF_FILES, files_format=self.staged.format, options=self.staged.options)

    def copies(self, part: Part) -> list[FileCopy]:
        """Our files under the names of `part`, which is ours or was copied from the same files."""
        if self.staged is not None:
            return [FileCopy(f"{self.staged.folder}/{name}", length, name) for name, length in part.files()]
        named = zip(self.files, part.files(), strict=True)
        return [FileCopy(path, length, name) for (path, length), (name, _) in named]


def write(spark: SparkSession, what: Publication, directory: str, scratch: str, copies: list[FileCopy]) -> set[str]:
    """Copy the files, or write one without rows if there are none. Returns names that do not belong to them."""
    there = copying.complete(spark, directory, scratch, copies)
    wanted = {copy.name for copy in copies}
    if not copies and what.staged is not None and not what.staged.is_parquet:
        copying.put(spark, f"{directory}/{NO_ROWS}", b"")
    elif not copies:
        name = f"part-empty-{what.version}_00000.c000.parquet"  # The number is that of a bucket, if there are any.
        copying.write_empty(spark, directory, name, what.schema)
        wanted = {name}
    return there - wanted
