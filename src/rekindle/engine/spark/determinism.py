"""Is a plan determinate? Our own table over the analysed logical plan.

Determinate means: the same committed inputs give the same rows in every partition, in any driver, whatever the
order in which rows arrive. The table names what is known to be so. What it does not know is unknown, and unknown is
treated as different. Spark's own flags are not enough: they call a Python function deterministic, and do not see
`first`, `collect_list`, ties, a limit without an order, or the last bits of a sum of doubles.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rekindle.model.kinds import Determinism

OPERATORS = frozenset(
    """
    Project Filter Aggregate Join Union SubqueryAlias View LogicalRelation Range LocalRelation Distinct Except
    Intersect Expand Generate RepartitionByExpression ResolvedHint WithCTE CTERelationDef CTERelationRef OneRowRelation
    HintInfo
    """.split()
)
EXPRESSIONS = frozenset(
    """
    AttributeReference Alias Literal Cast OuterReference UpCast
    Add Subtract Multiply Divide Remainder Pmod IntegralDivide UnaryMinus Abs Round BRound Floor Ceil Sqrt
    Greatest Least BitwiseAnd BitwiseOr BitwiseXor BitwiseNot ShiftLeft ShiftRight Hex Unhex
    EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual In InSet And Or Not IsNull
    IsNotNull IsNaN CaseWhen If Coalesce NaNvl NullIf Nvl
    Concat ConcatWs Substring Length Upper Lower StringTrim StringTrimLeft StringTrimRight StringLPad StringRPad
    StringReplace StringInstr StringLocate StringRepeat Reverse Like RLike RegExpExtract RegExpReplace StringSplit
    FormatNumber Contains StartsWith EndsWith Md5 Sha1 Sha2 Crc32 Murmur3Hash XxHash64 Base64 UnBase64
    DateAdd DateSub DateDiff DateFormatClass TruncDate TruncTimestamp Year Month DayOfMonth DayOfWeek DayOfYear Hour
    Minute Second Quarter WeekOfYear ToUnixTimestamp UnixTimestamp FromUnixTime MakeDate AddMonths LastDay ParseToDate
    ParseToTimestamp GetTimestamp SecondsToTimestamp
    CreateNamedStruct GetStructField CreateArray GetArrayItem ArrayContains Size SortArray Sequence ArrayTransform
    ArrayFilter ArrayAggregate ArrayExists LambdaFunction NamedLambdaVariable ElementAt Explode PosExplode
    ArrayMin ArrayMax ArrayDistinct Flatten Slice ArrayRepeat
    AggregateExpression Count Sum Min Max Average BitAndAgg BitOrAgg BitXorAgg BoolAnd BoolOr
    ScalarSubquery Exists ListQuery HashPartitioning
    """.split()
)
EXACT_ONLY = frozenset({"Sum", "Average", "ArrayAggregate"})
INEXACT_TYPES = frozenset({"double", "float"})
ROW_WISE = frozenset({100, 101})  # Spark's numbers for a Python function called once per row, pickled or by Arrow.
INDETERMINATE = frozenset({"Rand", "Randn", "Uuid", "Shuffle", "MonotonicallyIncreasingID", "Sample", "RandStr"})
QUERY_CONSTANTS = frozenset(
    "CurrentTimestamp CurrentDate LocalTimestamp Now CurrentTime CurrentTimestampLike CurDateExpressionBuilder".split()
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The level of a plan and the operators or expressions that decided it."""

    level: Determinism
    because: tuple[str, ...] = ()
    has_query_constants: bool = False
    is_order_sensitive: bool = False


def judge(analysed_json: str) -> Verdict:
    """The level of an analysed plan, given as the JSON that Spark makes of it."""
    found = list(_nodes(json.loads(analysed_json)))
    names = {name for name, _ in found}
    inexact = names & EXACT_ONLY if _has_inexact(found) else frozenset()
    constants = names & QUERY_CONSTANTS
    random = names & INDETERMINATE
    unknown = names - OPERATORS - EXPRESSIONS - QUERY_CONSTANTS - INDETERMINATE
    because = tuple(sorted(random | unknown | inexact | constants))
    is_order_sensitive = bool(random or inexact or _order_sensitive(found, unknown))
    if random or constants:
        return Verdict(Determinism.INDETERMINATE, because, bool(constants), is_order_sensitive)
    if unknown or inexact:
        return Verdict(Determinism.UNKNOWN, because, False, is_order_sensitive)
    return Verdict(Determinism.DETERMINATE)


def _order_sensitive(found: list[tuple[str, dict[str, Any]]], unknown: set[str]) -> bool:
    """What the table does not know may look at the order of rows. A Python function of one row cannot see another."""
    others = unknown - {"PythonUDF"}
    return bool(others) or any(name == "PythonUDF" and node.get("evalType") not in ROW_WISE for name, node in found)


def _has_inexact(found: list[tuple[str, dict[str, Any]]]) -> bool:
    types = (json.dumps(node.get("dataType")) for _, node in found)
    return any(f'"{name}"' in text for text in types for name in INEXACT_TYPES)


def _nodes(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, list):
        for item in value:
            yield from _nodes(item)
    elif isinstance(value, dict):
        if "class" in value:
            yield str(value["class"]).rsplit(".", 1)[-1].rstrip("$"), value
        for item in value.values():
            yield from _nodes(item)
