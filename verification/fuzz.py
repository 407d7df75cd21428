"""`make fuzz`: mutated or random records and directory contents, seeded.

Every case must end in one of four ways: kept (the records are a true beginning of what was written), cut, refused
with a sentence, or fenced. A beginning may be shorter only by what the mutation deleted or tore at the end. Anything
else (another exception, a fold that never was true) is a violation, and its seed is printed. Some cases take a recorded
journal of the master; some change one value inside one of its events, which is then decoded or refused.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from rekindle.errors import Fenced, Refused
from rekindle.journal.codec import Codec
from rekindle.journal.frame import WholeFrame, checksum_of, find, name_of, to_bytes
from rekindle.journal.history import History, Record, folder_of, read
from rekindle.journal.prune import prune
from rekindle.runtime.opening import codec
from rekindle.storage.memory import MemoryStore
from support.facts import CODEC, RUN, Closed, Noted, open_run
from support.recorded import HERE, load
from support.recorded import RUN as RECORDED_RUN

Objects = dict[str, bytes]
REAL_SHARE = 0.05
EVENT_SHARE = 0.10


class Base(msgspec.Struct, frozen=True):
    """A sound journal: its objects, and what they say."""

    run: str
    codec: Codec[Any]
    objects: Objects
    records: tuple[Record[Any], ...]


class Wrong(Exception):
    """A fold that never was true."""


def written(seed: int, epochs: int, words: int, is_closed: bool, run: str = RUN) -> Base:
    """A journal as masters write it."""
    store = MemoryStore()
    for epoch in range(epochs):
        journal, _ = open_run(store, run)
        for number in range(words):
            journal.append(*[Noted(f"{seed}-{epoch}-{number}-{n}") for n in range(1 + number % 2)])
    if is_closed:
        journal.append(Noted("closed"), Closed())
    return _base(store, run, CODEC)


def _base(store: MemoryStore, run: str, codec: Codec[Any]) -> Base:
    objects = {name.rsplit("/", 1)[-1]: body for name, (body, _) in store.objects.items()}
    return Base(run, codec, objects, read(store, run, codec).records)


BASES = [written(*shape) for shape in ((0, 1, 1, False), (1, 1, 4, False), (2, 3, 2, False), (3, 2, 3, True))]
OTHERS = [written(10 + n, 2, 4, False, f"daily/other-{n}").objects for n in range(3)]
REAL = [_base(load(path), RECORDED_RUN, codec()) for path in sorted(HERE.glob("*/*.journal"))]

Mutation = Callable[[random.Random, Objects], None]


def flip(rng: random.Random, objects: Objects) -> None:
    name = rng.choice(sorted(objects))
    body = bytearray(objects[name])
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        if body:
            body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
    objects[name] = bytes(body)


def truncate(rng: random.Random, objects: Objects) -> None:
    name = rng.choice(sorted(objects))
    objects[name] = objects[name][: rng.randrange(len(objects[name]) + 1)]


def lengthen(rng: random.Random, objects: Objects) -> None:
    name = rng.choice(sorted(objects))
    objects[name] += rng.randbytes(rng.randrange(1, 9))


def zero(rng: random.Random, objects: Objects) -> None:
    name = rng.choice(sorted(objects))
    body = objects[name]
    start = rng.randrange(len(body) + 1)
    objects[name] = body[:start] + bytes(len(body) - start)


def remove(rng: random.Random, objects: Objects) -> None:
    del objects[rng.choice(sorted(objects))]


def swap(rng: random.Random, objects: Objects) -> None:
    one, other = rng.choice(sorted(objects)), rng.choice(sorted(objects))
    objects[one], objects[other] = objects[other], objects[one]


def copy_ahead(rng: random.Random, objects: Objects) -> None:
    last = max(objects)
    distance = rng.randrange(1, 4)
    objects[name_of(int(last) + distance) if last.isdecimal() else last] = objects[rng.choice(sorted(objects))]


def foreign(rng: random.Random, objects: Objects) -> None:
    other = rng.choice(OTHERS)
    name = rng.choice(sorted(other))
    objects[name] = other[name]


def noise(rng: random.Random, objects: Objects) -> None:
    names = ("_SUCCESS", ".tmp", name_of(1) + ".crc", "7", "x" * 20, name_of(rng.randrange(1, 30)))
    body = rng.randbytes(rng.randrange(80))
    if rng.random() < 0.3:
        body = b"RK%d %d " % (rng.randrange(3), rng.randrange(300)) + body
    objects[rng.choice(names)] = body


def forge(rng: random.Random, objects: Objects) -> None:
    """A record with a right checksum that no master can have written at its place."""
    name = rng.choice(sorted(objects))
    found = _found(objects[name])
    if not isinstance(found, WholeFrame):
        return
    frame = found.frame
    lies: list[dict[str, object]] = [
        {"sequence": frame.sequence + rng.choice((-1, 1, 2**40, -(2**70)))},
        {"epoch": frame.epoch + rng.choice((-1, 2, 2**40)), "owner": None},
        {"previous": rng.randbytes(16).hex()},
        {"types": (*frame.types, "Noted/1")},
        {"types": tuple("Noted/2" for _ in frame.types)},
        {"types": tuple("Vanished/1" for _ in frame.types)},
        {"types": tuple(rng.choice(("Noted", "/", "Noted/x", "Noted/-1", "Noted/0")) for _ in frame.types)},
        {"events": tuple(msgspec.Raw(rng.choice((b"3", b"null", b"[]", b'{"text":1}'))) for _ in frame.events)},
    ]
    objects[name] = to_bytes(msgspec.structs.replace(frame, **rng.choice(lies)))[0]


def reframe(rng: random.Random, objects: Objects) -> None:
    """Any bytes under a right header."""
    body = rng.choice((rng.randbytes(40), b"{}", b"[]", b'{"sequence":"x"}', b"[" * 2000, b'{"a":' * 900, b"\xff"))
    objects[rng.choice(sorted(objects))] = b"RK1 %d %s\n%s" % (len(body), checksum_of(body).encode(), body)


MUTATIONS: tuple[Mutation, ...] = (
    flip,
    truncate,
    lengthen,
    zero,
    remove,
    swap,
    copy_ahead,
    foreign,
    noise,
    forge,
    reframe,
)


def _found(body: bytes) -> object:
    try:
        return find(body)
    except Refused:
        return None


def case(seed: int) -> str:
    """One case; returns how it ended. Raises `Wrong`, or whatever was not handled."""
    rng = random.Random(seed)
    kind = rng.random()
    if kind < EVENT_SHARE:
        return event_case(rng)
    return journal_case(rng, rng.choice(REAL if kind < EVENT_SHARE + REAL_SHARE else BASES))


def event_case(rng: random.Random) -> str:
    """An event of the master with something else in one place, under its own type: decoded or refused."""
    base = rng.choice(REAL)
    found = _found(base.objects[rng.choice(sorted(base.objects))])
    assert isinstance(found, WholeFrame)
    at = rng.randrange(len(found.frame.types))
    value = _changed(rng, msgspec.json.decode(found.frame.events[at]))
    try:
        base.codec.decode(found.frame.types[at], msgspec.Raw(msgspec.json.encode(value)))
    except Refused:
        return "event refused"
    return "event decoded"


def _changed(rng: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        return {k: v for k, v in value.items() if k != key or rng.random() < 0.8} | {key: _changed(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        return [*value[:at], _changed(rng, value[at]), *value[at + 1 :]]
    if isinstance(value, str) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        return value[:at] + rng.choice("AZaz09+/=") + value[at + rng.randrange(3) :]
    return rng.choice((None, "", 0, -1, 2**40, 2**70, 1.5, True, [], {}, "AAAA", [None], {"type": "x"}))


def journal_case(rng: random.Random, base: Base) -> str:
    """A journal with a few things done to its folder, read by a master or by somebody who only looks."""
    objects = dict(base.objects)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        if objects:
            rng.choice(MUTATIONS)(rng, objects)
    store = MemoryStore()
    store.objects = {folder_of(base.run) + name: (body, 0.0) for name, body in objects.items()}
    own_epoch = rng.choice((None, None, 1, 2))
    try:
        history = read(store, base.run, base.codec, own_epoch=own_epoch)
    except Refused:
        return "refused"
    except Fenced:
        if own_epoch is None:
            raise Wrong("a reader without an epoch was fenced") from None
        return "fenced"
    _check(history, base, objects)
    if rng.random() < 0.1:
        prune(store, base.run)
    return "cut" if history.cut else "kept" if len(history.records) == len(base.records) else "shorter"


def _check(history: History[Any], base: Base, objects: Objects) -> None:
    """What was kept must be a beginning of what was written, shorter only where the end itself was hurt."""
    kept = history.records
    if history.position.is_closed and kept == base.records[-1:]:
        return
    if kept != base.records[: len(kept)]:
        raise Wrong(f"kept what was never written: {kept}")
    following = base.records[len(kept) : len(kept) + 1]
    for name in (name_of(record.sequence) for record in following):
        if objects.get(name) == base.objects[name]:
            raise Wrong(f"record {name} is whole and was not kept")


def campaign(first: int, count: int) -> tuple[Counter[str], list[str]]:
    ends: Counter[str] = Counter()
    wrong = []
    for seed in range(first, first + count):
        try:
            ends[case(seed)] += 1
        except Exception as error:
            wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
    return ends, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    started = time.process_time()
    ends, wrong = campaign(given.first, given.cases)
    for line in wrong[:20]:
        print(line)
    seconds = time.process_time() - started
    counts = " ".join(f"{end.replace(' ', '_')}={count}" for end, count in sorted(ends.items()))
    print(f"RESULT fuzz cases={given.cases} violations={len(wrong)} {counts} cpu_s={seconds:.0f}")
    return 1 if wrong or not {"kept", "cut", "refused", "fenced"} <= ends.keys() else 0


if __name__ == "__main__":
    raise SystemExit(main())
