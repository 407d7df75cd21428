"""The outcomes of a campaign as a table in the docs, before and after a change side by side."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from cases.all_cases import CASES
from cases.case import Outcome
from cases.judge import Judged

ROOT = Path(__file__).parent.parent.parent
REPORT = ROOT / "docs" / "reports" / "cases.md"
ROW = re.compile(
    r"^\| (?P<number>\S+) \| (?P<sentence>.*?) \| (?P<allowed>.*?) \| (?P<before>.*?) \| (?P<after>.*?) \|$"
)
RESULT = re.compile(r"^(before|after): (.*)$", re.MULTILINE)

HEAD = """# Ordinary programs, bare Spark against Rekindle

`make cases` runs small programs that people write, each by bare Spark as one uncut plan and as a Rekindle pipeline or
script, and compares the published rows and columns. `verification/cases` has the programs. `ARGS="--only 7c"` runs one,
`ARGS=--list` lists them, `ARGS=--report` writes the column "after".

- equal: the rows and columns that bare Spark gives in the same run.
- refused: one of our own errors before any attempt was started; the code and the first sentence are shown.
- failed: one of our own errors after that. raw: any other exception.
- lost work: the rows are right, and more was computed again than the case expects.
- different: other rows, other columns, or a change that was not seen. A **bold** outcome is not allowed.

The column "allowed" is what the case declares. Nothing here is a measure of speed.

The column "before" was not filled by one run: it was put together from the printed outcomes of several partial runs of
2026-11-16 on a machine with a load of 20 and more, while the cases were still being written. An empty cell was not
played. The outcomes of 8a to 8c, 8:import-inside, 8:plain, 8:singledispatch, 9a to 9e, 10 to 22,
23a, 23b, 24, 26 to 29, 32f, 32:partial, 33 to 38 and 40 were copied by hand from a terminal; 24 and 29 are of
an earlier form of the program that starts their drivers.
"""


def write_report(judged: Sequence[Judged], *, is_before: bool) -> None:
    """Write one column; what the other one says stays, also of cases that were not played."""
    text = REPORT.read_text() if REPORT.exists() else ""
    cells = {match["number"]: match.groupdict() for line in text.splitlines() if (match := ROW.match(line))}
    results = dict(RESULT.findall(text))
    column = "before" if is_before else "after"
    for one in judged:
        row = cells.setdefault(one.case.number, {"before": "", "after": ""})
        row["sentence"] = _cell(one.case.sentence)
        row["allowed"] = " or ".join(sorted(outcome.value for outcome in one.case.allowed))
        row[column] = _told(one)
    results[column] = f"`make cases`, {datetime.now(UTC):%Y-%m-%d}, commit {_commit()}: `{_summed(cells, column)}`"
    REPORT.write_text(f"{HEAD}\n{_table(cells, results)}")


def _table(cells: Mapping[str, Mapping[str, str | None]], results: Mapping[str, str]) -> str:
    lines = [f"{column}: {results.get(column, 'not run yet')}\n" for column in ("before", "after")]
    lines += ["| case | program | allowed | before | after |", "| --- | --- | --- | --- | --- |"]
    for number in CASES:
        if row := cells.get(number):
            lines.append(f"| {number} | {row['sentence']} | {row['allowed']} | {row['before']} | {row['after']} |")
    return "\n".join(lines) + "\n"


def _told(one: Judged) -> str:
    outcome = one.finding.outcome.value
    shown = outcome if one.is_allowed else f"**{outcome}**"
    return _cell(f"{shown}: {one.finding.detail}" if one.finding.detail else shown)


def _cell(text: str) -> str:
    """Text that a Markdown table can hold, without machine paths."""
    text = re.sub(r"(file:)?/\S*?/cases-[^/\s]+/(case-[^/\s]+/)?", "…/", text)
    return text.replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def _summed(cells: Mapping[str, Mapping[str, str | None]], column: str) -> str:
    """The outcomes of all rows, over all sittings."""
    told = [row[column] or "" for number, row in cells.items() if row[column] and number in CASES]
    counts = Counter(cell.split(":")[0].strip("*") for cell in told)
    pieces = [f"{outcome.value.replace(' ', '_')}={counts[outcome.value]}" for outcome in Outcome]
    return f"cases={len(told)} {' '.join(pieces)} not_allowed={sum(cell.startswith('**') for cell in told)}"


def _commit() -> str:
    """The last commit that changed what the cases are about."""
    words = ["git", "log", "-1", "--format=%h", "--", "src", "java"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"
