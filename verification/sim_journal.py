"""`make sim-journal`: the simulated world with the real journal under it.

Every record goes through codec, frame, append and tail recovery into a simulated storage that tears, delays, doubles
and loses unacknowledged writes. A process that opens folds what the journal reads back, not what the simulator
remembers; the two must be equal every time. A closed run is pruned while sleepers may still wake up.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from random import Random

from rekindle.errors import AppendRejected, AppendUnknown, Fenced
from rekindle.journal.codec import Codec
from rekindle.journal.frame import TornFrame, find, name_of
from rekindle.journal.history import Position, folder_of, read, start_of
from rekindle.journal.journal import Journal
from rekindle.journal.owner import Owner
from rekindle.journal.prune import prune
from rekindle.master.facts.events import Event
from rekindle.runtime.opening import codec
from rekindle.storage.store import Put as StorePut
from rekindle.testing.faulty_store import FaultPlan, FaultyStore, StoreFault
from world.process import Process
from world.scenario import Scenario, scenario_of
from world.storage import Ledger, Put, Record
from world.watch import Violation, Watch
from world.world import BACKOFF, POISON_MAX, World

RUN = "pipeline/run"
# What the world calls a slow storage, as faults of the store: landed, lands later, never lands.
SLOW = (StoreFault.UNACKNOWLEDGED, StoreFault.DELAYED, StoreFault.LOST)
EXTRA = (
    StoreFault.TORN,
    StoreFault.DUPLICATED,
    StoreFault.UNACKNOWLEDGED,
    StoreFault.DELAYED,
    StoreFault.LOST,
    StoreFault.TORN,
)
EXTRA_SHARE = 0.04
CODEC: Codec[Event] = codec()


class NotingStore(FaultyStore):
    """Remembers which bytes were tried for which record of the simulator."""

    def __init__(self, plan: FaultPlan) -> None:
        super().__init__(plan)
        self.tried: dict[bytes, Record] = {}
        self.record: Record | None = None

    def put_if_absent(self, key: str, body: bytes) -> StorePut:
        assert self.record is not None
        if self.tried.setdefault(body, self.record) is not self.record:
            raise Violation("journal", "two records have the same bytes")
        return super().put_if_absent(key, body)


class StoredLedger(Ledger):
    """The ledger of the simulator, filled only by what is in the store, and read only through the journal."""

    def __init__(self) -> None:
        super().__init__()
        self.fault = StoreFault.NONE
        self.met: Counter[StoreFault] = Counter()
        self.store = NotingStore(self._plan)
        self.position: Position = start_of(RUN)
        self._looked = 0

    def _plan(self, key: str) -> StoreFault:
        fault, self.fault = self.fault, StoreFault.NONE
        self.met[fault] += 1
        return fault

    def events(self) -> list[Event]:
        """What a new process reads. It must be what the simulator saw land."""
        self.look()
        history = read(self.store, RUN, CODEC)
        self.position = history.position
        if history.position.is_closed != self.is_closed:
            raise Violation("journal", "the tombstone is not the last record")
        if self.is_closed:
            return super().events()
        found = list(history.events)
        if found != super().events():
            raise Violation("journal", "the journal reads back something else than what landed")
        return found

    def look(self) -> None:
        """Take note of every record that is in the store now."""
        while True:
            found = self.store.get(folder_of(RUN) + name_of(self._looked + 1))
            if found is None or self.is_closed:
                return
            self._looked += 1
            if not isinstance(find(found), TornFrame):
                super().put(len(self.records), self.store.tried[found])


class StoredWorld(World):
    """A world whose journal is the real one."""

    def __init__(self, scenario: Scenario, is_pruned: bool = True) -> None:
        super().__init__(scenario)
        self.is_pruned = is_pruned
        self.stored = StoredLedger()
        self.ledger = self.stored
        self.watch = Watch(scenario, self.values, self.storage, self.ledger, BACKOFF, POISON_MAX)
        self.journals: dict[int, Journal[Event]] = {}
        self.unknown: set[int] = set()  # Processes whose last append may have been written, or may not.
        self.chance = Random(scenario.seed ^ 0x70AD)

    def put(self, process: Process, number: int, record: Record) -> Put:
        if process.dies == "with its record":
            process.die("killed, and its record lost")
            return Put.UNKNOWN
        self.stored.fault = self._fault()
        self.stored.store.record = record
        answer = self._append(process, record)
        if self.stored.store.delayed:
            self.later(30, self._deliver)
        self.stored.look()
        if self.stored.is_closed and self.is_pruned:
            prune(self.stored.store, RUN)
        return answer

    def _fault(self) -> StoreFault:
        if self.slow:
            return SLOW[self.slow.pop() % 3]
        is_calm = self.calm_at is not None
        return StoreFault.NONE if is_calm or self.chance.random() > EXTRA_SHARE else self.chance.choice(EXTRA)

    def _append(self, process: Process, record: Record) -> Put:
        is_first = process.number not in self.journals
        if is_first:
            self.journals[process.number] = self._journal(process)
        journal = self.journals[process.number]
        try:
            if process.number in self.unknown:
                journal.settle()
            elif is_first:
                journal.open_epoch(Owner("simulated", process.number), record.events)
            else:
                journal.append(*record.events)
        except AppendUnknown:
            self.unknown.add(process.number)
            return Put.UNKNOWN
        except (Fenced, AppendRejected):
            return Put.EXISTS
        self.unknown.discard(process.number)
        return Put.CREATED

    def _journal(self, process: Process) -> Journal[Event]:
        return Journal(
            self.stored.store,
            RUN,
            CODEC,
            self.stored.position,
            writer=f"process-{process.number}",
            pauses_seconds=(),
        )

    def _deliver(self) -> None:
        if self.stored.store.delayed:
            self.stored.store.deliver(self.chance.randrange(len(self.stored.store.delayed)))
            self.stored.look()


def campaign(first: int, count: int) -> tuple[list[str], Counter[StoreFault]]:
    wrong = []
    met: Counter[StoreFault] = Counter()
    for seed in range(first, first + count):
        world = StoredWorld(scenario_of(seed))
        try:
            world.run()
        except Exception as error:
            wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
        met += world.stored.met
    return wrong, met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    started = time.process_time()
    wrong, met = campaign(given.first, given.seeds)
    for line in wrong[:20]:
        print(line)
    faults = " ".join(f"{fault.name.lower()}={met[fault]}" for fault in StoreFault)
    print(f"appends that met each fault: {faults}")
    seconds = time.process_time() - started
    print(f"RESULT sim-journal seeds={given.seeds} violations={len(wrong)} cpu_s={seconds:.0f}")
    return 1 if wrong or not all(met[fault] for fault in (*SLOW, *EXTRA)) else 0


if __name__ == "__main__":
    raise SystemExit(main())
