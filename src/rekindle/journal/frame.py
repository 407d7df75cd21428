"""The frame around the events of one record, and what the bytes found under a number are.

    RK1 <length> <checksum>\n
    {"sequence":7,"epoch":2,"previous":"<checksum>","writer":"…","types":["Committed/1"],"events":[{…}]}

- The checksum covers the body and names the record: the next record carries it as `previous`.
- The events of one record become true together. Their types and versions can be read without decoding them.
- A record of a new epoch carries the owner that opened it. A closed record is the tombstone of a run.
- A base holds the whole state in one event: reading begins at the last one. It carries the owner of its epoch.
- Bytes are whole, torn (a beginning of a record and nothing else) or damaged (anything else).
"""

from __future__ import annotations

import re
from hashlib import blake2b

import msgspec

from rekindle.errors import JournalRefused, NewerJournal
from rekindle.journal.owner import Owner

FORMAT = 1
DIGITS = 20
NAME = re.compile(r"[0-9]{20}")
HEADER = re.compile(rb"RK([1-9][0-9]{0,3}) ([1-9][0-9]{0,11}) ([0-9a-f]{32})\n")
# Every beginning of a header: what a torn first line can look like.
HEADER_BEGINNING = re.compile(rb"(R(K([1-9][0-9]{0,3}( ([1-9][0-9]{0,11}( ([0-9a-f]{1,32})?)?)?)?)?)?)?")


class Frame(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One record as it is stored."""

    sequence: int
    epoch: int
    previous: str
    writer: str
    types: tuple[str, ...]
    events: tuple[msgspec.Raw, ...]
    owner: Owner | None = None
    is_closed: bool = False
    is_base: bool = False

    @property
    def opens_epoch(self) -> bool:
        return self.owner is not None and not self.is_base


class WholeFrame(msgspec.Struct, frozen=True):
    """Bytes that are a record."""

    frame: Frame
    checksum: str


class TornFrame(msgspec.Struct, frozen=True):
    """Bytes that are a beginning of a record: its writer never got an answer."""


class DamagedFrame(msgspec.Struct, frozen=True):
    """Bytes that no writer of ours left there."""

    reason: str


Found = WholeFrame | TornFrame | DamagedFrame

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Frame)


def name_of(sequence: int) -> str:
    """The object name of a sequence number: names sort as numbers do."""
    return f"{sequence:0{DIGITS}d}"


def checksum_of(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()


def to_bytes(frame: Frame) -> tuple[bytes, str]:
    """The bytes to store and the checksum that names them."""
    body = _encoder.encode(frame)
    checksum = checksum_of(body)
    return b"RK%d %d %s\n%s" % (FORMAT, len(body), checksum.encode(), body), checksum


def find(data: bytes) -> Found:
    """What these bytes are. A newer format is refused with a sentence, everything else is a value."""
    header = HEADER.match(data)
    if header is None:
        if HEADER_BEGINNING.fullmatch(data):
            return TornFrame()
        return DamagedFrame("it does not begin like a record")
    number, length, checksum = int(header[1]), int(header[2]), header[3].decode()
    body = data[header.end() :]
    intact = checksum_of(body) == checksum
    if not intact:
        return TornFrame() if len(body) < length else DamagedFrame("its checksum is wrong")
    if len(body) != length:
        return DamagedFrame("its length is wrong")
    if number > FORMAT:
        raise NewerJournal(
            f"a record has format {number}, this Rekindle reads up to {FORMAT}", "pip install -U rekindle"
        )
    return _decode(body, checksum)


def _decode(body: bytes, checksum: str) -> Found:
    try:
        frame = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return DamagedFrame(f"it is not a record: {error}")
    if len(frame.types) != len(frame.events):
        return DamagedFrame("it does not name the type of each event")
    return WholeFrame(frame, checksum)


def whole(data: bytes | None, name: str) -> WholeFrame:
    """The record in these bytes, which must be one."""
    match find(data if data is not None else b""):
        case WholeFrame() as record:
            return record
        case TornFrame():
            raise JournalRefused(f"record {name} is missing or incomplete")
        case DamagedFrame(reason):
            raise JournalRefused(f"record {name} is damaged: {reason}")
