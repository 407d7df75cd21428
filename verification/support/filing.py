"""An engine without Spark that writes what Spark would: data files, markers, labels, in the directories of attempts.

A partition's content is a digest of what it was made from, so that a run which read something else, or something that
was gone, publishes something else. What was gone is counted in `losses`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b

from rekindle.master.facts import stimuli as st
from rekindle.master.state import commands as cmd
from rekindle.master.state.run_state import Segment
from rekindle.model.failures import Cause, Failure, FailureKind
from rekindle.model.ids import AttemptId
from rekindle.model.partitions import Partitions
from rekindle.results import manifest
from rekindle.results.result_paths import directory_of
from rekindle.storage.store import Store
from support.instant import Breaks, Instant, nothing

ENDING = ".c000.parquet"
TASK = 7


def data_name(partition: int, task: int = TASK) -> str:
    return f"part-{task}_{partition:05d}{ENDING}"


def marker_name(partition: int, size: int, task: int = TASK) -> str:
    return f"_committed/{partition:05d}-{task}-1-{size}"


class Filing(Instant):
    """`folder` is the run's. `before_act` is called before each command: a test may sleep or die there."""

    def __init__(
        self,
        store: Store,
        folder: str,
        application: str = "app-1",
        dies_after: int = 10**9,
        breaks: Breaks = nothing,
        before_act: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(application, dies_after, breaks)
        self._store = store
        self._folder = folder
        self._before_act = before_act
        self.losses = 0

    def send(self, command: cmd.Command) -> None:
        self._before_act()
        super().send(command)
        if isinstance(command, cmd.DeleteAttempt):
            for page in self._store.walk(self._directory(command.attempt)):
                self._store.delete_many(self._directory(command.attempt), [entry.name for entry in page])
        elif isinstance(command, cmd.SealAttempt):
            self._happened[-1] = self._sealed(command.attempt)
        elif isinstance(command, cmd.PublishSink):
            self._store.put(f"out/{self._folder}", b"".join(self._bodies(command.segments)))

    def _start(self, command: cmd.StartAttempt) -> None:
        attempt, partitions = command.attempt, command.partitions
        broken = self._breaks(attempt, partitions) & partitions
        directory = self._directory(attempt)
        self._store.put(f"{directory}{manifest.LABEL}", b"{}")
        read = b"".join(body for one in command.inputs for body in self._bodies(one.segments))
        commits = [self._write(directory, attempt.step, number, read) for number in partitions - broken]
        if commits:
            done = Partitions(one.partition for one in commits)
            packed = manifest.pack(commits, "{}")
            size = manifest.size_of(commits)
            self._happened.append(
                st.CommitsSeen(
                    attempt=attempt,
                    partitions=done,
                    manifest=packed,
                    digests=None,
                    exchange_version=command.exchange_version,
                    size_bytes=size,
                )
            )
        cause = Cause(FailureKind.EXCEPTION, "daily.py:12: ValueError: no such customer")
        failures = (Failure(attempt.step, broken, cause, "ValueError"),) if broken else ()
        self._happened.append(st.AttemptEnded(attempt=attempt, failures=failures))

    def _write(self, directory: str, step: str, number: int, read: bytes) -> manifest.Commit:
        body = blake2b(b"%s %d %s" % (step.encode(), number, read), digest_size=16).hexdigest().encode()
        self._store.put(directory + data_name(number), body)
        self._store.put(directory + marker_name(number, len(body)), b"")
        return manifest.Commit(partition=number, task=TASK, name=data_name(number), bytes=len(body))

    def _bodies(self, segments: tuple[Segment, ...]) -> Iterator[bytes]:
        files: dict[int, str] = {}
        for segment in segments:
            for commit in manifest.unpack(segment.manifest):
                if commit.partition in segment.partitions:
                    files[commit.partition] = self._directory(segment.attempt) + commit.name
        for _, path in sorted(files.items()):
            body = self._store.get(path)
            self.losses += body is None
            yield body or b"lost"

    def _sealed(self, attempt: AttemptId) -> st.AttemptSealed:
        walked = (entry for page in self._store.walk(self._directory(attempt)) for entry in page)
        commits = manifest.from_listing("\n".join(f"{entry.name}\t{entry.bytes}" for entry in walked))
        found = Partitions(one.partition for one in commits)
        return st.AttemptSealed(attempt=attempt, partitions=found, manifest=manifest.pack(commits, "{}"))

    def _directory(self, attempt: AttemptId) -> str:
        return f"{self._folder}/{directory_of(attempt)}/"
