"""Is a plan determinate? Our own table over the analysed logical plan.

Determinate means: the same committed inputs give the same rows in every partition, in any driver, whatever the
order in which rows arrive. The table names what is known to be so. What it does not know is unknown, and unknown is
treated as different. Spark's own flags are not enough: they call a Python function deterministic, and do not see
`first`, `collect_list`, ties, a limit without an order, or the last bits of a sum of doubles.

A known name is not enough where values count as equal that are not the same:

- strings with a collation, where equal ones are put together or compared: one spelling is kept, the first to come;
- zeros, which have a sign: `max` keeps the first. (Grouping and `distinct` make them one, so these are no danger);
- sums: exact in whole numbers, and in decimals of up to 28 digits, which have ten more before they overflow;
- averages: exact in decimals of 12 to 28 digits. Those of fewer Spark adds as doubles;
- text that becomes a timestamp: a time of day alone gets the date of the day on which the task runs;
- windows: rows with equal sort keys are peers in a rank and in a frame by range, in a frame by rows they are not. In a
  total order there are no peers, or they are the same rows, so that it does not matter which of them comes first;
- maps, which are the same in any order of their entries, for a digest too: what tells the order of a map that it was
  given makes other rows of the same input;
- duplicates by some columns, and limits: which row stays is told by a column that is no key.

A list of what was met has the order of the rows, unless it is sorted on the spot, by values that are the same if they
compare equal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice

from rekindle.engine.spark.plan import known, unique
from rekindle.engine.spark.plan.plan_tree import LogicalNode, parse, parse_all, preorder, walk
from rekindle.model.kinds import Determinism

ROW_WISE = frozenset({100, 101})  # Spark's numbers for a Python function called once per row, pickled or by Arrow.
GIVES_UP = re.compile(r"\btry_(?:sum|avg)\b")
FLOATS = re.compile(r'"(double|float)"')
DECIMAL = re.compile(r'"decimal\((\d+),')
COLLATED = re.compile(r" collate (?!UTF8_BINARY\b)|__COLLATIONS")
# The function of `array_sort` without one; the variables are l and r.
BY_VALUE = "If And IsNull l IsNull r 0 If IsNull l 1 If IsNull r -1 If LessThan l r -1 If GreaterThan l r 1 0"
HIDDEN_COLUMN = "_metadata"
DIGITS_MAX = 28
AVERAGED_DIGITS_MIN = 12
NODES_MAX = 300
NOW = re.compile(r"^\s*(now|today|yesterday|tomorrow)\b", re.IGNORECASE)
TIMES = ("date", "timestamp", "timestamp_ntz")
TIME_OF_DAY = re.compile(r"^\s*T?\d{1,2}:")


class DoubtKind(Enum):
    """Another value at each evaluation; one per query; depends on the order of rows; on other things, row by row."""

    RANDOM = auto()
    CONSTANT = auto()
    ORDER = auto()
    OPAQUE = auto()


@dataclass(frozen=True, slots=True)
class DeterminismVerdict:
    """The level of a plan and the operators or expressions that decided it."""

    level: Determinism
    because: tuple[str, ...] = ()
    has_query_constants: bool = False
    is_order_sensitive: bool = False


def judge(
    analysed_json: str, text: str = "", untold: str = "", *, reads_kept: bool = True, reads_pinned: bool = False
) -> DeterminismVerdict:
    """The level of an analysed plan, given as the JSON and the text that Spark makes of it. Only the text tells a sum
    that gives up on overflow from one that fails: whether it gives up depends on the order of rows. `untold` is a list
    of the expressions that are left out of the JSON, empty where nobody looked; `reads_kept` if results that we kept
    are read, which are known to be the same by their digests; `reads_pinned` if each table of a catalog is read at one
    version."""
    nodes = [node for tree in (parse(analysed_json), *parse_all(untold or "[]")) for node in walk(tree)]
    nodes = [node for node in nodes if not (reads_pinned and node.name in known.CATALOG_TABLES)]
    is_collated = any(map(_is_collated, nodes))
    settled = {id(one) for node in nodes if _is_sort(node) for one in _sorted_list(node)}
    placed = unique.made_in_total_order([node for node in nodes if node.name == "Window"], _is_told_apart)
    settled |= {id(one) for node in nodes if node.expression_id in placed for one in _by_place(node)}
    found = {one for node in nodes if id(node) not in settled for one in _doubts(node, is_collated)}
    found |= {(DoubtKind.ORDER, name) for name in GIVES_UP.findall(text)}
    if reads_kept:
        found |= {(DoubtKind.OPAQUE, f"{node.name} in the order of a map") for node in nodes if _tells_map_order(node)}
    if not untold and any(node.name == "Expand" and not _is_grouping(node) for node in nodes):
        # Nobody looked: those of unpivot could be anything.
        found |= {(kind, "Expand of expressions that are not told") for kind in (DoubtKind.ORDER, DoubtKind.CONSTANT)}
    kinds = {kind for kind, _ in found}
    level = Determinism.UNKNOWN if found else Determinism.DETERMINATE
    return DeterminismVerdict(
        Determinism.INDETERMINATE if kinds & {DoubtKind.RANDOM, DoubtKind.CONSTANT} else level,
        tuple(sorted({what for _, what in found})),
        has_query_constants=DoubtKind.CONSTANT in kinds,
        is_order_sensitive=bool(kinds & {DoubtKind.RANDOM, DoubtKind.ORDER}),
    )


def _doubts(node: LogicalNode, is_collated: bool) -> Iterator[tuple[DoubtKind, str]]:
    name = node.name
    if name in known.INDETERMINATE:
        yield DoubtKind.RANDOM, name
    elif name in known.QUERY_CONSTANTS:
        yield DoubtKind.CONSTANT, name
    elif name in known.TRANSCENDENTAL:
        yield DoubtKind.OPAQUE, name
    elif name == "PythonUDF":
        yield DoubtKind.OPAQUE if node.fields.get("evalType") in ROW_WISE else DoubtKind.ORDER, name
    elif name not in known.KNOWN:
        yield DoubtKind.ORDER, name
    if _takes_todays_date(node):
        yield DoubtKind.OPAQUE, f"{name} of text to timestamps"
    if _is_now(node):
        yield DoubtKind.CONSTANT, "a word for the current time"
    if _is_place_of_row(node):
        yield DoubtKind.RANDOM, HIDDEN_COLUMN
    if is_collated and _compares_collated(node):
        yield DoubtKind.ORDER, f"{name} of collated strings"
    if what := _order_of(node):
        yield DoubtKind.ORDER, what


def _order_of(node: LogicalNode) -> str:
    """What in this node depends on the order of rows, its names being known."""
    if node.name in known.EXACT_ONLY:
        return _inexact(node)
    if node.name == "WindowExpression":
        return _frame(node)
    if node.name == "Deduplicate" and not unique.keeps_whole_rows(node):
        return "Deduplicate by some of the columns"
    if node.name in known.LIMITS and not unique.is_cut_in_total_order(node, _is_told_apart):
        return f"{node.name} without a total order"
    return ""


def _inexact(node: LogicalNode) -> str:
    value, *_ = node.children or (node,)
    if node.name == "Average":
        digits = [int(text) for text in DECIMAL.findall(_types(value))] if _says_type(value) else []
        is_exact = len(digits) == 1 and AVERAGED_DIGITS_MIN <= digits[0] <= DIGITS_MAX
        return "" if is_exact else f"Average not of decimals of {AVERAGED_DIGITS_MIN} to {DIGITS_MAX} digits"
    if _makes_floats(value):
        return f"{node.name} of floating point"
    is_wide = node.name == "Sum" and _digits(value) > DIGITS_MAX
    return f"Sum of decimals of more than {DIGITS_MAX} digits" if is_wide else ""


def _makes_floats(value: LogicalNode) -> bool:
    return any(one.name in known.MAKES_DOUBLES or FLOATS.search(_types(one)) for one in walk(value, _says_type))


def _is_sort(node: LogicalNode) -> bool:
    """By the values themselves: `array_sort` takes a function, and this is the one that it has if it is given none."""
    if node.name != "ArraySort":
        return node.name == "SortArray"
    body, *variables = node.children[1].children
    letters = {one.expression_id: letter for one, letter in zip(variables, "lr", strict=False)}

    def said(one: LogicalNode) -> str:
        match one.name:
            case "NamedLambdaVariable":
                return letters.get(one.expression_id, "?")
            case "Literal":
                return str(one.fields["value"])
            case name:
                return name

    return " ".join(map(said, preorder(body))) == BY_VALUE


def _sorted_list(sort: LogicalNode) -> Iterator[LogicalNode]:
    """The list of rows below a sort that leaves nothing of their order."""
    below = sort.children[0]
    while below.name == "AggregateExpression" and below.children:
        below = below.children[0]
    if below.name in known.LISTS and not _makes_floats(below) and not any(map(_is_collated, walk(below))):
        yield below


def _says_type(node: LogicalNode) -> bool:
    """A column, a literal and a cast do. Of others it is known that they make no floating point number where none
    goes in."""
    return "dataType" in node.fields


def _digits(value: LogicalNode) -> int:
    """At least as many digits as a decimal result can have; 0 if there is none. Too many if it is too deep to tell."""
    if sum(1 for _ in islice(walk(value), NODES_MAX)) == NODES_MAX:
        return DIGITS_MAX + 1
    return _digits_of(value)


def _digits_of(value: LogicalNode) -> int:
    if _says_type(value):
        return max((int(text) for text in DECIMAL.findall(_types(value))), default=0)
    below = [_digits_of(child) for child in value.children]
    if value.name in known.READS_DECIMALS or (value.name == "Divide" and any(below)):
        return DIGITS_MAX + 1
    if value.name in {"Multiply", "Add", "Subtract"} and any(below):
        return sum(below) + 1  # Of a sum: as many before the point as one has, and behind it as the other.
    return max(below, default=0)


def _frame(window: LogicalNode) -> str:
    """An aggregate over all rows of a window, or over all peers. A rank counts peers by itself."""
    function, spec = window.children
    if function.name in known.RANKS or function.name not in known.KNOWN:
        return ""
    frame = spec.children[-1]
    is_by_range = "RangeFrame" in json.dumps(frame.fields.get("frameType"))
    is_whole = [one.name for one in frame.children] == ["UnboundedPreceding", "UnboundedFollowing"]
    names = [one.name for one in function.children] if function.name == "AggregateExpression" else []
    if names and names[0] in known.WINDOWED and (is_by_range or is_whole):
        return ""
    return f"{names[0] if names else function.name} over a window" + ("" if is_by_range else " by rows")


def _by_place(column: LogicalNode) -> Iterator[LogicalNode]:
    """What in a column of a window is known in a total order: a function of the place of a row, or an aggregate over a
    frame by rows."""
    for window in column.children if column.name == "Alias" else ():
        if window.name != "WindowExpression":
            continue
        function = window.children[0]
        names = [one.name for one in function.children] if function.name == "AggregateExpression" else []
        if function.name in known.PLACED:
            yield function
        elif names and names[0] in known.WINDOWED:
            yield window


def _is_told_apart(key: LogicalNode) -> bool:
    """Values of this type that compare equal are the same."""
    types = _types(key)
    return not FLOATS.search(types) and not COLLATED.search(types) and '"map"' not in types


def _compares_collated(node: LogicalNode) -> bool:
    """In a plan with collated strings. Operators on whole rows do not say which columns these have."""
    if node.name in known.COMPARES_ROWS:
        return True
    below = node.children if node.name in {"Min", "Max"} else ()
    return node.name in known.COMPARES and any(map(_is_collated, walk(LogicalNode(node.name, node.fields, below))))


def _is_collated(node: LogicalNode) -> bool:
    is_named = node.name == "ResolvedCollation" and node.fields.get("collationName") != "UTF8_BINARY"
    return is_named or bool(COLLATED.search(_types(node)))


def _is_now(node: LogicalNode) -> bool:
    """Spark takes `cast('now' as timestamp)` and the like for the time of the query, where the text is a constant."""
    is_parsed = node.name in {"ParseToDate", "ParseToTimestamp"}
    if not is_parsed and not (node.name == "Cast" and node.fields.get("dataType") in TIMES):
        return False
    below = list(walk(node))
    is_constant = not any(one.name in {"AttributeReference", "NamedLambdaVariable"} for one in below)
    return is_constant and any(NOW.search(str(one.fields.get("value", ""))) for one in below)


def _takes_todays_date(node: LogicalNode) -> bool:
    """Spark completes a time of day with the current date, row by row. Text that is there to see has a date or none; a
    format says what is not there."""
    match node.name:
        case "Cast":
            (value,) = node.children
            is_seen = value.name == "Literal" and not TIME_OF_DAY.search(str(value.fields.get("value", "")))
            return node.fields.get("dataType") == "timestamp" and not is_seen and _may_be_text(value)
        case "ParseToTimestamp":
            return node.fields.get("format") is None and node.fields.get("dataType") == "timestamp"
        case "JsonToStructs" | "CsvToStructs" | "VariantGet":
            return '"timestamp"' in _types(node)
        case _:
            return False


def _tells_map_order(node: LogicalNode) -> bool:
    is_text = node.name == "Cast" and "string" in _types(node)
    below = walk(node, lambda one: one.name in known.ASKS_MAP)
    return (is_text or node.name in known.TELLS_MAP_ORDER) and any(map(_is_map, below))


def _is_map(value: LogicalNode) -> bool:
    """A column, also one with a map inside. A map that the step itself makes has the order it was made in."""
    return value.name == "AttributeReference" and '"map"' in _types(value)


def _may_be_text(value: LogicalNode) -> bool:
    if _says_type(value):
        return "string" in _types(value)
    if value.name in known.CHOOSES:
        return any(map(_may_be_text, value.children))
    return value.name not in known.NO_TEXT


def _is_grouping(expand: LogicalNode) -> bool:
    """Of rollups, cubes and grouping sets: only columns and nulls, since Spark computes what is grouped by below."""
    return "spark_grouping_id" in json.dumps(expand.fields.get("output"))


def _is_place_of_row(node: LogicalNode) -> bool:
    """Spark's hidden column: path, split and position of a row."""
    return node.fields.get("name") == HIDDEN_COLUMN and "file_path" in _types(node)


def _types(node: LogicalNode) -> str:
    return json.dumps([node.fields.get(field) for field in ("dataType", "schema", "targetType", "metadata")])
