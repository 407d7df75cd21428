"""What both processes of `make stream-fence` know: the regions, where their files are, and what they must give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

# `kept` passes every row on. `once` has state: it drops values that it has seen. Both end in our sink. `bare` appends
# in a function of the user's, as people write it, and is the control: Spark alone does not keep a zombie from it.
KEPT, ONCE, BARE = "kept", "once", "bare"
OURS, REGIONS = (KEPT, ONCE), (KEPT, ONCE, BARE)
ROWS, AGAIN = 40, 10


class DriverOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One driver: its epoch. `url` is where checkpoints, fence and target are, if not in the folder. `ends`: its
    queries read what there is, and end."""

    folder: str
    epoch: int
    url: str = ""
    ends: bool = False


class StreamPlace:
    """The folders of one round. Drivers know what they write by `url`; `objects` is where that lies as files, which an
    S3 server of ours has too."""

    def __init__(self, folder: Path, url: str = "", objects: Path | None = None) -> None:
        self.folder, self.url, self._objects = folder, url or folder.as_uri(), objects or folder
        self.source, self.halt, self.target = folder / "source", folder / "halt", self._objects / "target"

    def checkpoint(self, region: str) -> Path:
        return self._objects / "checkpoints" / region

    def logged(self, region: str, log: str) -> int:
        """The last number in a log of a checkpoint, -1 before the first."""
        names = (one.name for one in (self.checkpoint(region) / log).glob("*"))
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def feed(self, number: int) -> None:
        """One more file: new values, and some of the file before it again."""
        values = range(number * ROWS, (number + 1) * ROWS)
        again = range((number - 1) * ROWS, (number - 1) * ROWS + AGAIN) if number else range(0)
        made = self.folder / f".{number}"
        made.write_text("".join(f"{value}\n" for value in (*values, *again)))
        made.rename(self.source / f"{number:05d}.txt")

    def expected(self, region: str, files: int) -> Counter[str]:
        rows = Counter(line for number in range(files) for line in self._lines(number))
        return Counter(dict.fromkeys(rows, 1)) if region == ONCE else rows

    def _lines(self, number: int) -> list[str]:
        return (self.source / f"{number:05d}.txt").read_text().split()

    def found(self, region: str) -> Counter[str]:
        """The rows that count, by the entries of the region, or all that the user's function wrote."""
        paths = self.folder.glob("bare/*/part-*.parquet") if region == BARE else self._named(region)
        rows = Counter[str]()
        for path in paths:
            rows.update(pq.read_table(path, columns=["value"]).column("value").to_pylist())
        return rows

    def _named(self, region: str) -> Iterator[Path]:
        for entry in sorted((self.target / "entries" / region / "0").glob("[0-9]*")):
            head, *files = entry.read_text().partition("directory\t")[2].splitlines()
            yield from (self.target / head / line.partition("\t")[0] for line in files if line.startswith("part-"))
