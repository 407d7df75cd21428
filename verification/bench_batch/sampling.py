"""Where the driver's own time goes: all its threads looked at every few milliseconds.

A sample belongs to Spark if some thread waits for a write job of ours. Otherwise it belongs to the innermost function
of Rekindle on the stack of each thread that is busy, with the call that it waits for in the JVM. This is a sampler and
not cProfile, because attempts and publications run in threads of their own, and because only the time in which no
write job runs is of interest.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from types import FrameType

import msgspec

EVERY_S = 0.002
WRITE = "spark.results._run"
WAITS = frozenset({"spark.engine.SparkEngine.poll"})
IDLE = frozenset({"wait", "sleep", "join"})


class Profile(msgspec.Struct):
    """Seconds. `own` is by function and JVM call, `inclusive` by each function on the stack."""

    spark_writes_s: float = 0.0
    nothing_s: float = 0.0
    own_s: dict[str, float] = {}
    inclusive_s: dict[str, float] = {}


class Sampler:
    """Looks at all threads while it is open; it may be opened again, and adds up."""

    def __init__(self) -> None:
        self._own: defaultdict[str, float] = defaultdict(float)
        self._inclusive: defaultdict[str, float] = defaultdict(float)
        self._writes = self._nothing = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread()

    def __enter__(self) -> Sampler:
        self._is_over.clear()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def profile(self) -> Profile:
        return Profile(self._writes, self._nothing, dict(self._own), dict(self._inclusive))

    def _run(self) -> None:
        last = time.perf_counter()
        while not self._is_over.wait(EVERY_S):
            now = time.perf_counter()
            self._take(now - last)
            last = now

    def _take(self, seconds: float) -> None:
        me = threading.get_ident()
        stacks = [_stack(frame) for thread, frame in sys._current_frames().items() if thread != me]
        found = [(names, call) for names, call in stacks if names]
        if any(names[0] == WRITE for names, _ in found):
            self._writes += seconds
            return
        busy = [(names, call) for names, call in found if call != "waits"]
        if not busy:
            self._nothing += seconds
        for names, call in busy:
            self._own[f"{names[0]} · {call}"] += seconds / len(busy)
            for name in set(names):
                self._inclusive[name] += seconds / len(busy)


def _stack(frame: FrameType | None) -> tuple[list[str], str]:
    """Rekindle's functions on a stack, innermost first, and what the innermost is doing."""
    names: list[str] = []
    call = "Python"
    leaf = frame.f_code.co_name if frame else ""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("rekindle."):
            names.append(f"{module.removeprefix('rekindle.').removeprefix('engine.')}.{frame.f_code.co_qualname}")
        elif not names and module == "py4j.java_gateway":
            call = _call(frame) or call
        frame = frame.f_back
    if names and call == "Python" and (names[0] in WAITS or leaf in IDLE):
        call = "waits"
    return names, call


def _call(frame: FrameType) -> str:
    """What a frame of py4j asks the JVM for."""
    match frame.f_code.co_qualname:
        case "JavaMember.__call__":
            return f"{frame.f_locals['self'].name}()"
        case "JavaClass.__call__":
            return f"new {frame.f_locals['self']._fqn.rsplit('.', 1)[-1]}"
        case _:
            return ""


def shown(profile: Profile, rounds: int = 1, lines: int = 25) -> str:
    """As a table, per round."""
    total = sum(profile.own_s.values())
    text = [
        f"  while Spark wrote {profile.spark_writes_s / rounds:.3f} s, own {total / rounds:.3f} s, "
        f"nothing to do {profile.nothing_s / rounds:.3f} s"
    ]
    for title, table in (("own, by function and JVM call", profile.own_s), ("inclusive", profile.inclusive_s)):
        text.append(f"  {title}")
        ranked = sorted(table.items(), key=lambda item: -item[1])[:lines]
        text += [f"    {seconds / rounds:7.3f} s  {name}" for name, seconds in ranked]
    return "\n".join(text)
