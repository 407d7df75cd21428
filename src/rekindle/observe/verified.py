"""What a second look at a run's results found, step by step, in three answers.

Rules
- Equal is what was compared and found equal. Where something could not be compared the answer is that, and why; where
  anything differs the answer is that, whatever else is equal.
- Two things are compared by their digests. A digest that is not known is no match.
- A step that is not determinate may come back different: that is said of it, and is no difference.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from rekindle.errors import visible
from rekindle.model.partitions import EMPTY, Partitions
from rekindle.observe.show_words import brief
from rekindle.observe.words import count_text, escape

DETAILS_MAX = 5
WIDTH = struct.Struct(">QQQ")


class ComparisonResult(Enum):
    """What a comparison came to, the worst last."""

    EQUAL = "equal"
    NOT_COMPARABLE = "not comparable"
    DIFFERENT = "different"


class ComparisonBasis(Enum):
    """What was compared with what the journal has."""

    FILES = "files"
    AGAIN = "recomputed"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepVerification:
    """One step, looked at in one way. `different` are its partitions that are not what they were, `details` what is
    wrong with the first of them."""

    step: str
    way: ComparisonBasis
    answer: ComparisonResult
    why: str
    different: Partitions = EMPTY
    details: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        yield f"{self.step}  {self.way.value}: {self.answer.value}: {self.why}"
        yield from (f"  {line}" for line in self.details)


@dataclass(frozen=True, slots=True)
class RunVerification:
    """Every look at the results of one run. `is_over` if the run is done, or cannot be resumed."""

    pipeline: str
    run: str
    is_over: bool
    judged: tuple[StepVerification, ...]

    @property
    def answer(self) -> ComparisonResult:
        """The worst of all."""
        return max(
            (one.answer for one in self.judged),
            key=list(ComparisonResult).index,
            default=ComparisonResult.NOT_COMPARABLE,
        )

    def of(self, step: str, way: ComparisonBasis) -> StepVerification | None:
        """What was found of one step in one way; None if it was not looked at so."""
        return next((one for one in self.judged if (one.step, one.way) == (step, way)), None)

    def different(self, *ways: ComparisonBasis) -> dict[str, Partitions]:
        """What is not what it was, by step, seen in any of these ways."""
        found: dict[str, Partitions] = {}
        for one in self.judged:
            if one.answer is ComparisonResult.DIFFERENT and one.way in ways:
                found[one.step] = found.get(one.step, EMPTY) | one.different
        return found

    def lines(self) -> Iterator[str]:
        for one in self.judged:
            yield from one.lines()
        many = {answer: sum(one.answer is answer for one in self.judged) for answer in ComparisonResult}
        yield ", ".join(f"{many[answer]} {answer.value}" for answer in ComparisonResult)

    def __str__(self) -> str:
        return visible("\n".join((f"run {self.run} of {self.pipeline}", *self.lines())))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


@dataclass(frozen=True, slots=True)
class DigestComparison:
    """Two sets of digests: those that must be (None where none is kept), those that were found, and what stands in the
    way of finding one, in words."""

    wanted: Mapping[int, bytes | None]
    found: Mapping[int, bytes]
    faults: Mapping[int, str]

    def judge(self, step: str, way: ComparisonBasis, unknown: str) -> StepVerification:
        """`unknown` is why a digest may not be known."""
        wrong = dict(self.faults)
        unsure: list[int] = []
        for number, digest in self.wanted.items():
            if number in wrong:
                continue
            now = self.found.get(number)
            if digest is None or now is None:
                unsure.append(number)
            elif digest != now:
                wrong[number] = difference(digest, now)
        return _judged(step, way, wrong, Partitions(unsure), len(self.wanted), unknown)


def _judged(
    step: str, way: ComparisonBasis, wrong: Mapping[int, str], unsure: Partitions, count: int, unknown: str
) -> StepVerification:
    of = count_text(count, "partition")
    if wrong:
        numbers = sorted(wrong)
        details = [f"{step}[{number}] {wrong[number]}" for number in numbers[:DETAILS_MAX]]
        details += [f"and {len(numbers) - DETAILS_MAX:,} more"] if len(numbers) > DETAILS_MAX else []
        different = Partitions(numbers)
        return StepVerification(
            step=step,
            way=way,
            answer=ComparisonResult.DIFFERENT,
            why=f"{step}[{brief(different)}] of {of}",
            different=different,
            details=tuple(details),
        )
    if unsure:
        which = "" if len(unsure) == count else f" of {step}[{brief(unsure)}], the rest of {of} is equal"
        return StepVerification(step=step, way=way, answer=ComparisonResult.NOT_COMPARABLE, why=f"{unknown}{which}")
    return StepVerification(step=step, way=way, answer=ComparisonResult.EQUAL, why=of)


def difference(wanted: bytes, found: bytes) -> str:
    """Both digests, and how many rows each stands for."""
    return f"other rows: now {_told(found)}, recorded {_told(wanted)}"


def _told(digest: bytes) -> str:
    rows = f"{count_text(WIDTH.unpack(digest)[0], 'row')}, " if len(digest) == WIDTH.size else ""
    return f"{rows}digest {digest.hex()}"


def total(digests: Iterable[bytes], nothing: bytes) -> bytes:
    """The digest of all rows together: partitions add up, each has the schema once, which `nothing` is."""
    none = WIDTH.unpack(nothing)
    sums = none
    for digest in digests:
        parts = zip(sums, WIDTH.unpack(digest), none, strict=True)
        sums = tuple((sum_ + part - empty) % 2**64 for sum_, part, empty in parts)
    return WIDTH.pack(*sums)
