"""Every subcommand, by name. A module is imported when its command is asked for, so that `--help` waits for nothing.

Each module has one click command called `command`. The line here is the one that `rekindle --help` prints; a test
compares it with the command's own first sentence.
"""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """Where a command lives, and what it does in one line."""

    module: str
    line: str


COMMANDS: dict[str, CommandEntry] = {
    "plan": CommandEntry(
        "rekindle.cli.plan", "Show what would run, what would be reused and why; exit 2 if there is work."
    ),
    "run": CommandEntry("rekindle.cli.run", "Run a pipeline, or resume its unfinished run with the same parameters."),
    "resume": CommandEntry(
        "rekindle.cli.resume", "Resume a run that did not finish: RUN, or the newest one that can be resumed."
    ),
    "runs": CommandEntry("rekindle.cli.runs", "List the runs of a location, newest first."),
    "show": CommandEntry(
        "rekindle.cli.show", "Show one run: its steps, attempts, failures and restarts, with the reasons."
    ),
    "explain": CommandEntry(
        "rekindle.cli.explain", "Show the history of a step or of one partition: what happened to it, and why."
    ),
    "reproduce": CommandEntry(
        "rekindle.cli.reproduce",
        "Run one partition of a step again on this machine, and show its input and its exception or rows.",
    ),
    "check": CommandEntry(
        "rekindle.cli.check",
        "Run each step twice on a sample and list the steps whose rows differ; exit 2 if there are any.",
    ),
    "verify": CommandEntry(
        "rekindle.cli.verify",
        "Compare the files that a run keeps and published with what was written; exit 2 if any differ.",
    ),
    "graph": CommandEntry(
        "rekindle.cli.graph",
        "Draw a graph: of a run, with the partitions that were reused, computed or failed; or of a pipeline.",
    ),
    "results": CommandEntry(
        "rekindle.cli.results", "Manage the results that runs keep: list, pin, unpin or release them."
    ),
    "gc": CommandEntry(
        "rekindle.cli.gc", "Delete files that no run needs, and the results of runs that were not resumed in time."
    ),
    "doctor": CommandEntry(
        "rekindle.cli.doctor", "Check the environment: versions, storage, jar, settings, local folders."
    ),
    "demo": CommandEntry(
        "rekindle.cli.demo",
        "Start a small cluster on this machine, kill a worker and the driver of a run, and resume the run.",
    ),
}
