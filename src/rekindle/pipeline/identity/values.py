"""Values as text that is equal in every process for equal values: no address, no order of a set, no `repr` of a class
that nobody knows.

What can be taken apart can be judged: containers by what they hold, other objects by the class and the state from which
a copy would be made. Functions, classes and modules are handed to `label`, which answers with a name and looks into
them itself. Frames, columns, sessions and objects of the JVM count by their class, because the plan shows what they do;
loggers, locks and streams too, because they change no row, and what holds its content weakly, because no row can rely
on it. What cannot be taken apart (a connection, a generator), or not to an end in sensible time, is an
`IncomparableValue`.
"""

from __future__ import annotations

import copyreg
import functools
import inspect
import io
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import is_dataclass
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType, NoneType
from typing import Any

from rekindle.pipeline.identity.compiled import compiled_library
from rekindle.pipeline.identity.pickle_reader import UnbuiltObject
from rekindle.pipeline.identity.recorded_names import recorded_name
from rekindle.pipeline.identity.surroundings import is_environment

PLAIN = (NoneType, bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
CODE = (FunctionType, type, ModuleType)
PATHS = (PurePosixPath, PureWindowsPath, type(Path()))
CHANGE_NO_ROW = frozenset(
    "logging.Logger logging.RootLogger logging.LoggerAdapter _thread.lock _thread.RLock _thread._local threading.local "
    "_thread._RLock builtins.member_descriptor builtins.getset_descriptor collections._tuplegetter _queue.SimpleQueue "
    "weakref.WeakKeyDictionary weakref.WeakValueDictionary _weakrefset.WeakSet weakref.ReferenceType".split()
)
OPEN_FILES = (io.TextIOWrapper, io.BufferedIOBase, io.RawIOBase)
IN_MEMORY = (io.StringIO, io.BytesIO)
# Of PySpark, what the plan shows, and what changes no row.
SHOWN_BY_PLAN = frozenset("Column DataFrame SparkSession SparkContext WindowSpec Observation PySparkLogger".split())
LONG_CHARACTERS = 200
AGAIN_CHARACTERS_MAX = 10_000_000
Code = FunctionType | type | ModuleType


class IncomparableValue(Exception):
    """A value that cannot be compared with one of another process. Its text is the class."""


class Text:
    """Makes the text of values; remembers what it is inside of, so that a value that holds itself ends."""

    def __init__(
        self,
        label: Callable[[Code], str],
        placed: Callable[[str], str] = lambda text: text,
        met: Callable[[str], None] = lambda module: None,
        is_told: Callable[[Any], bool] = lambda value: True,
    ) -> None:
        """`placed` tells a path without the machine's part of it; `met` hears the module of whatever is not Python;
        `is_told` says whether a value of PySpark's, such as a vector, is taken apart or stands as its class."""
        self._label = label
        self._placed = placed
        self._met = met
        self._is_told = is_told
        self._open: list[int] = []
        self._long: dict[int, tuple[Any, int]] = {}
        self._again = 0

    def of(self, value: Any) -> str:
        """The text of a value. Raises `IncomparableValue`."""
        if type(value) is str:
            return repr(self._placed(value))
        if type(value) in PLAIN:
            return repr(value)
        if id(value) in self._open:
            return f"itself {self._open.index(id(value))}"
        self._count(value)
        self._open.append(id(value))
        try:
            text = self._label(value) if is_a(value, CODE) else self._taken_apart(value)
            if len(text) > LONG_CHARACTERS:
                self._long[id(value)] = value, len(text)
            return text
        except IncomparableValue:
            raise
        except Exception:  # Code of the user's may run where a value is looked at, and may raise anything.
            raise IncomparableValue(class_of(value)) from None
        finally:
            self._open.pop()

    def _count(self, value: Any) -> None:
        """What is held by many is told by each of them: where they hold each other, that has no end."""
        if not self._open:
            self._long, self._again = {}, 0
        if id(value) in self._long:
            self._again += self._long[id(value)][1]
        if self._again > AGAIN_CHARACTERS_MAX:
            raise IncomparableValue(class_of(value))

    def _taken_apart(self, value: Any) -> str:
        if is_environment(value):
            return "os.environ"
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
            case MappingProxyType():
                return self._many("mappingproxy", (dict(value),))
            case ContextVar():
                return self._many("ContextVar", (value.name, value.get(None)))
            case PurePath() if (placed := self._placed(str(value))) != str(value):
                return f"{class_of(value)}({placed!r})"
            case UnbuiltObject(maker=maker, given=tuple() as pieces) if (
                maker in PATHS
            ):  # As the plan has it: packed in pieces.
                path = maker(*pieces)
                return self.of(path) if self._placed(str(path)) != str(path) else self._object(value)
            case BuiltinFunctionType() if value.__self__ is None or isinstance(value.__self__, ModuleType):
                self._met(str(value.__module__))
                return f"{value.__module__}.{value.__qualname__}"
        return self._object(value)

    def _many(self, kind: str, values: Iterable[Any]) -> str:
        return f"{kind}({', '.join(self.of(value) for value in values)})"

    def _object(self, value: Any) -> str:
        name = class_of(value)
        if name in CHANGE_NO_ROW:
            return name
        if isinstance(value, OPEN_FILES) and not isinstance(value, IN_MEMORY):
            return self._file(value)
        if name in ("ctypes.CDLL", "ctypes.PyDLL"):
            return f"{name}({compiled_library(value)})"
        self._met(str(getattr(value, "__module__", "")))
        top = name.partition(".")[0]
        if top in ("pyspark", "py4j") and ".types." not in name:
            return self._of_spark(value, name)
        if top == "rekindle" and not is_dataclass(value):
            return name
        if name == "functools._lru_cache_wrapper":
            return self._many(name, (value.__wrapped__,))
        wrapped = probed(value, "__wrapped__")
        try:
            return self._many(self._label(type(value)), _state(value))
        except IncomparableValue:
            if isinstance(wrapped, FunctionType):
                return self._many(self._label(type(value)), (wrapped,))
            raise

    def _file(self, value: Any) -> str:
        """What a file that is open for writing is called changes no row; one that is read is known by its name."""
        mode = str(getattr(value, "mode", ""))
        is_read = "r" in mode and isinstance(getattr(value, "name", None), str)
        return f"open file({self._placed(value.name)!r})" if is_read else "open file"

    def _of_spark(self, value: Any, name: str) -> str:
        if name.endswith("broadcast.Broadcast"):
            return self._many(name, (value.value,))
        function = vars(value).get("func") if hasattr(value, "__dict__") else None
        if function is not None:
            return self._many(name, (function,))
        is_shown = name.startswith("py4j.") or any(base.__name__ in SHOWN_BY_PLAN for base in type(value).__mro__)
        return name if is_shown or not self._is_told(value) else self._many(name, _state(value))


def class_of(value: Any) -> str:
    """The full name of a class as fingerprints have it, asked of `type` itself: a metaclass may answer anything."""
    module, name = (type.__dict__[one].__get__(type(value)) for one in ("__module__", "__qualname__"))
    return recorded_name(module, name) if isinstance(module, str) else f"?.{name}"


def is_a(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """`isinstance` of something that may raise when it is asked for its class."""
    try:
        return isinstance(value, kinds)
    except Exception:
        return False


def probed(value: Any, name: str) -> Any:
    """What stands under a name, or None: without running code of the user's, such as `__getattr__`."""
    return inspect.getattr_static(value, name, None)


def _state(value: Any) -> Iterator[Any]:
    """What Python itself would make a copy from."""
    reduce = copyreg.dispatch_table.get(type(value))
    try:
        made: Any = reduce(value) if reduce else value.__reduce_ex__(4)
    except Exception:
        raise IncomparableValue(class_of(value)) from None
    if isinstance(made, str):
        yield made
        return
    maker, arguments, *more = made
    yield getattr(maker, "__name__", class_of(maker))
    yield tuple(arguments)
    for number, part in enumerate(more):
        yield list(part) if part is not None and number in (1, 2) else part
