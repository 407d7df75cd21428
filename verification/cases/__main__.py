"""`make cases`: ordinary programs, each run by bare Spark and by Rekindle, and compared.

Every case ends as one of its declared outcomes: equal to bare Spark on the uncut program, or refused by name before
anything was started, where that is allowed. All cases but those that need a second driver share one warm session.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cases.all_cases import CASES
from cases.case import Outcome
from cases.judge import Judged, play
from cases.report import write_report
from cases.session import start_session
from cases.tables import Tables


def main() -> int:
    parser = argparse.ArgumentParser(prog="cases")
    parser.add_argument("--only", action="append", choices=list(CASES), metavar="NUMBER", help="play this case")
    parser.add_argument("--list", action="store_true", help="print the numbers and sentences of all cases")
    parser.add_argument("--report", action="store_true", help="write the outcomes into docs/reports/cases.md as after")
    parser.add_argument("--before", action="store_true", help="with --report: write them as before")
    asked = parser.parse_args()
    if asked.list:
        for case in CASES.values():
            print(f"{case.number:12} {case.sentence}")
        return 0
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # What was started is ended here, too.
    started = time.monotonic()
    judged = played(asked.only or list(CASES))
    result = summed(judged, (time.monotonic() - started) / 60)
    if asked.report:
        write_report(judged, is_before=asked.before)
    print(result)
    return 0 if all(one.is_allowed for one in judged) else 1


def played(numbers: Sequence[str]) -> list[Judged]:
    folder = Path(tempfile.mkdtemp(prefix="cases-"))
    judged = []
    try:
        spark = start_session(folder)
        tables = Tables(spark, folder / "tables")
        for number in numbers:
            judged.append(play(CASES[number], spark, folder, tables))
            tell(judged[-1])
        spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return judged


def tell(one: Judged) -> None:
    mark = " " if one.is_allowed else "!"
    case, finding = one.case, one.finding
    print(f"{mark} {case.number:12} {finding.outcome.value:10} {one.seconds:5.1f} s  {case.sentence}", flush=True)
    if finding.detail:
        print(f"  {'':12} {finding.detail}", flush=True)


def summed(judged: Sequence[Judged], minutes: float) -> str:
    counts = Counter(one.finding.outcome for one in judged)
    told = " ".join(f"{outcome.value.replace(' ', '_')}={counts[outcome]}" for outcome in Outcome)
    wrong = sum(not one.is_allowed for one in judged)
    return f"RESULT cases={len(judged)} {told} not_allowed={wrong} minutes={minutes:.1f}"


if __name__ == "__main__":
    sys.exit(main())
