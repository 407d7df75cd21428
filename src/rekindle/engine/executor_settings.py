"""What settings of Spark about executors and exchanges change for a run: sentences for `plan` and `doctor`.

Rules
- A sentence says what Spark does, to what of the run, and by which setting. A setting that changes nothing has none.
- Where a setting makes something unknown, the sentence says that it is unknown, and what is computed again for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

DYNAMIC = "spark.dynamicAllocation.enabled"
CACHED_IDLE = "spark.dynamicAllocation.cachedExecutorIdleTimeout"
TRACKED_IDLE = "spark.dynamicAllocation.shuffleTracking.timeout"
SERVICE = "spark.shuffle.service.enabled"
DECOMMISSION = "spark.decommission.enabled"
MOVES = "spark.storage.decommission.enabled"
MOVES_BLOCKS = "spark.storage.decommission.rddBlocks.enabled"
MOVES_EXCHANGES = "spark.storage.decommission.shuffleBlocks.enabled"
SPECULATION = "spark.speculation"
ENCRYPTION = "spark.io.encryption.enabled"
MANAGER = "spark.shuffle.manager"
# Spark's own shuffle manager, as a setting may call it.
SPARKS_OWN = frozenset(("", "sort", "tungsten-sort", "org.apache.spark.shuffle.sort.SortShuffleManager"))
# Spark's default for a time that never comes.
NEVER = frozenset(("", "infinity", "2147483647s", "9223372036854775807ms"))


def executor_notes(settings: Mapping[str, str], in_blocks: Sequence[str] | None = None) -> tuple[str, ...]:
    """`in_blocks` are the steps whose caching or memory result is on executors; None where the steps are not known."""
    return tuple(_notes(settings, in_blocks))


def settings_in(text: str) -> dict[str, str]:
    """What a file such as `spark-defaults.conf` says: a name and a value on a line, with spaces or `=` between them."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (re.split(r"\s*=\s*|\s+", line, maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _notes(settings: Mapping[str, str], in_blocks: Sequence[str] | None) -> Iterator[str]:
    of = f" of {', '.join(in_blocks)}" if in_blocks else ""
    kept = None if in_blocks is not None and not in_blocks else f"the caching and memory results{of}"
    if _is_on(settings, DYNAMIC):
        yield from _when_idle(settings, kept)
    if _is_on(settings, DECOMMISSION):
        yield from _when_decommissioned(settings, kept)
    if _is_on(settings, SPECULATION):
        yield f"a slow task runs twice: one result counts, but side effects of Python happen twice ({SPECULATION})"
    manager = settings.get(MANAGER, "")
    if manager not in SPARKS_OWN:
        yield (
            f"exchanges are those of {manager}, whose checksums of map outputs are unknown: a new driver computes "
            f"a step with opaque Python below an exchange again ({MANAGER})"
        )
    if _is_on(settings, ENCRYPTION):
        yield f"Spark encrypts exchanges and caching results, not the files of kept results ({ENCRYPTION})"


def _when_idle(settings: Mapping[str, str], kept: str | None) -> Iterator[str]:
    """`kept` is what is in blocks, None where nothing is."""
    idle = settings.get(CACHED_IDLE, "")
    if kept and idle not in NEVER:
        yield (
            f"dynamic allocation removes an executor that is idle for {idle} with {kept}, which are computed again "
            f"when they are read ({CACHED_IDLE})"
        )
    elif kept:
        yield f"dynamic allocation keeps each executor that has some of {kept} ({CACHED_IDLE})"
    idle = settings.get(TRACKED_IDLE, "")
    if idle not in NEVER and not _is_on(settings, SERVICE):
        yield (
            f"dynamic allocation removes an executor that is idle for {idle} with its map outputs, which are computed "
            f"again by whoever reads the exchange ({TRACKED_IDLE})"
        )


def _when_decommissioned(settings: Mapping[str, str], kept: str | None) -> Iterator[str]:
    moves = _is_on(settings, MOVES)
    if not (moves and _is_on(settings, MOVES_EXCHANGES, "true")):
        yield f"map outputs of a decommissioned executor go with it, and are computed again ({MOVES})"
    if kept and not (moves and _is_on(settings, MOVES_BLOCKS, "true")):
        yield f"{kept} on a decommissioned executor go with it, and are computed again ({MOVES})"


def _is_on(settings: Mapping[str, str], name: str, otherwise: str = "false") -> bool:
    return settings.get(name, otherwise).lower() == "true"
