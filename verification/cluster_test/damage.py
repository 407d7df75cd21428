"""Damage done to committed files behind everybody's back: gone, short, or with one bit flipped."""

from __future__ import annotations

from pathlib import Path

from cluster_test.play import Stage
from rekindle.model.partitions import Partitions


def damage(stage: Stage, run: str, step: str, wanted: dict[str, int]) -> Partitions:
    """Damage one file of a step of a run for each entry (how, partition)."""
    for how, number in wanted.items():
        (file,) = (stage.place.folder / "shop" / run / "results" / step).glob(f"*/*/part-*_{number:05d}.*")
        _damage(how, file)
    return Partitions(wanted.values())


def _damage(how: str, file: Path) -> None:
    data = bytearray(file.read_bytes())
    match how:
        case "missing":
            file.unlink()
        case "short":
            file.write_bytes(data[: len(data) // 2])
        case _:
            data[len(data) // 3] ^= 1
            file.write_bytes(data)
