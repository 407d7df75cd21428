"""`make differential N=…`: random pipelines against bare Spark. Exit 0 only if nothing differs and enough was run."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from differential import cuts
from differential.crew import WITHOUT_CHECKSUMS, Crew
from differential.drawing import draw
from differential.judge import Outcome, Verdict, play
from differential.report import by_reason, cuts_given_up, save
from differential.shrink import shrink
from differential.sittings import FOLDER, Entry, Sittings, Sum, sum_of
from differential.values import Mode, Program

REFUSED_SHARE_MAX = 0.03
# Of N programs at least these shares must be such.
FAULTS_MIN, CHANGED_MIN, ONRAMP_MIN = 0.15, 0.15, 0.10


def entry_of(program: Program, verdict: Verdict, seconds: float) -> Entry:
    kept, asked, given_up = cuts.kept_of(program, verdict.cuts)
    is_bad = verdict.outcome is not Outcome.EQUAL
    return Entry(
        seed=program.seed,
        mode=program.mode,
        is_onramp=program.is_onramp,
        outcome=verdict.outcome,
        reason=verdict.reason if is_bad else "",
        what=verdict.what[:600] if is_bad else "",
        was_struck=verdict.was_struck,
        reused=verdict.reused,
        is_changed=program.change is not None,
        seconds=seconds,
        kept=kept,
        asked=asked,
        given_up=given_up,
    )


class Campaign:
    """Programs, one after the other, with what they leave behind."""

    def __init__(self, sittings: Sittings, crew: Crew, folder: Path, tries_max: int) -> None:
        self._sittings, self._crew, self._folder, self._tries_max = sittings, crew, folder, tries_max
        self._shrunk: set[str] = set()

    def run(self, program: Program) -> Entry:
        began = time.monotonic()
        verdict = play(program, self._crew, self._folder / "work")
        entry = entry_of(program, verdict, time.monotonic() - began)
        self._sittings.add(entry)
        _say(program, verdict, entry)
        if verdict.is_bad:
            self._tell(program, verdict)
        return entry

    def _tell(self, program: Program, verdict: Verdict) -> None:
        """Make it smaller, unless one of its class was in this sitting, and save it as a script."""
        if verdict.sign not in self._shrunk and self._tries_max:
            self._shrunk.add(verdict.sign)
            program = shrink(program, lambda one: self._fails_alike(one, verdict), self._tries_max)
            verdict = play(program, self._crew, self._folder / "work")
        path = save(self._sittings.folder, program, verdict)
        steps = [f"{step.name}({', '.join(op.kind for op in step.ops)})" for step in program.steps]
        print(f"    saved {path}: {program.size[2]} rows, {' -> '.join(steps)}\n    {verdict.what[:500]}", flush=True)

    def _fails_alike(self, program: Program, verdict: Verdict) -> bool:
        return play(program, self._crew, self._folder / "work").sign == verdict.sign


def _say(program: Program, verdict: Verdict, entry: Entry) -> None:
    where = f"{program.mode.value}{' on-ramp' if program.is_onramp else ''}"
    struck = " struck" if verdict.was_struck else ""
    print(
        f"seed {program.seed} {where}{struck}: {verdict.outcome.value} {entry.seconds:.1f} s {verdict.reason}",
        flush=True,
    )


def is_reached(total: Sum, asked: int) -> bool:
    return (
        total.programs >= asked
        and total.faults >= FAULTS_MIN * asked
        and total.changed >= CHANGED_MIN * asked
        and total.onramp >= ONRAMP_MIN * asked
    )


def is_right(total: Sum) -> bool:
    return not total.different and not total.raw and total.refused_share < REFUSED_SHARE_MAX


def is_wanted(program: Program, mode: Mode | None, having: list[str]) -> bool:
    kinds = {op.kind for _, _, op in program.ops()}
    return (mode is None or program.mode is mode) and (not having or bool(kinds & set(having)))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="differential")
    parser.add_argument("-n", type=int, default=200, help="programs in all, over all sittings")
    parser.add_argument("--minutes", type=float, default=0.0, help="end this sitting after so long")
    parser.add_argument("--again", action="store_true", help="forget earlier sittings")
    parser.add_argument("--seed", type=int, action="append", help="run these only, and forget them")
    parser.add_argument("--first", type=int, default=0, help="seeds from this one on: two sittings may go on at once")
    parser.add_argument("--only-mode", choices=[mode.value for mode in Mode])
    parser.add_argument("--having", action="append", help="only programs with this operation")
    parser.add_argument("--shrink", type=int, default=60, help="how often a failing program is tried smaller")
    parser.add_argument("--report", action="store_true", help="tell what was found so far, and run nothing")
    parser.add_argument("--report-cuts", action="store_true", help="list the steps that auto does not keep")
    parser.add_argument(
        "--without-checksums", action="store_true", help="exchanges are equal by the proof of their plan, or not at all"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the state and failing scripts are")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # What was started is ended, too.
    sittings = Sittings(asked.folder / "without-checksums" if asked.without_checksums else asked.folder)
    if asked.again:
        sittings.forget()
    mode = Mode(asked.only_mode) if asked.only_mode else None
    if not asked.report:
        began, settings = time.monotonic(), WITHOUT_CHECKSUMS if asked.without_checksums else {}
        with tempfile.TemporaryDirectory(prefix="differential-") as folder, Crew(Path(folder), settings) as crew:
            campaign = Campaign(sittings, crew, Path(folder), asked.shrink)
            for program in map(draw, asked.seed or sittings.next_seeds(asked.n, asked.first)):
                if not is_wanted(program, mode, asked.having or []):
                    continue
                campaign.run(program)
                if asked.minutes and time.monotonic() - began > asked.minutes * 60:
                    break
    entries = [sittings.entries[seed] for seed in asked.seed] if asked.seed else list(sittings.entries.values())
    for line in [*by_reason(entries), *(cuts_given_up(entries) if asked.report_cuts else [])]:
        print(line)
    total = sum_of(entries)
    print(total.line())
    return 0 if is_right(total) and (bool(asked.seed) or is_reached(total, asked.n)) else 1


if __name__ == "__main__":
    sys.exit(main())
