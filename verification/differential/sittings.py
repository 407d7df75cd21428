"""What was found so far, seed by seed, so that a campaign goes on where it stopped."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from differential.judge import Outcome
from differential.values import Mode

FOLDER = Path(".cluster/differential")
DRAWS = ("values", "frames", "data", "drawing", "render")


class Entry(msgspec.Struct, frozen=True):
    """One program that was run to its end. `kept` and `asked` count the steps with result="auto" that move rows or run
    Python, and those of them that are kept; `given_up` tells of the others why. `reused` are partitions that the last
    driver took from the one before."""

    seed: int
    mode: Mode
    is_onramp: bool
    outcome: Outcome
    reason: str = ""
    what: str = ""
    was_struck: bool = False
    reused: int = 0
    is_changed: bool = False
    seconds: float = 0.0
    kept: int = 0
    asked: int = 0
    given_up: list[str] = []


def grammar() -> str:
    """A digest of what draws programs: with another one a seed is another program, and what was found is of no use."""
    files = [Path(__file__).parent / f"{name}.py" for name in DRAWS] + sorted(Path(__file__).parent.glob("kinds*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


class Sittings:
    """A file with one line per program, for each grammar."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self._path = folder / f"programs-{grammar()}.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        self.entries: dict[int, Entry] = {}
        if self._path.exists():
            lines = [line for line in self._path.read_bytes().splitlines() if line.endswith(b"}")]
            self.entries = {one.seed: one for one in (msgspec.json.decode(line, type=Entry) for line in lines)}

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)
        self.entries = {}

    def add(self, entry: Entry) -> None:
        self.entries[entry.seed] = entry
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")

    def next_seeds(self, count: int, first: int = 0) -> Iterable[int]:
        """Seeds from `first` on that were not run, until so many programs count. What bare Spark does not run does not
        count."""
        seed = first
        while sum(one.outcome is not Outcome.DISCARDED for one in self.entries.values()) < count:
            while seed in self.entries:
                seed += 1
            yield seed
            seed += 1


class Sum(msgspec.Struct, frozen=True):
    """The campaign in figures."""

    programs: int
    faults: int
    changed: int
    onramp: int
    new_driver: int
    reusing: int
    different: int
    raw: int
    refused: int
    discarded: int
    kept: int
    asked: int
    minutes: float

    @property
    def refused_share(self) -> float:
        return self.refused / self.programs if self.programs else 0.0

    @property
    def kept_share(self) -> float:
        return self.kept / self.asked if self.asked else 1.0

    def line(self) -> str:
        return (
            f"RESULT differential programs={self.programs} faults={self.faults} changed={self.changed} "
            f"onramp={self.onramp} new_driver={self.new_driver} reusing={self.reusing} different={self.different} "
            f"raw={self.raw} refused={self.refused} refused_share={self.refused_share:.4f} "
            f"kept_share={self.kept_share:.3f} minutes={self.minutes:.1f}"
        )


def sum_of(entries: Iterable[Entry]) -> Sum:
    found = list(entries)
    ran = [one for one in found if one.outcome is not Outcome.DISCARDED]
    outcomes = Counter(one.outcome for one in ran)
    return Sum(
        programs=len(ran),
        faults=sum(one.was_struck and one.mode.is_run_twice for one in ran),
        changed=sum(one.is_changed and (one.was_struck or one.is_onramp) for one in ran),
        onramp=sum(one.is_onramp for one in ran),
        new_driver=sum(one.mode is Mode.NEW_DRIVER and (one.was_struck or one.is_onramp) for one in ran),
        reusing=sum(one.reused > 0 and one.was_struck for one in ran),
        different=outcomes[Outcome.DIFFERENT],
        raw=outcomes[Outcome.RAW],
        refused=outcomes[Outcome.REFUSED],
        discarded=len(found) - len(ran),
        kept=sum(one.kept for one in ran),
        asked=sum(one.asked for one in ran),
        minutes=sum(one.seconds for one in found) / 60,
    )
