"""What a campaign prints: failures as scripts, refusals and cuts by reason."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from differential.judge import Outcome, Verdict
from differential.render import module_text
from differential.sittings import Entry
from differential.values import Mode, Program, after_change

MAIN = """
if __name__ == "__main__":
    # {title}
    import sys

    from pyspark.sql import SparkSession
    from rekindle.failover.backoff import FixedDelay
    from rekindle.master.facts.config import BackoffSpec, MasterConfig

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.sql.session.timeZone", "UTC")
    for key, value in {settings!r}.items():
        builder = builder.config(key, value)
    spark = builder.config("spark.log.level", "OFF").getOrCreate()
    options = rk.RunOptions(config=MasterConfig(backoff=BackoffSpec.of(FixedDelay(3, 50))), sweep=None)
    make_data()
    prepare(spark)
    if "bare" in sys.argv:  # What bare Spark gives.
        Path(f"{{FLAGS}}/open").touch()
        rows = bare(spark).collect()
        os.remove(f"{{FLAGS}}/open")
    elif "mended" in sys.argv:  # The second start, after the cause was mended.
        Path(f"{{FLAGS}}/open").touch()
{run}
    else:
{run}
    for row in sorted(map(repr, rows)):
        print(row)
"""
RUN = '        p.run(spark, f"{FOLDER}/state", options=options)\n        rows = rk.read_newest(spark, OUT).collect()'
SCRIPT = (
    '        with rk.run("script", spark, f"{FOLDER}/state", options=options) as run:\n'
    "            rows = script(spark, run).collect()"
)


def script_text(program: Program, verdict: Verdict) -> str:
    """A failing program as a script: `python SCRIPT bare`, then `python SCRIPT`, and `python SCRIPT mended` where the
    first start is meant to fail. What is changed in between stands at its end."""
    title = " ".join(f"{verdict.sign}. {verdict.what}".split())
    run = SCRIPT if program.is_onramp else RUN
    text = module_text(program, f"/tmp/differential-{program.seed}")
    text += MAIN.format(title=title, settings=program.settings, run=run)
    if program.mode in (Mode.SETTINGS, Mode.NEW_DRIVER) and program.later_settings:
        text += f"\n# The second start has these settings: {program.later_settings}\n"
    if program.change is not None:
        text += "\n# The second start has this text instead:\n"
        text += "".join(f"# {line}\n" for line in _changed_lines(program))
    return text


def _changed_lines(program: Program) -> list[str]:
    one = module_text(program, "").splitlines()
    two = module_text(after_change(program), "").splitlines()
    return [
        f"{before.strip()}  ->  {after.strip()}" for before, after in zip(one, two, strict=False) if before != after
    ]


def save(folder: Path, program: Program, verdict: Verdict) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{verdict.outcome.value}-{program.seed}.py"
    path.write_text(script_text(program, verdict))
    return path


def by_reason(entries: Iterable[Entry]) -> list[str]:
    """Each class of what was not equal, with how often and for which seeds."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for one in entries:
        if one.outcome is not Outcome.EQUAL:
            found[one.outcome.value, one.reason].append(one.seed)
    return [
        f"{outcome:10} {len(seeds):4}  {reason}  seeds {' '.join(map(str, seeds[:8]))}{' …' if len(seeds) > 8 else ''}"
        for (outcome, reason), seeds in sorted(found.items())
    ]


def cuts_given_up(entries: Iterable[Entry]) -> list[str]:
    """The steps that `auto` does not keep although they move rows or run Python."""
    lines = [f"seed {one.seed} {text}" for one in entries for text in one.given_up]
    counted = Counter(text.split(": ", 1)[1].split(" into")[0] for text in lines)
    return [*lines, *(f"{count:5} {reason}" for reason, count in counted.most_common())]
