"""A Python function as it goes to Spark's workers, read and never run: its bytes are taken apart opcode by opcode.

A DataFrame that was made elsewhere has no function of ours to look at: what its plan holds of Python is what PySpark
packed for the workers. Nothing in it is called or imported here. Of what it describes these are made, because they do
nothing by being made: plain values and containers, code, functions, cells. What is named is taken as this process has
it: it was packed here. Everything else stands as `UnbuiltObject`: by what, from what, with which state.

Only what was made here is ever changed. Bytes that tell something to an object of this process (an item for a list, a
state for a function) get a `UnbuiltObject` in its place, which says what was named and what it would be told.

A function of the user's is a function again, so that `fingerprint.py` tells its parts as it does for a step. One that a
package made on the fly is `UnbuiltObject` with all that it holds: the user's function may be anywhere inside.
"""

from __future__ import annotations

import pickletools
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from rekindle.pipeline.identity.packages import is_users_function

PACKERS = ("pyspark.cloudpickle", "cloudpickle")
BROADCASTS = ("pyspark.core.broadcast", "pyspark.broadcast")
SAYS_NOTHING = frozenset(
    "__module__ __doc__ __annotations__ __firstlineno__ __static_attributes__ __slotnames__ "
    "_cloudpickle_submodules".split()
)
NAMED = "what this process has under a name"
VALUES_BYTES_MAX = 1_000_000

SET_CODES = {"EMPTY_SET": b"\x8f", "FROZENSET": b"\x91"}

MARK = object()
LITERALS = frozenset(
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING BINBYTES BINBYTES8 "
    "SHORT_BINBYTES BYTEARRAY8 UNICODE BINUNICODE BINUNICODE8 SHORT_BINUNICODE".split()
)
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
SILENT = frozenset({"PROTO", "FRAME", "STOP"})
PUTS = frozenset({"BINPUT", "LONG_BINPUT", "PUT"})
GETS = frozenset({"BINGET", "LONG_BINGET", "GET"})
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Unreadable(Exception):
    """What was packed has a part that cannot be read without running it."""


@dataclass(eq=False)
class UnbuiltObject:
    """Something that is not made here: what would make it, from what, and what it would be told afterwards."""

    maker: Any
    given: Any
    told: list[Any] = field(default_factory=list)


def read(packed: bytes, broadcasts: Mapping[int, bytes]) -> Any:
    """What the bytes describe. `broadcasts` are the packed values of the broadcast variables that it may name. Raises
    `Unreadable`."""
    reader = _Reader(broadcasts)
    found = reader.read(packed)
    number = reader.numbers.get(id(found))
    if number is None:
        return found
    # It was too large for a command, and is sent as a broadcast variable of its own.
    return _Reader(broadcasts).read(_Reader(broadcasts).read(broadcasts[number]))


def first_function(found: Any) -> FunctionType | None:
    """The first function of the user's in what was read."""
    todo, seen = [found], set[int]()
    while todo:
        one = todo.pop()
        if isinstance(one, FunctionType):
            return one
        if id(one) not in seen:
            seen.add(id(one))
            todo += reversed(_inside(one))
    return None


def _inside(value: Any) -> list[Any]:
    match value:
        case UnbuiltObject():
            return [value.maker, value.given, *value.told]
        case list() | tuple():
            return list(value)
        case dict():
            return list(value.values())
        case _:
            return []


