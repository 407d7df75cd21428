"""What PySpark has otherwise in older Spark lines. No other Python file asks for a version.

The types are for `isinstance`: those that a line does not have are no types at all, and no value is one of them.
"""

from __future__ import annotations

from pyspark.sql import types


def _there(name: str) -> tuple[type, ...]:
    return (getattr(types, name),) if hasattr(types, name) else ()


# PySpark 3.5 has neither.
VARIANTS = _there("VariantType")
CALENDAR_INTERVALS = _there("CalendarIntervalType")


def is_collated(kind: types.DataType) -> bool:
    """Whether strings of this type may be equal that are not the same. Before 4.0 no string has a collation."""
    return (
        isinstance(kind, types.StringType)
        and hasattr(kind, "isUTF8BinaryCollation")
        and not kind.isUTF8BinaryCollation()
    )
