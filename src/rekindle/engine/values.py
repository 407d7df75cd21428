"""Values as text that is equal in every process for equal values: no address, no order of a set, no `repr` of a class
that nobody knows.

What can be taken apart can be judged: containers by what they hold, other objects by the class and the state from which
a copy would be made. Functions, classes and modules are handed to `label`, which answers with a name and looks into
them itself. Objects that belong to Spark count by their class, because the plan shows what they do; loggers and locks
too, because they change no row. What cannot be taken apart (a connection, a generator) is `Unjudged`.
"""

from __future__ import annotations

import copyreg
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any

PLAIN = (NoneType, bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
CODE = (FunctionType, type, ModuleType)
CHANGE_NO_ROW = frozenset(
    "logging.Logger logging.RootLogger logging.LoggerAdapter _thread.lock _thread.RLock _thread._local threading.local "
    "_thread._RLock builtins.member_descriptor builtins.getset_descriptor collections._tuplegetter".split()
)
Code = FunctionType | type | ModuleType


class Unjudged(Exception):
    """A value that cannot be compared with one of another process. Its text is the class."""


class Text:
    """Makes the text of values; remembers what it is inside of, so that a value that holds itself ends."""

    def __init__(self, label: Callable[[Code], str]) -> None:
        self._label = label
        self._open: list[int] = []

    def of(self, value: Any) -> str:
        """The text of a value. Raises `Unjudged`."""
        if type(value) in PLAIN:
            return repr(value)
        if isinstance(value, CODE):
            return self._label(value)
        if id(value) in self._open:
            return f"itself {self._open.index(id(value))}"
        self._open.append(id(value))
        try:
            return self._taken_apart(value)
        except RecursionError:
            raise Unjudged(class_of(value)) from None
        finally:
            self._open.pop()

    def _taken_apart(self, value: Any) -> str:
        match value:
            case list() | tuple() if type(value) in (list, tuple):
                return self._many(type(value).__name__, value)
            case dict() if type(value) is dict:
                return self._many("dict", (part for item in value.items() for part in item))
            case set() | frozenset() if type(value) in (set, frozenset):
                return f"{type(value).__name__}({', '.join(sorted(self.of(item) for item in value))})"
            case functools.partial():
                return self._many("partial", (value.func, value.args, value.keywords))
            case staticmethod() | classmethod():
                return self._many(type(value).__name__, (value.__func__,))
            case property():
                return self._many("property", (value.fget, value.fset, value.fdel))
            case functools.cached_property():
                return self._many("cached_property", (value.func,))
            case MethodType():
                return self._many("method", (value.__func__, value.__self__))
            case BuiltinFunctionType() if value.__self__ is None or isinstance(value.__self__, ModuleType):
                return f"{value.__module__}.{value.__qualname__}"
        return self._object(value)

    def _many(self, kind: str, values: Iterable[Any]) -> str:
        return f"{kind}({', '.join(self.of(value) for value in values)})"

    def _object(self, value: Any) -> str:
        name = class_of(value)
        if name in CHANGE_NO_ROW:
            return name
        top = name.partition(".")[0]
        if top in ("pyspark", "py4j") and ".types." not in name:
            return self._of_spark(value, name)
        if top == "rekindle" and not is_dataclass(value):
            return name
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, FunctionType):
            return self._many(name, (wrapped,))
        return self._many(self._label(type(value)), _state(value))

    def _of_spark(self, value: Any, name: str) -> str:
        if name.endswith("broadcast.Broadcast"):
            return self._many(name, (value.value,))
        function = vars(value).get("func") if hasattr(value, "__dict__") else None
        return name if function is None else self._many(name, (function,))


def class_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _state(value: Any) -> Iterator[Any]:
    """What Python itself would make a copy from."""
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        made: Any = reduce(value) if reduce else value.__reduce_ex__(4)
    except Exception:
        raise Unjudged(class_of(value)) from None
    if isinstance(made, str):
        yield made
        return
    maker, arguments, *more = made
    yield getattr(maker, "__name__", class_of(maker))
    yield tuple(arguments)
    for number, part in enumerate(more):
        yield list(part) if part is not None and number in (1, 2) else part
