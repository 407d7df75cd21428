"""What happened in a run, for machines: a few kinds of notices, each a flat object of JSON. For `run --json` and hooks.

Rules
- A notice is told after the journal has it. Told twice, after a resume, it is the same fact of another driver.
- A failure is recovered when everything that failed with it counts again: the set is what failed, the seconds are those
  between the two.
- No notice has a secret: texts of errors are those of the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from rekindle.master.facts.events import (
    EpochOpened,
    Event,
    FailureHandled,
    PartitionsCommitted,
    RunFailing,
    RunSucceeded,
    SinkPublished,
)
from rekindle.master.state.run_state import RunState
from rekindle.model.partitions import Partitions


class NoticeKind(Enum):
    """What a notice is about."""

    STARTED = "started"
    FAILED = "failed"
    RECOVERED = "recovered"
    PUBLISHED = "published"
    SUCCEEDED = "succeeded"
    ALREADY_DONE = "already done"
    GAVE_UP = "gave up"


class RunNotice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened. `set` names vertices, such as `clean[3]`; `text` is the cause, or why a run gave up."""

    event: NoticeKind
    pipeline: str
    run: str
    number: int
    at_ms: int
    is_resumed: bool = False
    step: str = ""
    set: str = ""
    text: str = ""
    seconds: float = 0.0
    sink: str = ""
    target: str = ""
    is_resumable: bool = False

    def json(self) -> str:
        return msgspec.json.encode(self).decode()


Tell = Callable[[RunNotice], None]


def already_done(pipeline: str, run: str) -> RunNotice:
    """Nothing was started: a run with these parameters succeeded before."""
    return RunNotice(event=NoticeKind.ALREADY_DONE, pipeline=pipeline, run=run, number=0, at_ms=0)


@dataclass(slots=True)
class Notices:
    """A watcher of a run that tells what happened."""

    tell: Tell
    _waiting: dict[str, tuple[Partitions, int]] = field(default_factory=dict)
    _now_ms: int = 0

    def __call__(self, events: tuple[Event, ...], state: RunState) -> None:
        for event in events:
            self._now_ms = getattr(event, "at_ms", self._now_ms)
            for notice in self._of(event, state):
                self.tell(notice)

    def _of(self, event: Event, state: RunState) -> Iterator[RunNotice]:
        match event:
            case EpochOpened():
                yield self._made(state, NoticeKind.STARTED, is_resumed=event.epoch > 1)
            case FailureHandled():
                yield from self._failed(event, state)
            case PartitionsCommitted():
                yield from self._committed(event, state)
            case SinkPublished():
                target = state.spec.targets.get(event.sink, "")
                yield self._made(state, NoticeKind.PUBLISHED, sink=event.sink, target=target)
            case RunSucceeded():
                yield self._made(state, NoticeKind.SUCCEEDED)
            case RunFailing():
                yield self._made(state, NoticeKind.GAVE_UP, text=event.gave_up, is_resumable=event.is_resumable)
            case _:
                pass

    def _failed(self, event: FailureHandled, state: RunState) -> Iterator[RunNotice]:
        for one in event.failures:
            if one.partitions:
                before, since = self._waiting.get(one.step, (Partitions(()), event.at_ms))
                self._waiting[one.step] = before | one.partitions, since
            text = one.cause.root.text or one.cause.root.kind.value
            yield self._made(state, NoticeKind.FAILED, step=one.step, set=_set(one.step, one.partitions), text=text)

    def _committed(self, event: PartitionsCommitted, state: RunState) -> Iterator[RunNotice]:
        step = event.attempt.step
        failed, since = self._waiting.get(step, (Partitions(()), 0))
        if failed and failed <= state.steps[step].available:
            del self._waiting[step]
            seconds = (event.at_ms - since) / 1000
            yield self._made(state, NoticeKind.RECOVERED, step=step, set=_set(step, failed), seconds=seconds)

    def _made(self, state: RunState, event: NoticeKind, **more: str | float | bool) -> RunNotice:
        return RunNotice(
            event=event,
            pipeline=state.pipeline,
            run=state.run,
            number=state.order,
            at_ms=self._now_ms,
            **more,  # type: ignore[arg-type]
        )


def _set(step: str, partitions: Partitions) -> str:
    return f"{step}[{partitions}]" if partitions else step
