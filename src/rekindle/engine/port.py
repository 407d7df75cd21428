"""The engine as the master sees it: commands in, stimuli out, nothing else.

Promises of an engine
- `send` returns at once and does nothing that the command does not say. An attempt is started at most once.
- An attempt writes only into its own directory, named by step, generation, epoch and number, and under names that no
  other task attempt uses: what was reported once can never be overwritten.
- It reads only the segments in its command. A file that is missing, short or of another digest is reported as lost.
- Commits are reported at least every few seconds, each report after a look at every exchange under the group: if a map
  output came back different, or not known to be equal, since anything of this generation was written over it, the
  reported exchange version is higher than the one in the command. A new generation never uses an older one's exchanges.
- An attempt's end is reported after its commits, and only when its stage is quiet or a bounded wait is over.
- A seal returns what is there once nothing can be added. After it, late files count for nothing.
- A result that is not repeatable is never recomputed behind the master's back: its lineage is cut.
- Publishing compares fences in the target itself.
"""

from __future__ import annotations

from typing import Protocol

from rekindle.master.facts.stimuli import Stimulus
from rekindle.master.state.commands import Command
from rekindle.model.machine import CommandPort


class Engine(CommandPort[Command, Stimulus], Protocol):
    """One Spark application, or a simulated one: the world of the batch master."""

    @property
    def application(self) -> str:
        """The name under which exchanges and cached results of this engine are known; never used twice."""
        ...
