"""The engine of a gc that closes a run: it deletes and can do nothing else. No Spark is needed for that."""

from __future__ import annotations

import secrets

from rekindle.gc.remover import Remover
from rekindle.master.facts.stimuli import AttemptSealed, DeletionDone, Stimulus
from rekindle.master.state.commands import Command, DeleteAttempt, SealAttempt
from rekindle.results.result_paths import directory_of


class DeleteOnlyEngine:
    """What was written is not looked at: nothing of a run that closes is adopted."""

    def __init__(self, folder: str, remover: Remover) -> None:
        self._folder = folder
        self._remover = remover
        self._application = f"gc-{secrets.token_hex(8)}"
        self._happened: list[Stimulus] = []
        self._is_closed = False

    @property
    def application(self) -> str:
        return self._application

    def send(self, command: Command) -> None:
        match command:
            case SealAttempt(attempt):
                self._happened.append(AttemptSealed(attempt=attempt))
            case DeleteAttempt(attempt):
                self._remover.remove_all(f"{self._folder}/{directory_of(attempt)}/", lambda: self._is_closed)
                self._happened.append(DeletionDone(attempt))
            case _:
                raise AssertionError(f"not for a run that closes: {command}")

    def poll(self, timeout_ms: int) -> list[Stimulus]:
        happened, self._happened = self._happened, []
        return happened

    def close(self) -> None:
        """Somebody else is the master: what is left is theirs to delete."""
        self._is_closed = True
