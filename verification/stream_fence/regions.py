"""What both processes of `make stream-fence` know: the regions, where their files are, and what they must give."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from rekindle.storage.local_disk import LocalDisk
from rekindle.storage.store import Store

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
    """The folders of one round. Drivers know what they write by `url`; `store` is that place, whatever it lies on.
    Source and halt are on the disk of this machine."""

    def __init__(self, folder: Path, url: str = "", store: Store | None = None) -> None:
        self.folder, self.url, self.store = folder, url or folder.as_uri(), store or LocalDisk(folder)
        self.source, self.halt, self.target = folder / "source", folder / "halt", folder / "target"

    def checkpoint(self, region: str) -> Path:
        """On a disk."""
        return self.folder / "checkpoints" / region

    def logged(self, region: str, log: str) -> int:
        """The last number in a log of a checkpoint, -1 before the first."""
        names = self.store.list_after(f"checkpoints/{region}/{log}/")
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
        rows = Counter[str]()
        for body in self._bare() if region == BARE else self._named(region):
            rows.update(pq.read_table(io.BytesIO(body), columns=["value"]).column("value").to_pylist())
        return rows

    def _bare(self) -> Iterator[bytes]:
        return (path.read_bytes() for path in self.folder.glob("bare/*/part-*.parquet"))

    def _named(self, region: str) -> Iterator[bytes]:
        entries = f"target/entries/{region}/0/"
        for name in self.store.list_after(entries):
            entry = self.store.get(entries + name) or b""
            head, *files = entry.decode().partition("directory\t")[2].splitlines()
            named = [f"target/{head}/{line.partition(chr(9))[0]}" for line in files if line.startswith("part-")]
            for one in named:
                body = self.store.get(one)
                assert body is not None, f"{one} counts and is gone"
                yield body
