"""One digest of an output, for the driver and for the reader, who does not use Spark."""

from __future__ import annotations

import hashlib

import pyarrow as pa


def digest_of(table: pa.Table) -> str:
    """Count and digest of rows, whatever their order and that of the columns."""
    names = sorted(table.column_names)
    rows = sorted(map(repr, zip(*(table.column(name).to_pylist() for name in names), strict=True)))
    return f"{len(rows)}:{hashlib.sha256(chr(10).join(rows).encode()).hexdigest()[:32]}"
