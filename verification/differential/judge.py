"""A program against bare Spark: what happened, and what it says of us."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from enum import Enum
from pathlib import Path

import msgspec

from differential.crew import Crew
from differential.orders import Answer, Order, Status, What
from differential.render import Judged, judged_of, module_text, superset_of
from differential.values import Mode, Program, after_change

KEPT_ACTIONS = ("compute", "reuse")


class Outcome(Enum):
    EQUAL = "equal"
    DIFFERENT = "different"
    REFUSED = "refused"
    RAW = "raw"
    DISCARDED = "discarded"  # Bare Spark does not run it either.


class Verdict(msgspec.Struct, frozen=True):
    """`what` tells the difference in a line; `reason` is the class of a refusal or an error; `was_struck` whether the
    first driver failed, as it was meant to."""

    outcome: Outcome
    what: str = ""
    reason: str = ""
    was_struck: bool = False
    cuts: dict[str, str] = {}
    seconds: float = 0.0
    bare_seconds: float = 0.0
    trace: str = ""
    reused: int = 0

    @property
    def is_bad(self) -> bool:
        return self.outcome in (Outcome.DIFFERENT, Outcome.RAW)

    @property
    def sign(self) -> str:
        """By what two failures are taken for the same one when a program is made smaller."""
        return f"{self.outcome.value} {self.reason}"


def play(program: Program, crew: Crew, folder: Path) -> Verdict:
    """Run it as its mode says, in an empty folder, and compare."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    flags = folder / "flags"
    module = folder / "program.py"
    later = after_change(program)
    module.write_text(module_text(later, str(folder)))
    _make_data(module)

    def ask(what: What, settings: dict[str, str], *, is_second: bool = False, path: Path = module) -> Answer:
        worker = crew.second if is_second and program.mode is Mode.NEW_DRIVER else crew.first
        return worker.ask(Order(what, str(path), str(folder), program.is_onramp, settings))

    (flags / "open").touch()

    def all_rows(of: Program, found: Answer) -> Answer:
        """What the rows may be taken from, where Spark chooses them; else `found`, those that bare Spark gave."""
        if not judged_of(program).weak:
            return found
        path = folder / "superset.py"
        path.write_text(module_text(superset_of(of), str(folder)))
        return ask(What.BARE, program.settings, path=path)

    expected = ask(What.BARE, program.settings)
    if expected.status is not Status.ROWS:
        return Verdict(Outcome.DISCARDED, reason=_class_of(expected), trace=expected.message)
    everything = all_rows(later, expected)
    if program.mode.has_fault:
        shutil.rmtree(flags)
        flags.mkdir()
    module.write_text(module_text(program, str(folder)))
    found = ask(What.RUN, program.settings)
    was_struck = program.mode.has_fault and any(flags.iterdir())
    is_again = program.mode.is_run_twice and (found.status is Status.FAILED or was_struck or program.is_onramp)
    if program.change is not None and not is_again:
        # The run is done, and stays as it is: what it gave is of the old code.
        path = folder / "old.py"
        path.write_text(module_text(program, str(folder)))
        (flags / "open").touch()
        expected = ask(What.BARE, program.settings, path=path)
        everything = all_rows(program, expected)
    cuts = found.cuts
    if (is_again and found.status in (Status.FAILED, Status.ROWS)) or (program.is_onramp and was_struck):
        (flags / "open").touch()
        module.write_text(module_text(later, str(folder)))
        found = ask(What.RUN, program.later_settings or program.settings, is_second=True)
    verdict = compare(judged_of(program), expected, everything, found)
    return msgspec.structs.replace(
        verdict, was_struck=was_struck, cuts=cuts, seconds=found.seconds, bare_seconds=expected.seconds,
        reused=found.reused,
    )  # fmt: skip


def _make_data(module: Path) -> None:
    space: dict[str, object] = {"__name__": "data"}
    text = module.read_text()
    begin, end = text.index("def make_data"), text.index("\n\n\n", text.index("def make_data"))
    head = text[: text.index("def ready")].replace("from pyspark.sql", "# ").replace("import rekindle", "# ")
    exec(head + text[begin:end] + "\nmake_data()\n", space)


def compare(judged: Judged, expected: Answer, everything: Answer, found: Answer) -> Verdict:
    match found.status:
        case Status.REFUSED:
            return Verdict(Outcome.REFUSED, found.message, _class_of(found))
        case Status.FAILED | Status.RAW:
            return Verdict(Outcome.RAW, found.message, _class_of(found), trace=found.trace)
        case Status.ROWS:
            return _compare_rows(judged, expected.rows, everything.rows, found.rows)


def _compare_rows(
    judged: Judged, expected: list[list[str]], everything: list[list[str]], found: list[list[str]]
) -> Verdict:
    if len(expected) != len(found) and judged.weak != "sample":
        return _different(expected, found, "the number of rows")
    if judged.weak:
        strange = _counted(found, judged.ids) - _counted(everything, judged.ids)
        return _different(everything, found, "rows that are not in the input") if strange else Verdict(Outcome.EQUAL)
    if _counted(expected, judged.ids) != _counted(found, judged.ids):
        return _different(expected, found, "the rows")
    if judged.is_ordered and _without(expected, judged.ids) != _without(found, judged.ids):
        return _different(expected, found, "the order of the rows")
    for at in judged.ids:
        if len({row[at] for row in found}) != len(found):
            return _different(expected, found, "ids that are not unique")
        if judged.ids_follow and _by(expected, at) != _by(found, at):
            return _different(_by(expected, at), _by(found, at), "ids that do not follow the order")
    return Verdict(Outcome.EQUAL)


def _without(rows: list[list[str]], ids: tuple[int, ...]) -> list[list[str]]:
    return [[text for at, text in enumerate(row) if at not in ids] for row in rows]


def _by(rows: list[list[str]], at: int) -> list[list[str]]:
    ordered = sorted(rows, key=lambda row: int(row[at]))
    return [row[:at] + row[at + 1 :] for row in ordered]


def _counted(rows: list[list[str]], without: tuple[int, ...]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(text for at, text in enumerate(row) if at not in without) for row in rows)


def _different(expected: list[list[str]], found: list[list[str]], what: str) -> Verdict:
    one, two = Counter(map(tuple, expected)), Counter(map(tuple, found))
    missing, more = list((one - two).elements()), list((two - one).elements())
    counts = f"bare Spark gives {len(expected)} rows, Rekindle {len(found)}"
    text = f"{what}: {counts}; only bare {missing[:3]}, only Rekindle {more[:3]}"
    return Verdict(Outcome.DIFFERENT, text, what)


def _class_of(answer: Answer) -> str:
    """The error without what is of this program only."""
    first = answer.message.splitlines()[0] if answer.message else ""
    bracket = re.match(r"\[[A-Z_.]+\]", first)
    if bracket:
        return f"{answer.error} {bracket.group()}"
    text = re.sub(r"/\S+|program\.py:\d+|`[^`]*`", "…", first)
    text = re.sub(r"\b[stf]_?\d+(_\d+)*\b|\b[0-9a-f]{8,}\b|\d+", "#", text)
    return f"{answer.error} {text[:110]}"
