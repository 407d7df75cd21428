"""Damage that only checksums tell."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from rekindle.engine.spark.publish import rewriting
from rekindle.engine.spark.publish.publication import Publication


def damage_when_read(monkeypatch: pytest.MonkeyPatch, number: int) -> list[Path]:
    """One committed file, right before a publication reads it for the first time. Of the same length, and without the
    sums of a local disk, as on S3: only the sums of its pages tell. The answer names it, once that happened."""
    damaged: list[Path] = []
    real = rewriting.committed

    def damage(spark: SparkSession, what: Publication) -> DataFrame:
        if not damaged:
            path = Path(what.files[number][0].removeprefix("file:"))
            body = bytearray(path.read_bytes())
            body[len(body) // 3] ^= 255
            path.write_bytes(body)
            (path.parent / f".{path.name}.crc").unlink()
            damaged.append(path)
        return real(spark, what)

    monkeypatch.setattr(rewriting, "committed", damage)
    return damaged