class _Reader:
    """A stack, a memo, and one method per kind of opcode."""

    def __init__(self, broadcasts: Mapping[int, bytes]) -> None:
        self._broadcasts = broadcasts
        self.numbers: dict[int, int] = {}
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._own: dict[int, Any] = {}

    def read(self, packed: bytes) -> Any:
        try:
            for opcode, argument, _ in pickletools.genops(packed):
                self._take(opcode.name, argument)
            return self._stack.pop()
        except Unreadable:
            raise
        except Exception as error:
            raise Unreadable(f"{type(error).__name__}: {error}") from error

    def _take(self, name: str, argument: Any) -> None:
        act = ACTS.get(name)
        if name in SILENT:
            return
        if act is not None:
            act(self)
        elif name in CONSTANTS:
            self._stack.append(CONSTANTS[name])
        elif name in TUPLES:
            self._stack.append(tuple(reversed([self._stack.pop() for _ in range(TUPLES[name])])))
        elif name in PUTS:
            self._memo[argument] = self._stack[-1]
        elif name in GETS:
            self._stack.append(self._memo[argument])
        elif name == "GLOBAL":
            self._stack.append(_named(*argument.split(" ", 1)))
        elif name in LITERALS:
            self._stack.append(argument)
        else:
            raise Unreadable(f"opcode {name}")

    def _marked(self) -> list[Any]:
        found: list[Any] = []
        while (one := self._stack.pop()) is not MARK:
            found.append(one)
        return found[::-1]

    def _mark(self) -> None:
        self._stack.append(MARK)

    def _pop(self) -> None:
        self._stack.pop()

    def _pop_mark(self) -> None:
        self._marked()

    def _dup(self) -> None:
        self._stack.append(self._stack[-1])

    def _memoize(self) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _tuple(self) -> None:
        self._stack.append(tuple(self._marked()))

    def _put(self, made: Any) -> None:
        """Something that was made here, and may be told more."""
        self._own[id(made)] = made
        self._stack.append(made)

    def _is_own(self, found: Any) -> bool:
        return self._own.get(id(found)) is found

    def _to_tell(self, to: Any) -> Any:
        """What is told instead of `to`: itself if it was made here, else what stands in its place from here on."""
        if self._is_own(to) or isinstance(to, UnbuiltObject):
            return to
        stands = UnbuiltObject(NAMED, to)
        self._stack[:] = [stands if one is to else one for one in self._stack]
        self._memo = {number: stands if one is to else one for number, one in self._memo.items()}
        return stands

    def _empty_list(self) -> None:
        self._put([])

    def _list(self) -> None:
        self._put(self._marked())

    def _append(self) -> None:
        value = self._stack.pop()
        self._extend([value])

    def _appends(self) -> None:
        self._extend(self._marked())

    def _extend(self, values: list[Any]) -> None:
        to = self._to_tell(self._stack[-1])
        if isinstance(to, UnbuiltObject):
            to.told.append(values)
        else:
            to.extend(values)

    def _empty_dict(self) -> None:
        self._put({})

    def _dict(self) -> None:
        items = self._marked()
        self._put(dict(zip(items[::2], items[1::2], strict=True)))

    def _set_item(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._update([key, value])

    def _set_items(self) -> None:
        self._update(self._marked())

    def _update(self, items: list[Any]) -> None:
        to = self._to_tell(self._stack[-1])
        pairs = list(zip(items[::2], items[1::2], strict=True))
        if isinstance(to, UnbuiltObject):
            to.told.append(pairs)
        else:
            to.update(pairs)

    def _empty_set(self) -> None:
        self._put(set())

    def _add_items(self) -> None:
        items = self._marked()
        to = self._to_tell(self._stack[-1])
        if isinstance(to, UnbuiltObject):
            to.told.append(set(items))
        else:
            to.update(items)

    def _frozenset(self) -> None:
        self._stack.append(frozenset(self._marked()))

    def _global(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._stack.append(_named(module, name))

    def _reduce(self) -> None:
        given, maker = self._stack.pop(), self._stack.pop()
        self._stack.append(self._made(maker, given))

    def _new(self) -> None:
        given, kind = self._stack.pop(), self._stack.pop()
        self._stack.append(UnbuiltObject(kind, given))

    def _new_with_names(self) -> None:
        names, given, kind = self._stack.pop(), self._stack.pop(), self._stack.pop()
        self._stack.append(UnbuiltObject(kind, (given, names)))

    def _build(self) -> None:
        state = self._stack.pop()
        to = self._to_tell(self._stack[-1])
        if not isinstance(to, UnbuiltObject):
            raise Unreadable(f"a state for a {type(to).__name__}")
        to.told.append(state)

    def _made(self, maker: Any, given: tuple[Any, ...]) -> Any:
        home, name = str(getattr(maker, "__module__", "")), str(getattr(maker, "__name__", ""))
        if maker is CodeType:
            return CodeType(*given)
        if maker is complex:
            return complex(*given)
        if home.startswith(PACKERS):
            return self._unpacked(name, given)
        if home in BROADCASTS and name == "_from_id":
            return self._broadcast(int(given[0]))
        return UnbuiltObject(maker, given)

    def _unpacked(self, name: str, given: tuple[Any, ...]) -> Any:
        match name:
            case "_make_empty_cell" | "_make_cell":
                cell = CellType(*given)
                self._own[id(cell)] = cell
                return cell
            case "_make_function":
                return self._function(*given)
            case "_function_setstate" | "_class_setstate":
                to, state = given
                return self._tell(self._to_tell(to), state)
            case _:
                return _described(name, given)

    def _function(self, code: CodeType, names: dict[str, Any], name: Any, defaults: Any, closure: Any) -> Any:
        """Over names and cells of its own: it is told more of them later."""
        own_names = names if self._is_own(names) else dict(names)
        cells = None if closure is None else tuple(one if self._is_own(one) else _copied(one) for one in closure)
        made = FunctionType(code, own_names, name, defaults, cells)
        if not is_users_function(made):
            return UnbuiltObject(code.co_qualname, _plain(code))
        self._own[id(made)] = made
        for cell in cells or ():
            self._own[id(cell)] = cell
        return made

    def _tell(self, to: Any, state: Any) -> None:
        """A function is told what it sees and what it is called, a class what it consists of."""
        if isinstance(to, UnbuiltObject):
            to.told.append([_says(one) for one in state])
            return
        more, own = state
        vars(to).update(more)
        to.__globals__.update(own["__globals__"])
        for mine, cell in zip(to.__closure__ or (), own["__closure__"] or (), strict=True):
            if (value := _held(cell)) is not MARK:
                mine.cell_contents = value
        for name in ("__name__", "__qualname__", "__module__", "__defaults__", "__kwdefaults__"):
            setattr(to, name, own[name])

    def _broadcast(self, number: int) -> UnbuiltObject:
        """A broadcast variable counts by its value, and a large one by its bytes, if these are equal in every process:
        its number is another one in each application."""
        packed = self._broadcasts[number]
        is_by_bytes = len(packed) > VALUES_BYTES_MAX and not _has_sets(packed)
        found = UnbuiltObject("broadcast", packed if is_by_bytes else _Reader(self._broadcasts).read(packed))
        self.numbers[id(found)] = number
        return found


ACTS: dict[str, Callable[[_Reader], None]] = {
    "MARK": _Reader._mark,
    "POP": _Reader._pop,
    "POP_MARK": _Reader._pop_mark,
    "DUP": _Reader._dup,
    "MEMOIZE": _Reader._memoize,
    "TUPLE": _Reader._tuple,
    "EMPTY_LIST": _Reader._empty_list,
    "LIST": _Reader._list,
    "APPEND": _Reader._append,
    "APPENDS": _Reader._appends,
    "EMPTY_DICT": _Reader._empty_dict,
    "DICT": _Reader._dict,
    "SETITEM": _Reader._set_item,
    "SETITEMS": _Reader._set_items,
    "EMPTY_SET": _Reader._empty_set,
    "ADDITEMS": _Reader._add_items,
    "FROZENSET": _Reader._frozenset,
    "STACK_GLOBAL": _Reader._global,
    "REDUCE": _Reader._reduce,
    "NEWOBJ": _Reader._new,
    "NEWOBJ_EX": _Reader._new_with_names,
    "BUILD": _Reader._build,
}


def _has_sets(packed: bytes) -> bool:
    """Do the bytes make a set? What is in it stands there in an order that is another one in each process."""
    if not any(code in packed for code in SET_CODES.values()):
        return False
    return any(opcode.name in SET_CODES for opcode, _, _ in pickletools.genops(packed))


def _named(module: str, name: str) -> Any:
    """What this process has under a name. It was packed here, so it is here."""
    found: Any = _module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _module(name: str) -> ModuleType:
    if name not in sys.modules:
        raise Unreadable(f"module {name} is not loaded")
    return sys.modules[name]


def _described(name: str, given: tuple[Any, ...]) -> Any:
    """What the packer's own makers would make, beside functions and cells. A class is told a number that is another one
    in each process, and the name of its module: both say nothing."""
    match name:
        case "_builtin_type":
            return getattr(types, given[0])
        case "subimport":
            return _module(given[0])
        case "_make_skeleton_class":
            kind, called, bases, more, *_ = given
            return UnbuiltObject("class", (kind, called, bases, _telling(more)))
        case "_make_skeleton_enum":
            bases, called, _, members, *_ = given
            return UnbuiltObject("class", (bases, called, members))
        case "_make_typevar":
            return UnbuiltObject("type variable", given[:5])
        case _:
            return UnbuiltObject(name, given)


def _plain(code: CodeType) -> list[Any]:
    """What code does, without where it stands."""
    inner = [_plain(one) if isinstance(one, CodeType) else one for one in code.co_consts]
    return [code.co_code, inner, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]


def _says(state: Any) -> Any:
    """What a state tells, with the values of cells instead of the cells."""
    if not isinstance(state, dict):
        return state
    told = _telling(state)
    cells = told.pop("__closure__", None) or ()
    return [told, [None if (value := _held(cell)) is MARK else value for cell in cells]]


def _telling(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name not in SAYS_NOTHING}


def _copied(cell: CellType) -> CellType:
    value = _held(cell)
    return CellType() if value is MARK else CellType(value)


def _held(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # Not bound yet.
        return MARK
