"""Run keys: two starts of the same work find each other.

The key of a run is its pipeline and parameters. `<pipeline>/_keys/<hash>/<number>` names the run that holds
it, claimed by put-if-absent. `--new` claims the next number; the highest number holds the key.

`<pipeline>/_runs/<number>` names every run that ever began: its number is its place among them, and later ones win
wherever two publish into the same target. A run that is a stream has a number too; what it has lies below
`<pipeline>/_streams/<run>`, because its journal is that of another machine.

`<pipeline>/_identity/id` is a random word, put before the first run is listed: numbers of two locations, or of one that
was emptied and filled again, cannot be compared.

A name that is read here becomes a folder, from which gc deletes. What cannot be the name of a run is never given to
anybody: a list leaves it out and says so, a key that holds it is refused. A new name has to be a plain one
(`RUN_NAME`); one that is stored was accepted by the release that stored it, and only has to be a folder of its own
(`_is_folder`).
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
import warnings
from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from rekindle.errors import AppendUnknown, JournalRefused, Notice, Refused
from rekindle.journal.journal import PAUSES_SECONDS, Pause
from rekindle.remedies import TextRemedy, new_run
from rekindle.storage.store import Put, Store

IDENTITY = "_identity/id"
STREAMS = "_streams"
# One level of a path, which is neither hidden nor one of the folders beside the runs.
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
NAME_LETTERS_MAX = 128
UNREADABLE = "\ufffd"
IDENTITY_WORD = re.compile(r"[0-9a-f]{1,64}")


class Claim(msgspec.Struct, frozen=True):
    """Which run holds a key. `is_ours` tells whether this call made it so."""

    run: str
    number: int
    is_ours: bool = False


class _Stored(msgspec.Struct, frozen=True):
    run: str
    key: str


def key_of(parameters: Mapping[str, str]) -> str:
    """The text of a key: equal parameters give equal text, in whatever order they were given."""
    return msgspec.json.encode(dict(sorted(parameters.items()))).decode()


def digest_of(parameters: Mapping[str, str]) -> str:
    """The key in few letters, which tell nothing of its values."""
    return blake2b(key_of(parameters).encode(), digest_size=16).hexdigest()


def find_claim(store: Store, pipeline: str, parameters: Mapping[str, str]) -> Claim | None:
    """The run that holds a key now."""
    folder = _folder(pipeline, parameters)
    number = _newest_number(store, folder)
    data = store.get(f"{folder}{number:08d}") if number else None
    return None if data is None else Claim(_read_run(data, f"{folder}{number:08d}"), number)


def last_claims(store: Store, pipeline: str, parameters: Mapping[str, str], most: int) -> list[str]:
    """The last runs that held a key, the newest first. What is damaged is left out."""
    folder = _folder(pipeline, parameters)
    numbers = sorted((name for name in store.list_after(folder) if _is_number(name)), reverse=True)[:most]
    found = []
    for name, body in zip(numbers, store.get_many(folder, numbers), strict=True):
        with contextlib.suppress(JournalRefused):
            found += [_read_run(body, folder + name)] if body is not None else []
    return found


def _newest_number(store: Store, folder: str) -> int:
    """The highest number that somebody claimed; 0 if nobody did."""
    return max((int(name) for name in store.list_after(folder) if _is_number(name)), default=0)


def claim(
    store: Store,
    pipeline: str,
    parameters: Mapping[str, str],
    run: str,
    *,
    is_new: bool = False,
    pause: Pause = time.sleep,
) -> Claim:
    """Claim a key for a run, or learn who holds it. `run` must be a unique name; one that holds the key already, from
    an earlier call, gets no second place."""
    try:
        held = find_claim(store, pipeline, parameters)
        number = 1 if held is None else held.number + 1
    except JournalRefused:
        if not is_new:
            raise
        held, number = None, _newest_number(store, _folder(pipeline, parameters)) + 1
    if held is not None and (held.run == run or not is_new):
        return held
    refuse_name(run)
    key = f"{_folder(pipeline, parameters)}{number:08d}"
    body = msgspec.json.encode(_Stored(run, key_of(parameters)))
    for seconds in PAUSES_SECONDS:
        answer = store.put_if_absent(key, body)
        found = body if answer is Put.CREATED else store.get(key)
        if answer is not Put.UNKNOWN and found is not None:
            return Claim(_read_run(found, key), number, found == body)
        pause(seconds)
    raise AppendUnknown(f"{store.name} gave no definite answer for the key of run {run}", "try again")


def claim_anew(store: Store, pipeline: str, parameters: Mapping[str, str], run: str) -> None:
    """Claim a key for a new run of this name, however many others do so at the same time: the last one holds it."""
    while claim(store, pipeline, parameters, run, is_new=True).run != run:
        continue


def parameters_of(store: Store, pipeline: str) -> dict[str, dict[str, str]]:
    """Run to its parameters, for every run of the pipeline that claimed a key."""
    found: dict[str, dict[str, str]] = {}
    folder, number = f"{pipeline}/_keys/", 1
    digests = store.list_folders(folder)
    while digests:
        left = []
        bodies = store.get_many(folder, [f"{digest}/{number:08d}" for digest in digests])
        for digest, body in zip(digests, bodies, strict=True):
            if body is None:
                continue
            left.append(digest)
            try:
                stored = _decode(body)
                found[stored.run] = msgspec.json.decode(stored.key, type=dict[str, str])
            except msgspec.MsgspecError:
                _warn(f"{folder}{digest}/{number:08d}", body)
        digests, number = left, number + 1
    return found


def numbers(store: Store, pipeline: str) -> list[int]:
    """The places that runs have, ascending."""
    return [int(name) for name in store.list_after(_listing(pipeline)) if _is_number(name)]


def numbered(store: Store, pipeline: str, number: int) -> str | None:
    """The run that has a place."""
    key = f"{_listing(pipeline)}{number:08d}"
    data = store.get(key)
    return None if data is None else _run_name(data, key)


def listed(store: Store, pipeline: str) -> dict[int, str]:
    """Every run that ever began, by its place among them, oldest first."""
    places = numbers(store, pipeline)
    bodies = zip(places, store.get_many(_listing(pipeline), [f"{one:08d}" for one in places]), strict=True)
    named = {place: _run_name(data, f"{_listing(pipeline)}{place:08d}") for place, data in bodies if data is not None}
    return {place: run for place, run in named.items() if run is not None}


def stream_folder(pipeline: str, run: str) -> str:
    """Where a stream has its journal, its checkpoints and the fences of its regions."""
    return f"{pipeline}/{STREAMS}/{run}"


def streams_of(store: Store, pipeline: str) -> list[str]:
    """The runs of a pipeline that are streams, by name."""
    return [name for name in store.list_folders(f"{pipeline}/{STREAMS}/") if _is_folder(name)]


def next_order(store: Store, pipeline: str) -> int:
    """The place that a run would get if it began now."""
    return max(numbers(store, pipeline), default=0) + 1


def find_identity(store: Store, pipeline: str) -> str:
    """By which the numbers of these runs are told from those of another location; empty if nothing ran here yet."""
    word = (store.get(f"{pipeline}/{IDENTITY}") or b"").decode(errors="replace")
    if word and not IDENTITY_WORD.fullmatch(word):
        raise JournalRefused(
            f"{store.name}/{pipeline}/{IDENTITY} holds {word[:80]!r}, which Rekindle did not write",
            "restore that object from a backup",
        )
    return word


def identify(store: Store, pipeline: str, pause: Pause = time.sleep) -> str:
    """The same for all who ask. Emptied of its runs, the location gets another one only if this went with them."""
    return find_identity(store, pipeline) or _make_identity(store, pipeline, pause)


def _make_identity(store: Store, pipeline: str, pause: Pause) -> str:
    for seconds in PAUSES_SECONDS:
        store.put_if_absent(f"{pipeline}/{IDENTITY}", secrets.token_hex(4).encode())
        found = find_identity(store, pipeline)
        if found:
            return found
        pause(seconds)
    raise AppendUnknown(f"{store.name} gave no definite answer for the identity of {pipeline}", "try again")


def enlist(store: Store, pipeline: str, run: str, pause: Pause = time.sleep) -> int:
    """The place of a new run among all runs of its pipeline. A number that a dead process took is never used again."""
    if not _is_folder(run):
        refuse_name(run)
    folder, number = _listing(pipeline), next_order(store, pipeline)
    for seconds in PAUSES_SECONDS:
        answer = store.put_if_absent(f"{folder}{number:08d}", run.encode())
        while answer is Put.EXISTS and store.get(f"{folder}{number:08d}") != run.encode():
            number += 1
            answer = store.put_if_absent(f"{folder}{number:08d}", run.encode())
        if answer is not Put.UNKNOWN:
            return number
        pause(seconds)
    raise AppendUnknown(f"{store.name} gave no definite answer for the number of run {run}", "try again")


def refuse_name(run: str) -> None:
    """Raise `Refused` unless this can be the name of a run."""
    if not RUN_NAME.fullmatch(run):
        raise Refused(
            f"{run!r} is not a valid run name: use letters, digits, `.`, `_` and `-`, and a letter or digit first",
            'rk.RunOptions(new=True, run="orders-2026-11-13"), or leave the name out',
        )


def _run_name(data: bytes, key: str) -> str | None:
    """The name of a run as it was stored; None, and a word about it, where it is none."""
    name = data.decode(errors="replace")
    if _is_folder(name):
        return name
    _warn(key, data)
    return None


def _read_run(data: bytes, key: str) -> str:
    try:
        run = _decode(data).run
    except msgspec.MsgspecError as error:
        raise JournalRefused(
            f"{key} is damaged: {error}", (TextRemedy("restore it from a backup"), new_run("or start anew"))
        ) from None
    if not _is_folder(run):
        raise JournalRefused(
            f"{key} holds {run[:80]!r}, which is not the name of a run",
            (TextRemedy("find out who wrote it"), new_run("or start a new run")),
        )
    return run


def _is_folder(name: str) -> bool:
    """One level of a path, neither hidden nor one of the folders beside the runs, and readable."""
    is_one_level = name[:1] not in ("", ".", "_") and not any(one in name for one in "/\\")
    return is_one_level and len(name) <= NAME_LETTERS_MAX and name.isprintable() and UNREADABLE not in name


def _warn(key: str, data: bytes) -> None:
    text = data[:80].decode(errors="replace")
    warnings.warn(f"{key} is ignored: {text!r} is not the name of a run", Notice, stacklevel=3)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()


def _listing(pipeline: str) -> str:
    return f"{pipeline}/_runs/"


def _folder(pipeline: str, parameters: Mapping[str, str]) -> str:
    return f"{pipeline}/_keys/{digest_of(parameters)}/"


def _decode(data: bytes) -> _Stored:
    return msgspec.json.decode(data, type=_Stored)
