"""Every subcommand, by name. A module is imported when its command is asked for, so that `--help` waits for nothing.

Each module has one click command called `command`. The line here is the one that `rekindle --help` prints; a test
compares it with the command's own first sentence.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """Where a command lives, and what it does in one line."""

    module: str
    line: str


COMMANDS: dict[str, Entry] = {
    "plan": Entry("rekindle.cli.plan", "Show what would run, what would be reused and why; exit 2 if there is work."),
    "run": Entry("rekindle.cli.run", "Run a pipeline, or continue the run of these parameters that did not finish."),
    "resume": Entry(
        "rekindle.cli.resume", "Go on with a run that did not finish: RUN, or the newest that can be resumed."
    ),
    "runs": Entry("rekindle.cli.runs", "List the runs of a location, newest first."),
    "show": Entry("rekindle.cli.show", "Show one run: steps, attempts, failures, restarts and why."),
    "explain": Entry(
        "rekindle.cli.explain", "Tell the story of a step or of one partition: what happened to it, and why."
    ),
    "reproduce": Entry(
        "rekindle.cli.reproduce",
        "Run one partition of a step again, here: see its input, and its exception or its rows.",
    ),
    "check": Entry(
        "rekindle.cli.check",
        "Run each step twice on a sample, and name those that do not give the same again; exit 2 if there are any.",
    ),
    "verify": Entry(
        "rekindle.cli.verify",
        "Look again at what a run keeps and published: is it what was written? Exit 2 if anything differs.",
    ),
    "graph": Entry("rekindle.cli.graph", "Draw the graph of a run, with what was reused, computed, and failed."),
    "results": Entry(
        "rekindle.cli.results", "Look after the results that runs keep: list them, pin, unpin or release them."
    ),
    "gc": Entry("rekindle.cli.gc", "Remove what nobody can need any more: waste, and runs that nobody resumed."),
    "doctor": Entry(
        "rekindle.cli.doctor", "Look for what would go wrong: versions, storage, jar, settings, local folders."
    ),
    "demo": Entry(
        "rekindle.cli.demo",
        "Watch a run lose a worker and then its driver, and heal, on a small cluster of this machine.",
    ),
}
