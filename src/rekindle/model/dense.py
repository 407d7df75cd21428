"""Partition sets as one big integer, bit by bit, for what bitmaps cannot do: squeeze and stretch.

A coalesce maps scattered sets of a million partitions to other counts. Number by number that takes a tenth of a
second each; as digits of an integer it is a few slices. The way between bitmap and integer is Roaring's portable
format, in which a block of 65,536 numbers with more than 4,096 members is stored as plain bits. To be sure of that,
sets are mixed with a fixed irregular pattern first (exclusive or), and unmixed afterwards.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from math import gcd
from typing import Any

from pyroaring import FrozenBitMap

from rekindle.model.partitions import EMPTY, Partitions

_BLOCK_BITS = 65_536
_BLOCK_BYTES = _BLOCK_BITS // 8
_SPARSE_MAX = 4_096
_COOKIE = 12_346
_WORDS = [(0x9E3779B97F4A7C15 * (at * at + 1)) % 2**64 for at in range(_BLOCK_BYTES // 8)]
_PATTERN = struct.pack(f"<{len(_WORDS)}Q", *_WORDS)


def to_bits(partitions: Partitions) -> int:
    """The integer whose bit p is set exactly if p is a member."""
    if not partitions:
        return 0
    blocks = partitions.highest // _BLOCK_BITS + 1
    data = (partitions.unwrap() ^ _pattern(blocks)).serialize()
    plain = blocks * _BLOCK_BYTES
    if len(data) != plain + 8 * blocks + 8:
        return sum(1 << at for at in partitions)
    return int.from_bytes(data[-plain:], "little") ^ _pattern_bits(blocks)


def from_bits(bits: int) -> Partitions:
    """The inverse of `to_bits`."""
    if not bits:
        return EMPTY
    blocks = (bits.bit_length() - 1) // _BLOCK_BITS + 1
    mixed = (bits ^ _pattern_bits(blocks)).to_bytes(blocks * _BLOCK_BYTES, "little")
    bitmap = _bitmap(mixed, blocks)
    if bitmap is None:
        return Partitions(at for at in range(bits.bit_length()) if bits >> at & 1)
    return Partitions.wrap(bitmap ^ _pattern(blocks))


def squeeze(bits: int, producers: int, consumers: int) -> int:
    """Bit c is set if any bit of the c-th of `consumers` balanced pieces of `producers` bits is.

    The pieces repeat after `period` bits. A piece is as wide as the narrowest or one wider, so that the narrowest
    width, laid at its beginning and at its end, covers it.
    """
    width, rest = divmod(producers, consumers)
    digits = _digits(_smear(bits, width, down=True), producers)
    heads, tails = bytearray(consumers), bytearray(consumers if rest else 0)
    for at, begin, end, period, turn in _pieces(producers, consumers):
        heads[turn - 1 - at :: turn] = digits[period - 1 - begin :: period]
        if rest:
            tails[turn - 1 - at :: turn] = digits[period - 1 - (end - width) :: period]
    return int(heads, 2) | int(tails, 2) if rest else int(heads, 2)


def stretch(bits: int, producers: int, consumers: int) -> int:
    """All bits of the c-th piece are set if bit c is: `squeeze` backwards."""
    width = producers // consumers
    digits = _digits(bits, consumers)
    marks = bytearray(b"0") * producers
    for at, begin, end, period, turn in _pieces(producers, consumers):
        for mark in range(begin, end - width + 1):
            marks[period - 1 - mark :: period] = digits[turn - 1 - at :: turn]
    return _smear(int(marks, 2), width, down=False)


def turns(producers: int, consumers: int) -> int:
    """How many slices a squeeze takes: the number of pieces after which they repeat."""
    return consumers // gcd(producers, consumers)


def _pieces(producers: int, consumers: int) -> list[tuple[int, int, int, int, int]]:
    """(number, begin, end, bits until it repeats, pieces until it repeats) of each piece of one turn."""
    common = gcd(producers, consumers)
    period, turn = producers // common, consumers // common
    return [(at, at * period // turn, (at + 1) * period // turn, period, turn) for at in range(turn)]


def _digits(bits: int, count: int) -> bytes:
    """Binary digits, highest first."""
    return format(bits, f"0{count}b").encode()


def _smear(bits: int, width: int, down: bool) -> int:
    """Each bit spread over `width` places, in about log2(width) shifts."""
    reach = 1
    while reach < width:
        by = min(reach, width - reach)
        bits, reach = bits | (bits >> by if down else bits << by), reach + by
    return bits


def _bitmap(plain: bytes, blocks: int) -> Any | None:
    """Plain bits in Roaring's format, or nothing if a block has too few members to be stored so."""
    sizes = [
        int.from_bytes(plain[at : at + _BLOCK_BYTES], "little").bit_count() for at in range(0, len(plain), _BLOCK_BYTES)
    ]
    if min(sizes) <= _SPARSE_MAX:
        return None
    keys = b"".join(struct.pack("<HH", at, size - 1) for at, size in enumerate(sizes))
    begin = 8 + 8 * blocks
    offsets = struct.pack(f"<{blocks}I", *(begin + at * _BLOCK_BYTES for at in range(blocks)))
    return FrozenBitMap.deserialize(struct.pack("<II", _COOKIE, blocks) + keys + offsets + plain)


@lru_cache(maxsize=64)
def _pattern_bits(blocks: int) -> int:
    return int.from_bytes(_PATTERN * blocks, "little")


@lru_cache(maxsize=64)
def _pattern(blocks: int) -> Any:
    return _bitmap(_PATTERN * blocks, blocks)
